//! `redrive queue`.

use serde_json::json;

use crate::{folder::Folder, shop::Shop};

// RUN-6
#[test]
fn a_paused_queue_is_not_worked_on_until_it_is_resumed() {
    for shop in Shop::both() {
        let id = shop.submit("fine");
        let pause = ["queue", "pause", "work", "--reason", "until noon", "-o", "json"];
        let mut command = shop.command(&pause);
        let paused = shop.folder.ended(command.env("LOGNAME", "ada").output().unwrap());
        assert_eq!(paused.json(), json!({ "queue": "work", "paused": true, "changed": true }));
        assert_eq!(shop.run(&pause).json()["changed"], false, "it was paused already");

        shop.drain();
        assert_eq!(shop.status(id), "discovered");
        let listed = shop.run(&["queue", "list", "-o", "json"]).json();
        let work = &listed[1];
        assert_eq!(
            json!([
                work["queue"],
                work["declared"],
                work["paused"],
                work["paused_by"],
                work["reason"]
            ]),
            json!(["work", true, true, "ada", "until noon"])
        );
        let next = shop.why(id)["next"]["because"].as_str().unwrap().to_owned();
        assert!(next.contains("but ada paused the queue at"), "{next}");
        assert!(next.ends_with("(until noon)"), "{next}");

        let resumed = shop.run(&["queue", "resume", "work", "-o", "json"]).json();
        assert_eq!(resumed, json!({ "queue": "work", "paused": false, "changed": true }));
        let again = shop.run(&["queue", "resume", "work"]).ok();
        assert!(again.contains("was not paused"), "{again}");
        shop.drain();
        assert_eq!(shop.status(id), "passed");
    }
}

// RUN-6
#[test]
fn queues_are_listed_whether_declared_used_or_paused() {
    for shop in Shop::both() {
        let complaint = shop.run(&["queue", "pause", "wrok"]).failed(4);
        assert!(complaint.contains("no queue \"wrok\"; nothing was changed"), "{complaint}");
        assert!(complaint.contains("did you mean `work`? (--allow-unknown"), "{complaint}");
        shop.run(&["queue", "pause", "wrok", "--allow-unknown"]).ok();
        shop.run(&["runs", "submit", "--queue", "old", "-q", "--allow-unknown"]).ok();
        let table = shop.run(&["queue", "list"]).ok();
        let names: Vec<&str> =
            table.lines().skip(1).map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(names, ["old", "patient", "work", "wrok"]);
        assert!(table.contains("no: unroutable"), "{table}");
    }
}

// OPS-4
#[test]
fn a_name_that_no_queue_can_have_is_refused() {
    let long = "x".repeat(513);
    for action in ["pause", "resume"] {
        for (name, part) in [("", "must not be empty"), (long.as_str(), "513 bytes")] {
            let folder = Folder::new();
            let complaint = folder.run(&["queue", action, name]).failed(2);
            assert!(complaint.contains(part), "{complaint}");
            assert!(!folder.path().join("redrive.db").exists());
        }
        Folder::new().run(&["queue", action]).failed(2);
    }
}
