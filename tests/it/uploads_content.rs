//! What is added is what is sent: content that is kept, left in place, changed, large, or strange.

use std::fs;

use serde_json::{Value, json};

use crate::{
    upload_server::{Received, Reply},
    upload_shop::{SOON, UploadShop},
};

fn accept(_: &Received) -> Reply {
    Reply::status(200)
}

const ADD: [&str; 6] = ["uploads", "add", "--upload", "tiles", "--group", "g"];

// UPL-1
#[test]
fn content_is_kept_by_its_hash_and_sent_as_it_was_added() {
    for shop in UploadShop::both(SOON, accept) {
        let large: Vec<u8> = (0..3_000_000_u32).map(|n| (n / 7) as u8).collect();
        shop.add("large", &large);
        shop.add("empty", "");
        shop.add("one", "the same");
        shop.add("two", "the same");
        for name in ["large", "one", "two", "empty"] {
            fs::remove_file(shop.shop.folder.path().join(name)).unwrap();
        }
        let url = shop.item("one")["content_url"].as_str().unwrap().to_owned();
        let hash = url.strip_prefix("sha256:").unwrap();
        assert_eq!(shop.item("two")["content_url"], url.as_str());
        let kept = format!("raw/items/sha256/{}/{}", &hash[..2], &hash[2..]);
        assert_eq!(shop.shop.folder.read(&kept), "the same");
        shop.uploaded(0);
        let received = shop.server.received();
        let body =
            |name: &str| received.iter().find(|item| item.name == name).unwrap().body.clone();
        assert!(body("large") == large);
        assert_eq!((body("empty"), body("one")), (Vec::new(), b"the same".to_vec()));
    }
}

// UPL-1
#[test]
fn content_that_has_changed_since_is_rejected_and_never_arrives_as_a_whole() {
    let shop = UploadShop::on_sqlite(&format!("{SOON}max-in-call-retries = 0\n"), accept);
    let large = vec![7; 1_000_000];
    let files = [
        ("same", b"same".to_vec()),
        ("shorter", b"12345".to_vec()),
        ("longer", b"1".to_vec()),
        ("other", b"abc".to_vec()),
        ("gone", b"gone".to_vec()),
        ("tail", large.clone()),
    ];
    for (name, content) in &files {
        shop.shop.folder.write(name, content);
        shop.shop.run(&[&ADD[..], &["--in-place", name]].concat()).ok();
    }
    let folder = &shop.shop.folder;
    folder.write("shorter", "1").write("longer", "12").write("other", "abd");
    fs::remove_file(folder.path().join("gone")).unwrap();
    let mut changed = large;
    *changed.last_mut().unwrap() = 8;
    folder.write("tail", changed);
    let summary = shop.uploaded(3);
    assert_eq!((&summary["uploaded"], &summary["rejected"]), (&json!(1), &json!(5)));
    let whole: Vec<String> = shop.server.received().into_iter().map(|item| item.name).collect();
    assert_eq!(whole, ["same"], "nothing else arrived as a whole");
    for (name, words) in [
        ("shorter", "has 1 bytes now and had 5"),
        ("longer", "has 2 bytes now and had 1"),
        ("other", "its hash is"),
        ("gone", "cannot read"),
        ("tail", "its hash is"),
    ] {
        let item = shop.item(name);
        let reason = item["rejection_reason"].as_str().unwrap();
        assert!(reason.contains(words), "{name}: {reason}");
        assert_eq!((&item["upload_attempts"], &item["status"]), (&json!(1), &json!("pending")));
    }
    shop.doctor();
}

// UPL-1, UPL-2
#[test]
fn content_on_a_disk_that_is_not_mounted_costs_its_items_nothing() {
    let config = format!("{SOON}max-in-call-retries = 1\nmax-item-attempts = 2\n");
    for shop in UploadShop::both(&config, accept) {
        let path = |name: &str| shop.shop.folder.path().join(name);
        let name = |n| if n < 5 { format!("item-{n}") } else { format!("disk/item-{n}") };
        let names: Vec<String> = (0..10).map(name).collect();
        let untouched = |words: &str| {
            for _ in 0..2 {
                let message = shop.upload().failed(1);
                assert!(message.contains("the items cannot be read"), "{message}");
                assert!(message.contains(words), "{message}");
            }
            for name in &names {
                let item = shop.item(name);
                let state = (&item["status"], &item["upload_attempts"]);
                assert_eq!(state, (&json!("pending"), &json!(0)), "{item}");
            }
            assert!(shop.server.received().is_empty());
        };
        for name in &names[..5] {
            shop.add(name, format!("kept as {name}"));
        }
        for name in &names[5..] {
            shop.shop.folder.write(name, format!("left at {name}"));
            shop.shop.run(&[&ADD[..], &["--in-place", name]].concat()).ok();
        }
        for disk in ["raw", "disk"] {
            fs::rename(path(disk), path(&format!("{disk} elsewhere"))).unwrap();
        }
        untouched("is its disk mounted?");
        fs::create_dir(path("raw")).unwrap();
        fs::create_dir(path("disk")).unwrap();
        untouched("is its disk mounted?");
        shop.shop.folder.write("raw/items/not-mounted", "").write("disk/not-mounted", "");
        untouched("the content of all 10 pending items is missing");

        fs::remove_dir_all(path("raw")).unwrap();
        fs::rename(path("raw elsewhere"), path("raw")).unwrap();
        fs::remove_dir_all(path("disk")).unwrap();
        let summary = shop.uploaded(3);
        assert_eq!((&summary["uploaded"], &summary["rejected"]), (&json!(5), &json!(0)));
        assert_eq!(shop.item("disk/item-7")["upload_attempts"], 0, "its folder is not there");

        fs::rename(path("disk elsewhere"), path("disk")).unwrap();
        fs::remove_file(path("disk/item-7")).unwrap();
        let summary = shop.uploaded(3);
        assert_eq!((&summary["uploaded"], &summary["given_up"]), (&json!(4), &json!(1)));
        assert!(
            shop.item("disk/item-7")["rejection_reason"].as_str().unwrap().contains("cannot read")
        );
        let id = &shop.item("disk/item-7")["id"];
        let why = shop.shop.run(&["why", &format!("item:{id}")]).ok();
        assert!(why.contains("uploads replace"), "{why}");
        shop.doctor();
    }
}

