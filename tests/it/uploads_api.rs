//! Adding items and sending groups over HTTP, from a server in a process of its own.

use serde_json::{Value, json};

use crate::{
    up::Process,
    upload_server::{Received, Reply},
    upload_shop::{SOON, UploadShop},
};

/// Long waits: whoever is told to stop is in one of them.
const LATE: &str = "backoff-base = \"1h\"\nbackoff-cap = \"2h\"\nlease = \"30s\"\n";

fn by_name(item: &Received) -> Reply {
    match (item.name.as_str(), item.time) {
        ("flaky", 1) => Reply::Status(503, "", "not yet".to_owned()),
        ("bad", _) => Reply::Status(422, "", "broken tile".to_owned()),
        _ => Reply::status(201),
    }
}

/// A server on the shop's store, once it answers.
fn serving(shop: &UploadShop, command: &str) -> Process {
    Process::start(shop.shop.command(&[command, "--listen", "127.0.0.1:0"])).listening()
}

#[track_caller]
fn put(server: &Process, name: &str, content: &str) -> Value {
    let (status, body) = server.put(&format!("/v1/uploads/tiles/groups/g/items/{name}"), content);
    assert!(matches!(status, 200 | 201), "{name}: {status} {body}");
    serde_json::from_str(&body).unwrap()
}

#[track_caller]
fn send(server: &Process) {
    let (status, body) = server.post("/v1/uploads/tiles/groups/g/send", "{}");
    assert_eq!(status, 202, "{body}");
}

// UPL-1, UPL-2, UPL-7, UPL-8
#[test]
fn what_a_server_was_given_and_told_to_send_is_what_the_command_line_sees() {
    let config = format!("{SOON}giveup-file = \"giveups.jsonl\"\nmax-item-attempts = 2\n");
    for command in ["serve", "up"] {
        for shop in UploadShop::both(&config, by_name) {
            let mut server = serving(&shop, command);
            for name in ["good", "flaky", "bad"] {
                let added = put(&server, name, &format!("the bytes of {name}"));
                assert_eq!(added, shop.item(name));
            }
            // The same file from the command line is there already, and another is refused.
            shop.add("good", "the bytes of good");
            shop.shop.folder.write("bad", "others");
            let other = ["uploads", "add", "--upload", "tiles", "--group", "g", "bad"];
            assert_eq!(shop.shop.run(&other).code, Some(1));
            send(&server);
            server.wait_for("sent the group");
            let item = |name: &str| shop.item(name)["status"].as_str().unwrap().to_owned();
            let statuses = ["good", "flaky", "bad"].map(item);
            assert_eq!(statuses, ["uploaded", "uploaded", "upload_giveup"]);
            let told: Value =
                serde_json::from_str(&shop.shop.folder.read("giveups.jsonl")).unwrap();
            assert_eq!((&told["event"], &told["attempts"]), (&json!("upload.giveup"), &json!(2)));
            let received = shop.server.received();
            let bytes =
                |item: &Received| item.body == format!("the bytes of {}", item.name).as_bytes();
            assert!(received.iter().all(bytes), "{received:?}");
            shop.doctor();
            server.signal("-TERM");
            assert_eq!(server.end().0, Some(143));
        }
    }
}

// UPL-7, UPL-8, OPS-6
#[test]
fn a_server_stopped_while_it_sends_leaves_the_rest_to_whoever_comes_next() {
    for command in ["serve", "up"] {
        for shop in UploadShop::both(LATE, by_name) {
            let mut server = serving(&shop, command);
            put(&server, "good", "x");
            put(&server, "flaky", "y");
            send(&server);
            server.wait_for("retrying the pending items");
            // While it waits, nobody else sends the group.
            let (status, busy) = server.post("/v1/uploads/tiles/groups/g/send", "{}");
            assert!(status == 409 && busy.contains(" since "), "{status} {busy}");
            let refused = shop.upload().failed(4);
            assert!(refused.contains(" since 20") && refused.contains("local (api)"), "{refused}");
            server.signal("-TERM");
            let (code, log) = server.end();
            assert_eq!(code, Some(143), "{log}");
            assert!(log.contains("interrupted=true"), "{log}");
            assert_eq!(shop.item("flaky")["upload_attempts"], 1);
            shop.doctor();
            let summary = shop.uploaded(0);
            assert_eq!((&summary["uploaded"], &summary["total"]), (&json!(1), &json!(2)));
            shop.doctor();
        }
    }
}

// UPL-7
#[test]
fn a_group_that_another_process_sends_is_refused_with_who_and_since_when() {
    for shop in UploadShop::both(LATE, by_name) {
        let servers = [serving(&shop, "serve"), serving(&shop, "serve")];
        let [mut first, second] = servers;
        put(&first, "flaky", "y");
        let (status, begun) = first.post("/v1/uploads/tiles/groups/g/send", "{}");
        let begun: Value = serde_json::from_str(&begun).unwrap();
        first.wait_for("retrying the pending items");
        let (again, busy) = second.post("/v1/uploads/tiles/groups/g/send", "{}");
        assert_eq!((status, again), (202, 409), "{busy}");
        let said = format!(
            "by {} since {}, for local (api)",
            begun["worker"].as_str().unwrap(),
            begun["began_at"].as_str().unwrap()
        );
        assert!(busy.contains(&said), "{said}: {busy}");
    }
}

// UPL-7, OPS-6
#[test]
fn a_server_killed_while_it_sends_frees_the_group_with_its_lease() {
    let config = LATE.replace("30s", "1s");
    for shop in UploadShop::both(&config, by_name) {
        let mut server = serving(&shop, "serve");
        put(&server, "flaky", "y");
        send(&server);
        server.wait_for("retrying the pending items");
        server.signal("-KILL");
        server.end();
        // Refused as long as the lease lasts, and then no longer.
        while shop.upload().code == Some(4) {}
        assert_eq!(shop.item("flaky")["status"], "uploaded");
        shop.doctor();
    }
}

// UPL-1
#[test]
fn a_server_without_the_secrets_of_an_upload_serves_the_rest_and_says_why_it_cannot_send() {
    let config = "headers = { authorization = { env = \"TILES_TOKEN\" } }\n";
    let shop = UploadShop::on_sqlite(config, by_name);
    let server = serving(&shop, "serve");
    put(&server, "good", "x");
    let (status, body) = server.post("/v1/uploads/tiles/groups/g/send", "{}");
    assert_eq!(status, 422, "{body}");
    assert!(body.contains("TILES_TOKEN"), "{body}");
    let missing = server.post("/v1/uploads/none/groups/g/send", "{}");
    assert_eq!(missing.0, 404, "{}", missing.1);
}
