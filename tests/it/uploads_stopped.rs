//! `redrive uploads run` that is stopped, or whose server goes away, before it has ended.

use serde_json::json;

use crate::{
    upload_server::{Received, Reply},
    upload_shop::{SOON, UploadShop},
    uploads::by_name,
};

// UPL-8, OPS-6
#[test]
fn ctrl_c_during_a_sleep_does_not_wait_for_its_end_and_leaves_everything_in_order() {
    let config = "backoff-base = \"1h\"\nbackoff-cap = \"1h\"\n";
    for shop in UploadShop::both(config, by_name) {
        shop.add("bad", "x");
        shop.add("good", "y");
        for (rejected, (signal, code)) in [("-INT", 130), ("-TERM", 143)].into_iter().enumerate() {
            let mut upload = shop.start();
            upload.wait_for("retry 1 in 1h");
            upload.signal(signal);
            let (ended, summary, log) = upload.end();
            assert_eq!(ended, Some(code), "{log}");
            // A sleep that came to its end would be a retry.
            let told = ["retry_count", "interrupted", "pending"].map(|name| &summary[name]);
            assert_eq!(told, [&json!(0), &json!(true), &json!(1)], "{summary}");
            assert!(summary["next_retry_at"].is_string(), "{summary}");
            assert_eq!(shop.item("bad")["upload_attempts"], rejected + 1);
            assert_eq!(shop.server.times()["bad"], rejected + 1);
            shop.doctor();
        }
        assert_eq!(shop.item("good")["status"], "uploaded");
        assert_eq!(shop.server.times()["good"], 1);
    }
}

// UPL-1, OPS-6
#[test]
fn after_a_stop_what_is_under_way_may_end_and_the_rest_is_not_begun() {
    let (open, opened) = std::sync::mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(opened);
    let script = move |_: &Received| {
        gate.lock().unwrap().recv().unwrap();
        Reply::status(200)
    };
    let shop = UploadShop::on_sqlite("concurrency = 1\n", script);
    for name in ["a", "b", "c"] {
        shop.add(name, name);
    }
    let mut upload = shop.start();
    upload.wait_for("uploading with retries");
    while shop.server.received().is_empty() {
        std::thread::yield_now();
    }
    upload.signal("-TERM");
    upload.wait_for("stopping");
    open.send(()).unwrap();
    assert_eq!(upload.end().0, Some(143));
    assert_eq!(shop.server.received().len(), 1);
    let statuses = ["a", "b", "c"].map(|name| shop.item(name)["status"].clone());
    assert_eq!(statuses, ["uploaded", "pending", "pending"]);
    assert_eq!(shop.item("b")["last_attempt"], 0);
    shop.doctor();
}

// UPL-1, UPL-3
#[test]
fn a_server_that_goes_away_in_the_middle_costs_the_unsent_nothing() {
    // Answers one, and takes no connection after that.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/items", listener.local_addr().unwrap());
    let once = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        drop(listener);
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\nx") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let answer = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let shop = UploadShop::on_sqlite(&format!("{SOON}concurrency = 1\n"), by_name);
    for name in ["a", "b", "c"] {
        shop.add(name, "x");
    }
    let config = shop.shop.folder.read("redrive.toml").replace(&shop.server.url(), &url);
    shop.shop.folder.write("redrive.toml", config);
    let complaint = shop.upload().failed(1);
    assert!(complaint.contains("cannot be reached"), "{complaint}");
    once.join().unwrap();
    let statuses = ["a", "b", "c"].map(|name| shop.item(name)["status"].clone());
    assert_eq!(statuses, ["uploaded", "pending", "pending"]);
    assert_eq!(
        (&shop.item("b")["upload_attempts"], &shop.item("b")["last_attempt"]),
        (&json!(0), &json!(0))
    );
    shop.doctor();
}

// UPL-8, OPS-6
#[test]
fn a_stop_ends_a_check_that_takes_long() {
    let check =
        "ready = { exec = [\"/bin/sh\", \"-c\", \"echo asked > asked; exec sleep 600\"] }\n";
    let shop = UploadShop::on_sqlite(&format!("{SOON}timeout = \"10m\"\n{check}"), by_name);
    shop.add("good", "x");
    let path = std::env::var("PATH").unwrap();
    let mut command = shop.shop.command(&["uploads", "run", "--upload", "tiles", "--group", "g"]);
    command
        .env("PATH", path)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let child = command.spawn().unwrap();
    while !shop.shop.folder.path().join("asked").exists() {
        std::thread::yield_now();
    }
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(143));
    assert_eq!(shop.server.received(), []);
}