// UPL-1, OPS-4
#[test]
fn a_list_is_added_line_by_line_and_what_cannot_be_is_refused_by_its_place() {
    for shop in UploadShop::both(SOON, accept) {
        let folder = &shop.shop.folder;
        folder.write("a", "a").write("b", "b").write("dir/c", "c");
        let lines = [
            json!({ "path": "a" }).to_string(),
            json!({ "path": "./b", "name": "renamed ünï %/..", "in_place": true }).to_string(),
            json!({ "path": "dir" }).to_string(),
            json!({ "path": "nowhere" }).to_string(),
            json!({ "path": "dir/c", "sha256": "00" }).to_string(),
            json!({ "path": "a", "nmae": "typo" }).to_string(),
            json!({ "path": "a", "name": "" }).to_string(),
            json!({ "path": "b", "name": "a" }).to_string(),
            "not JSON".to_owned(),
            String::new(),
            json!({ "path": "a" }).to_string(),
        ];
        let arguments = [&ADD[..], &["--from", "-", "-o", "json"]].concat();
        let ended = shop.shop.run_reading(lines.join("\n"), &arguments);
        assert_eq!(ended.code, Some(3), "{ended:#?}");
        let tally: Value = serde_json::from_str(&ended.stdout).unwrap();
        let counts = ["accepted", "duplicate", "refused", "size_bytes"].map(|name| &tally[name]);
        assert_eq!(counts, [2, 1, 7, 2], "{tally}");
        shop.uploaded(0);
        let mut names: Vec<String> =
            shop.server.received().into_iter().map(|item| item.name).collect();
        names.sort();
        assert_eq!(names, ["a", "renamed%20%C3%BCn%C3%AF%20%25/.."]);
    }
}

// OPS-4
#[test]
fn what_is_not_there_is_refused_clearly() {
    let shop = UploadShop::on_sqlite(SOON, accept);
    let run = |arguments: &[&str]| shop.shop.run(arguments);
    let typo = run(&["uploads", "run", "--upload", "tile", "--group", "g"]).failed(2);
    assert!(typo.contains("did you mean") && typo.contains("tiles"), "{typo}");
    let empty = run(&["uploads", "run", "--upload", "tiles", "--group", "nobody"]).failed(1);
    assert!(empty.contains("upload \"tiles\" has no group \"nobody\""), "{empty}");
    run(&["uploads", "show", "7"]).failed(1);
    run(&["uploads", "reset"]).failed(4);
    let all = run(&[&ADD[..], &["nowhere", "-o", "json"]].concat());
    assert_eq!(all.code, Some(1), "{all:#?}");
    assert_eq!(run(&["uploads", "list", "--status", "gone"]).code, Some(2));
    assert_eq!(run(&["uploads", "list", "-o", "json"]).json(), json!([]));
}

// UPL-2, OPS-6
#[test]
fn a_file_of_give_ups_survives_a_crash_in_the_middle_of_a_line() {
    let config = format!("{SOON}max-item-attempts = 1\ngiveup-file = \"out/giveups.jsonl\"\n");
    let reject = |_: &Received| Reply::Status(422, "", "no".to_owned());
    for shop in UploadShop::both(&config, reject) {
        shop.shop.folder.write("out/giveups.jsonl", "{\"someone\": \"else\"}\n");
        for name in ["a", "b", "c"] {
            shop.add(name, name);
        }
        shop.uploaded(3);
        let whole = shop.shop.folder.read("out/giveups.jsonl");
        assert_eq!(whole.lines().count(), 4, "{whole}");
        // A crash in mid-line, and one before the line was begun.
        let cut = whole.len() - 20;
        shop.shop.folder.write("out/giveups.jsonl", &whole[..cut]);
        shop.uploaded(3);
        assert_eq!(shop.shop.folder.read("out/giveups.jsonl"), whole);
        fs::remove_file(shop.shop.folder.path().join("out/giveups.jsonl")).unwrap();
        shop.uploaded(3);
        let again = shop.shop.folder.read("out/giveups.jsonl");
        assert_eq!(again.lines().count(), 3);
        assert!(whole.ends_with(&again), "the same lines");
        // A folder that is gone does not stop an upload.
        fs::remove_dir_all(shop.shop.folder.path().join("out")).unwrap();
        shop.add("d", "d");
        assert_eq!(shop.uploaded(3)["given_up"], 1);
    }
}
