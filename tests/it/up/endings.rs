//! How it ends.

use std::{fs, process::Command};

use super::{Process, folder};
use crate::{databases::one_of_each, folder::Folder};

fn make_gate(folder: &Folder) {
    let gate = folder.path().join("gate");
    assert!(Command::new("mkfifo").arg(gate).status().unwrap().success());
}

fn submit(folder: &Folder, store: &str, category: &str) {
    let run = ["runs", "submit", "--queue", "work", "--category", category, "--store", store];
    folder.run(&run).ok();
}

fn status(folder: &Folder, store: &str, category: &str) -> String {
    let list = ["runs", "list", "--category", category, "--store", store, "-o", "json"];
    folder.run(&list).json()[0]["status"].as_str().unwrap().to_owned()
}

// OPS-6
#[test]
fn running_work_may_end_after_a_signal() {
    let here = folder();
    make_gate(&here);
    for (store, (signal, code)) in one_of_each(&here).iter().zip([("-TERM", 143), ("-INT", 130)]) {
        let mut up = Process::up(&here, &["--store", store, "--grace", "10m"]);
        submit(&here, store, "gate");
        up.until("a handler has it", || status(&here, store, "gate") == "processing");
        up.signal(signal);
        up.wait_for("stopping");
        fs::write(here.path().join("gate"), "through\n").unwrap();
        let (ended, log) = up.end();
        assert_eq!(ended, Some(code), "{log}");
        assert_eq!(status(&here, store, "gate"), "passed");
        here.run(&["doctor", "--store", store]).ok();
    }
}

// OPS-6
#[test]
fn what_does_not_end_within_the_grace_time_is_handed_back_uncounted() {
    let here = folder();
    make_gate(&here);
    for store in one_of_each(&here) {
        let mut up = Process::up(&here, &["--store", &store, "--grace", "100ms"]);
        submit(&here, &store, "gate");
        up.until("a handler has it", || status(&here, &store, "gate") == "processing");
        up.signal("-TERM");
        let (ended, log) = up.end();
        assert_eq!(ended, Some(143), "{log}");
        assert_eq!(status(&here, &store, "gate"), "discovered", "{log}");
        here.run(&["doctor", "--store", &store]).ok();
    }
}

// OPS-6
#[test]
fn a_second_signal_ends_it_at_once() {
    let here = folder();
    make_gate(&here);
    let store = "sqlite:store.db";
    let mut up = Process::up(&here, &["--store", store, "--grace", "10m"]);
    submit(&here, store, "stuck");
    up.until("a handler has it", || status(&here, store, "stuck") == "processing");
    up.signal("-TERM");
    up.wait_for("stopping");
    up.signal("-INT");
    assert_eq!(up.end().0, Some(130));
    assert_eq!(status(&here, store, "stuck"), "processing", "it comes back when its lease ends");
}
