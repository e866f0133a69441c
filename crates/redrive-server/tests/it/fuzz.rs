//! Requests made up from the document: whatever they say, the server answers them and goes on.

use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use serde_json::{Map, Value, json};

use crate::{
    document::{document, operations},
    site::Running,
};

/// Requests for each operation.
const TRIES: usize = 25;

/// Texts that something else might be made of.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        prop::sample::select(vec![
            "",
            "work",
            "error",
            "ads",
            "retry",
            "1",
            "-1",
            "2026-01-02",
            "9999-12-31",
            "0000-00-00",
            "ads/1234/daily/2026-01-02",
            "run:1",
            "sample:1",
            "partition:ads/1234/daily/2026-01-02",
            "flour",
            "\u{0}",
            "%",
            "_",
            "9223372036854775807",
            "[terminal]",
            "\u{202e}",
        ])
        .prop_map(str::to_owned),
        "[ -~]{0,300}",
    ]
}

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        (-3_i64..30).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
    ]
}

/// Whatever JSON there is.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number(),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| prop::collection::vec(inner, 0..4).prop_map(Value::from))
}

/// Something a schema describes, for the most part.
fn of_schema(document: &Value, schema: &Value, runner: &mut TestRunner) -> Value {
    let mut draw = |strategy: BoxedStrategy<Value>| strategy.new_tree(runner).unwrap().current();
    if draw((0_u8..12).prop_map(Value::from).boxed()) == 0 {
        return draw(anything().boxed());
    }
    if let Some(reference) = schema["$ref"].as_str() {
        let schema = document.pointer(&reference[1..]).unwrap();
        return of_schema(document, schema, runner);
    }
    for choice in ["oneOf", "anyOf"] {
        if let Some(schemas) = schema[choice].as_array() {
            let place = draw((0..schemas.len()).prop_map(Value::from).boxed()).as_u64().unwrap();
            return of_schema(document, &schemas[place as usize], runner);
        }
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds[0].as_str().unwrap_or_default(),
        kind => kind.as_str().unwrap_or_default(),
    };
    match kind {
        "object" => {
            let mut object = Map::new();
            for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
                let is_needed = schema.get("required").is_some();
                let coin = any::<bool>().new_tree(runner).unwrap().current();
                if is_needed || coin {
                    object.insert(name.clone(), of_schema(document, schema, runner));
                }
            }
            Value::Object(object)
        }
        "array" => {
            let length = (0_usize..4).new_tree(runner).unwrap().current();
            (0..length).map(|_| of_schema(document, &schema["items"], runner)).collect()
        }
        "integer" | "number" => draw(number().boxed()),
        "boolean" => draw(any::<bool>().prop_map(Value::from).boxed()),
        _ => draw(text().prop_map(Value::from).boxed()),
    }
}

fn encoded(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_asked_of_an_operation_is_answered() {
    let (site, document) = (Running::full().await, document());
    let mut runner = TestRunner::deterministic();
    let mut good = 0;
    for (method, path, operation) in operations(&document) {
        for _ in 0..TRIES {
            let (mut path, mut asked) = (path.clone(), Vec::new());
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let name = parameter["name"].as_str().unwrap();
                let value = of_schema(&document, &parameter["schema"], &mut runner);
                match parameter["in"].as_str() {
                    Some("path") => path = path.replace(&format!("{{{name}}}"), &encoded(&value)),
                    Some("query") if any::<bool>().new_tree(&mut runner).unwrap().current() => {
                        asked.push(format!("{name}={}", encoded(&value)));
                    }
                    _ => {}
                }
            }
            let target = format!("{path}?{}", asked.join("&"));
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            let body = match schema {
                Value::Null => json!({}),
                schema => of_schema(&document, schema, &mut runner),
            };
            let body = body.to_string();
            let answer = site.client.send(&method, &target, Some("application/json"), &body).await;
            assert!(answer.status < 500, "{method} {target} {body}: {answer:?}");
            match answer.status {
                200..300 => good += 1,
                status => drop(answer.problem(status)),
            }
        }
    }
    assert!(good > 100, "{good} were understood");
    assert_eq!(site.client.get("/readyz").await.status, 200);
}
