//! `examples/llm-pipeline` does what it says.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

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

// PIP-1, PIP-3, PIP-5, PIP-7, PIP-8, HANDLERS-4
#[test]
fn the_example_is_completed_once_its_outage_is_over() {
    let folder = Folder::new();
    let example = root().join("examples/llm-pipeline");
    for file in ["redrive.toml", "server.py", "clean.py", "score.py", "prompts.jsonl"] {
        folder.write(file, fs::read(example.join(file)).unwrap());
    }
    let Some(server) = Server::start(&folder) else {
        eprintln!("skipped: there is no python3 here");
        return;
    };
    let config = folder.read("redrive.toml").replace("127.0.0.1:9124", &server.1);
    folder.write("redrive.toml", config);
    folder.run(&["check"]).ok();
    let path = std::env::var("PATH").unwrap();
    let told = |arguments: &[&str], code: i32| -> Value {
        let arguments = [arguments, &["-o", "json", "-q", "-q"]].concat();
        let ended = folder.run_with(&[("PATH", &path)], &arguments);
        assert_eq!(ended.code, Some(code), "{ended:#?}");
        serde_json::from_str(&ended.stdout).unwrap()
    };
    let run = told(&["pipeline", "run", "score"], 3);
    assert_eq!((&run["status"], &run["dlq"]), (&json!("partial_success"), &json!(3)));
    let causes = told(&["dlq", "list", "--group"], 0);
    let codes: Vec<_> = causes.as_array().unwrap().iter().map(|cause| &cause["code"]).collect();
    assert_eq!(codes, ["503", "bad_line", "400"]);
    told(&["dlq", "reprocess", "--code", "503"], 0);
    let run = told(&["pipeline", "resume", "1"], 0);
    assert_eq!((&run["status"], &run["succeeded"]), (&json!("completed"), &json!(41)));
    let output = folder.run(&["pipeline", "output", "1"]).ok();
    assert_eq!(output.lines().count(), 41);
    for line in output.lines() {
        let sample: Value = serde_json::from_str(line).unwrap();
        assert_eq!(sample["answer"], format!("You said: {}", sample["prompt"].as_str().unwrap()));
        assert!(sample["score"].is_number(), "{sample}");
    }
    let story = told(&["why", "sample:9"], 0);
    let waited = &story["stages"][1]["attempts"][0];
    assert_eq!((&waited["counted"], &waited["delay_s"]), (&json!(false), &json!(1)));
    folder.run(&["doctor"]).ok();
}
