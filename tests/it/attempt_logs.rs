//! `redrive logs`: what a handler printed, from the command line and over HTTP.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use crate::{folder::Folder, shop::Shop};

// LOG-1, LOG-3
#[test]
fn the_log_of_each_attempt_can_be_printed_on_both_stores() {
    for shop in Shop::both() {
        let [flaky, bad] = shop.drained(&["flaky", "escape"])[..] else { panic!() };
        let (flaky, bad) = (format!("run:{flaky}"), format!("run:{bad}"));
        assert_eq!(shop.run(&["logs", &flaky, "--attempt", "1", "-q"]).ok(), "not yet\n");
        assert_eq!(shop.run(&["logs", &flaky, "-q"]).ok(), "{\"ok\": \"at last\"}\n", "the newest");
        let followed = shop.run(&["logs", &flaky, "--attempt", "1", "--follow", "-q"]).ok();
        assert_eq!(followed, "not yet\n", "an attempt that has ended is followed to its end");
        let log = shop.run(&["logs", &bad, "-o", "json"]).json();
        assert_eq!(log["log"], "red   \\u{202e}", "{log}");
        assert_eq!(
            (log["attempt"].as_i64(), log["printed"].as_i64()),
            (Some(1), Some(16)),
            "{log}"
        );
    }
}

// LOG-1, OPS-4
#[test]
fn what_has_no_log_is_told_with_what_to_do() {
    let shop = Shop::on_sqlite();
    let [fine] = shop.drained(&["down"])[..] else { panic!() };
    let said = shop.run(&["logs", &format!("run:{fine}"), "--attempt", "9"]).failed(1);
    assert!(said.contains("attempt 9 has no log") && said.contains("success-logs"), "{said}");
    let said = shop.run(&["logs", "run:999"]).failed(1);
    assert!(said.contains("there is no run:999"), "{said}");
    let said = shop.run(&["logs", "run:1", "--follow", "-o", "json"]).failed(2);
    assert!(said.contains("--follow prints text"), "{said}");
    shop.run(&["logs", "run:1", "--attempt", "0"]).failed(2);
    shop.run(&["logs", "nothing"]).failed(2);
}

// LOG-1
#[test]
fn a_running_attempt_is_followed_to_its_end() {
    let config = "[[queue]]\nname = \"work\"\nhandler = { exec = [\"/bin/sh\", \"work.sh\"] }\nsuccess-logs = \"1/d\"\n";
    let handler =
        "echo begun >&2; read -r word < gate; echo \"said $word\" >&2; echo '{\"ok\": 1}'";
    let shop = Shop::selling(Folder::new(), "sqlite:store.db", config, handler);
    shop.make_gate();
    let id = shop.submit("");
    let mut worker = shop.command(&["worker", "--drain", "-q", "-q"]).spawn().unwrap();
    let mut follower = shop
        .command(&["logs", &format!("run:{id}"), "--follow", "-q"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "begun");
    shop.open_gate("go");
    let mut rest: Vec<String> = lines.map(Result::unwrap).collect();
    rest.sort_unstable();
    assert_eq!(rest, ["said go", "{\"ok\": 1}"], "two pipes have no common order");
    assert!(follower.wait().unwrap().success() && worker.wait().unwrap().success());
}

// LOG-1
#[test]
fn settings_of_logs_are_checked() {
    let config = "[[queue]]\nname = \"work\"\nhandler = { exec = [\"true\"] }\nkeep-log = \"2MiB\"\nsuccess-logs = \"few\"\n";
    let folder = Folder::with_config(config);
    let said = folder.run(&["check"]);
    assert_eq!(said.code, Some(1));
    for part in ["\"2MiB\" is not allowed", "at most \"1MiB\"", "\"few\" is not a rate"] {
        assert!(said.stderr.contains(part), "{part:?} is not in {}", said.stderr);
    }
}
