//! The document that describes the API.

use std::process::Command;

use serde_json::Value;

use crate::{metrics::tool, site::Running};

pub(crate) fn document() -> Value {
    serde_json::from_str(include_str!("../../assets/openapi.json")).unwrap()
}

/// Method, path and description of every operation.
pub(crate) fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    let of_path = |(path, item): (&String, &Value)| {
        let methods = item.as_object().unwrap().iter();
        let one = |(method, operation): (&String, &Value)| {
            (method.to_uppercase(), path.clone(), operation.clone())
        };
        methods.map(one).collect::<Vec<_>>()
    };
    paths.flat_map(of_path).collect()
}

fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str));
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn the_document_is_whole() {
    let document = document();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"), "{}", document["openapi"]);
    assert!(document["info"]["title"].is_string() && document["info"]["version"].is_string());
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > 30, "{found:?}");
    for reference in found {
        let place = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(place).is_some(), "{reference} leads nowhere");
    }
}

#[test]
fn every_operation_says_what_it_does_and_how_it_is_refused() {
    let document = document();
    let mut ids = Vec::new();
    for (method, path, operation) in operations(&document) {
        let is_told = operation["summary"].as_str().is_some_and(|text| text.len() > 5);
        assert!(is_told, "{method} {path}: {operation}");
        ids.push(operation["operationId"].as_str().unwrap().to_owned());
        let responses = operation["responses"].as_object().unwrap();
        assert!(responses.keys().any(|status| status.starts_with('2')), "{method} {path}");
        for (status, response) in responses {
            let is_told = response["description"].as_str().is_some_and(|text| !text.is_empty());
            assert!(is_told, "{method} {path} {status} has no description");
        }
        for (status, response) in responses.iter().filter(|(status, _)| !status.starts_with('2')) {
            let schema = &response["content"]["application/problem+json"]["schema"];
            assert_eq!(
                schema["$ref"], "#/components/schemas/ProblemDetails",
                "{method} {path} {status}"
            );
        }
        assert!(responses.contains_key("default"), "{method} {path}");
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let is_in_path = path.contains(&format!("{{{}}}", parameter["name"].as_str().unwrap()));
            assert_eq!(parameter["in"] == "path", is_in_path, "{path}: {parameter}");
        }
    }
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count, "each operation has a name of its own: {ids:?}");
}

#[tokio::test]
async fn every_described_route_exists() {
    let site = Running::full().await;
    let served = site.client.get("/openapi.json").await.ok();
    assert_eq!(served, document());
    for (method, path, _) in operations(&served) {
        let path = path
            .replace(
                "{source}/{customer_id}/{query_name}/{logical_date}",
                "ads/1234/daily/2026-01-02",
            )
            .replace("{id}", "1")
            .replace("{queue}", "work")
            .replace("{pipeline}", "flour")
            .replace("{action}", "retry");
        let answer = site.client.send(&method, &path, Some("application/json"), "[").await;
        assert!(!answer.body.contains("no such path"), "{method} {path}: {answer:?}");
        assert_ne!(answer.status, 405, "{method} {path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_is_valid_and_a_generated_client_understands_every_response() {
    let tools = tool("python-tools");
    let folder = tempfile::tempdir().unwrap();
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/openapi.json");
    let generated = folder.path().join("redrive_client");
    let generated = generated.to_str().unwrap();
    run(&format!("{tools}/openapi-spec-validator"), &[document]);
    let options = ["generate", "--path", document, "--meta", "none", "--output-path", generated];
    run(&format!("{tools}/openapi-python-client"), &options);
    let site = Running::full().await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/generated_client.py");
    let server = format!("http://{}", site.client.address());
    run(&format!("{tools}/python"), &[script, folder.path().to_str().unwrap(), &server]);
}

#[track_caller]
fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy;
    let said = [text(&output.stdout), text(&output.stderr)].concat();
    assert!(output.status.success(), "{program} {arguments:?}\n{said}");
}
