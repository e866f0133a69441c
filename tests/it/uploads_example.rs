//! `examples/uploads` does what it says.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use serde_json::json;

use crate::{folder::Folder, source_tree::root};

/// The server of the example, on a port of its own. It ends with its test.
struct Server(Child, String);

impl Server {
    fn start(folder: &Folder) -> Option<Self> {
        let mut command = Command::new("python3");
        command.args(["server.py", "0"]).current_dir(folder.path()).stdout(Stdio::piped());
        let mut child = command.spawn().ok()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        Some(Self(child, address))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

// UPL-1, UPL-2
#[test]
fn the_example_uploads_what_it_can_and_gives_up_the_rest() {
    let folder = Folder::new();
    let example = root().join("examples/uploads");
    let tiles = ["tiles/good.txt", "tiles/lost.txt", "tiles/slow.txt", "tiles/torn.txt"];
    for file in ["redrive.toml", "server.py"].into_iter().chain(tiles) {
        folder.write(file, fs::read(example.join(file)).unwrap());
    }
    let Some(server) = Server::start(&folder) else {
        eprintln!("skipped: there is no python3 here");
        return;
    };
    let config = folder.read("redrive.toml").replace("127.0.0.1:9123", &server.1);
    folder.write("redrive.toml", config);
    folder.run(&["check"]).ok();
    let group = ["--upload", "tiles", "--group", "flight-7"];
    let add = [&["uploads", "add"][..], &group, &tiles].concat();
    folder.run(&add).ok();
    let path = std::env::var("PATH").unwrap();
    for (given_up, status) in [(0, "pending"), (1, "upload_giveup")] {
        let run = [&["uploads", "run"][..], &group, &["--now", "-q", "-q", "-o", "json"]].concat();
        let ended = folder.run_with(&[("PATH", &path)], &run);
        assert_eq!(ended.code, Some(3), "{ended:#?}");
        let summary: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(summary["given_up_in_all"], given_up);
        let items = folder.run(&["uploads", "list", "-o", "json"]).json();
        let statuses: Vec<_> =
            items.as_array().unwrap().iter().map(|item| &item["status"]).collect();
        assert_eq!(
            statuses,
            [&json!("uploaded"), &json!("uploaded"), &json!("uploaded"), &json!(status)]
        );
    }
    assert_eq!(folder.read("giveups.jsonl").lines().count(), 1);
    for (item, code) in [(2, "connection_reset"), (3, "429"), (4, "422")] {
        let story = folder.run(&["why", &format!("item:{item}"), "-o", "json"]).json();
        assert_eq!(story["attempts"][0]["code"], code, "{story:#}");
    }
    folder.run(&["doctor"]).ok();
}
