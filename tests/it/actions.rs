//! An action that is declared is a command, a route and, as far as it is declared, a link and a button.

use redrive_ops::{
    Changeable,
    views::{PartitionView, SampleView},
};
use redrive_store::{ItemRecord, RunRecord, Selection};
use serde_json::{Value, json};

use crate::{
    fair::{Fair, Serving},
    upload_server::{Reply, Server},
    web::{FORM, ask, send},
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
    let receiver = Server::new(|_| Reply::status(201));
    let upload = format!("[[upload]]\nname = \"kept\"\nurl = \"{}\"\n", receiver.url());
    let fair = Fair::on_sqlite(&upload);
    let group = ["--upload", "kept", "--group", "g"];
    fair.told(&[&["uploads", "add", "one.png"], &group[..]].concat());
    fair.told(&[&["uploads", "run"], &group[..]].concat());
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

// PAR-8, FIX-4
#[test]
fn a_button_respects_missing_raw_data_and_leads_to_the_flag_for_it() {
    let fair = Fair::on_sqlite("");
    let server = fair.serve(&[]);
    std::fs::remove_dir_all(fair.shop.folder.path().join("raw")).unwrap();
    let body = "ids=ads%2F1234%2Fdaily%2F2026-11-01";
    let (status, page) = send(server.address, "POST", "/partitions/act/reprocess", FORM, body);
    assert!(status == 303 && page.is_empty(), "{page}");
    let path = format!("/partitions/preview?action=reprocess&{body}");
    let preview = server.text(&path);
    assert!(preview.contains("1 refused") && preview.contains("name=\"force\""), "{preview}");
    let preview = server.text(&format!("{path}&force=true"));
    let confirmed = preview.contains("Reprocess 1 partition now");
    assert!(confirmed && preview.contains("name=\"force\" value=\"true\""), "{preview}");
}

// FIX-1
#[test]
fn an_item_is_repaired_from_its_page() {
    let fair = Fair::on_sqlite("");
    let server = fair.serve(&[]);
    assert!(server.text("/uploads/1").contains("action=\"/uploads/1/replace\""));
    let kind = "multipart/form-data; boundary=edge\r\nSec-Fetch-Site: same-origin";
    let part = |name: &str, text: &str| {
        format!("--edge\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{text}\r\n")
    };
    let replace = |parts: &str| {
        send(server.address, "POST", "/uploads/1/replace", kind, &format!("{parts}--edge--\r\n"))
    };
    let (status, answer) = replace(&part("reason", "no file"));
    assert!(status == 400 && answer.contains("nothing was changed"), "{answer}");
    let (status, answer) = replace(&(part("file", "repaired") + &part("reason", "it was torn")));
    assert_eq!(status, 303, "{answer}");
    let item = &fair.printed(&["uploads", "show", "1"])[0];
    assert_eq!((&item["status"], &item["size_bytes"]), (&json!("pending"), &json!(8)));
    let page = server.text("/uploads/1");
    assert!(page.contains("it was torn") && page.contains(">Drop</button>"), "{page}");
}
