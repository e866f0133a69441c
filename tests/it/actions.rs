//! An action that is declared is a command, a route and, as far as it is declared, a link and a button.

use redrive_ops::{
    Changeable,
    views::{PartitionView, SampleView},
};
use redrive_store::{ItemRecord, RunRecord, Selection};
use serde_json::{Value, json};

use crate::{
    fair::{Fair, Serving},
    web::ask,
};

/// Looks at all units of a list of the API, each on its page.
fn unit_pages(server: &Serving, list: &str, page: impl Fn(&Value) -> String) -> Vec<String> {
    let units = server.get(list);
    units["items"].as_array().unwrap().iter().map(|unit| server.text(&page(unit))).collect()
}

#[track_caller]
fn check<R: Changeable>(fair: &Fair, server: &Serving, api: &str, list: &str, units: &[String]) {
    let (path, listed) = (list.split('?').next().unwrap(), server.text(list));
    let document = server.get("/openapi.json");
    for action in R::actions() {
        let name = action.name;
        if let Some(help) = action.help() {
            let shown = fair.shop.run(&[R::COMMAND, name, "--help"]).ok();
            assert!(shown.contains(&help) && shown.starts_with(&action.about()), "{shown}");
            for option in action.options {
                assert!(shown.contains(&format!("--{}", option.name.replace('_', "-"))), "{shown}");
            }
        }
        let route = format!("{api}/{name}");
        let about = format!("{}.", action.about());
        assert_eq!(document["paths"][&route]["post"]["summary"], json!(about), "{route}");
        let body = match action.options.iter().any(|option| option.name == "text") {
            true => json!({ "text": "seen" }),
            false => json!({}),
        };
        let (status, refused) = ask(server.address, "POST", &route, Some(&body));
        assert!(status == 400 && refused.contains("are selected"), "{route}: {refused}");
        let link = format!("href=\"{path}/preview?action={name}&");
        let is_for_all = (action.is_for_all)(&Selection::default());
        assert_eq!(listed.contains(&link), is_for_all, "{name}: {listed}");
        for button in action.buttons {
            let form = format!("action=\"{path}/act/{name}\"");
            let label = format!(">{}</button>", button.label);
            let is_offered = |page: &String| page.contains(&form) && page.contains(&label);
            assert!(units.iter().any(is_offered), "{path} {name} {}", button.label);
        }
    }
}

// OPS-3, OPS-4
#[test]
fn every_declared_action_is_a_command_a_route_a_link_and_a_button() {
    let fair = Fair::on_sqlite("");
    fair.told(&["state", "mark-terminal", "partition:ads/1234/daily/2026-11-03"]);
    let server = fair.serve(&[]);
    let by_id = |list, path: &str| unit_pages(&server, list, |it| format!("{path}/{}", it["id"]));
    let runs = by_id("/v1/runs", "/runs");
    check::<RunRecord>(&fair, &server, "/v1/runs", "/runs?queue=work", &runs);
    let items = by_id("/v1/items", "/uploads");
    check::<ItemRecord>(&fair, &server, "/v1/items", "/uploads?upload=tiles", &items);
    let samples = by_id("/v1/dead-letters", "/dead-letters");
    check::<SampleView>(&fair, &server, "/v1/dead-letters", "/dead-letters", &samples);
    let partitions = unit_pages(&server, "/v1/partitions", |it| {
        let part = |name: &str| it[name].as_str().unwrap();
        let parts = ["source", "customer_id", "query_name", "logical_date"].map(part);
        format!("/partitions/{}", parts.join("/"))
    });
    let list = "/partitions?month=2026-11";
    check::<PartitionView>(&fair, &server, "/v1/partitions", list, &partitions);
}
