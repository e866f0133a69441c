//! `docs/deploying.md`, `examples/deploy` and the README: what they say can be said, and what they promise happens.

use std::{fs, process::Command};

use crate::{
    databases::fresh_postgres,
    folder::Folder,
    source_tree::{root, source_files},
    up::{Process, Quickstart},
};

/// Every command line of Redrive in a page, for a shell or within a line, or in a unit and its comments.
fn commands(path: &str, text: &str) -> Vec<String> {
    let is_page = path.ends_with(".md");
    // What the block is in that a page is at, if it is in one.
    let mut block = None;
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some(language) = line.strip_prefix("```") {
            block = if block.is_some() { None } else { Some(language) };
        } else if is_page && block.is_none() {
            let code = line.split('`').skip(1).step_by(2);
            found.extend(code.filter(|code| code.starts_with("redrive ")).map(str::to_owned));
        } else if !is_page || block == Some("sh") {
            let line = line.trim_start_matches(['#', ' ']);
            let starts =
                ["sudo -u redrive ", "ExecStart=/usr/local/bin/", "-e REDRIVE_OPERATOR_TOKEN "];
            let line =
                starts.into_iter().find_map(|start| line.strip_prefix(start)).unwrap_or(line);
            found.extend(line.starts_with("redrive ").then(|| line.to_owned()));
        }
    }
    found
}

/// The arguments of a command line, as a shell reads them.
fn arguments(command: &str, folder: &Folder) -> Vec<String> {
    let script = format!("set -- {command}\nshift\nprintf '%s\\n' \"$@\"");
    // Where a command is redirected to a file, that is made.
    let mut shell = Command::new("sh");
    let output = shell.current_dir(folder.path()).args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn pages_and_units() -> impl Iterator<Item = (&'static str, &'static str)> {
    let files = source_files().iter().map(|file| (file.path.as_str(), file.text.as_str()));
    files.filter(|(path, _)| {
        ["README.md", "docs/deploying.md"].contains(path) || path.starts_with("examples/deploy/")
    })
}

// OPS-4
#[test]
fn every_command_of_the_pages_and_the_units_is_one() {
    let folder = Folder::new();
    let mut known = 0;
    for (path, text) in pages_and_units() {
        let found = commands(path, text);
        assert!(!found.is_empty(), "{path} has no command");
        for command in found {
            let given = arguments(&command, &folder);
            let given: Vec<&str> = given.iter().map(String::as_str).collect();
            let ended = folder.run(&[&given[..], &["--help"]].concat());
            assert_eq!(ended.code, Some(0), "{path}: {command}\n{}", ended.stderr);
            known += 1;
        }
    }
    assert!(known > 60, "{known}");
    let wrong = folder.run(&["worker", "--queus", "a", "--help"]);
    assert_eq!(wrong.code, Some(2), "a flag that is none is found");
}

#[test]
fn systemd_has_nothing_to_say_against_the_units() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        eprintln!("skipped: there is no systemd here");
        return;
    }
    let folder = Folder::new();
    let mut units = Vec::new();
    for (path, text) in pages_and_units().filter(|(path, _)| path.ends_with(".service")) {
        let name = path.rsplit('/').next().unwrap();
        folder.write(name, text.replace("/usr/local/bin/redrive", env!("CARGO_BIN_EXE_redrive")));
        units.push(folder.path().join(name));
    }
    assert_eq!(units.len(), 4);
    let verify = |units: &[std::path::PathBuf]| {
        let mut command = Command::new("systemd-analyze");
        command.args(["verify", "--man=no"]).args(units).output().unwrap()
    };
    let verified = verify(&units);
    assert!(verified.status.success() && verified.stderr.is_empty(), "{verified:?}");
    let broken = fs::read_to_string(&units[0]).unwrap().replace("ProtectHome=", "ProtectHous=");
    folder.write("broken.service", broken);
    assert!(!verify(&[folder.path().join("broken.service")]).stderr.is_empty());
}

#[test]
fn the_container_builds_from_what_is_there() {
    let text = fs::read_to_string(root().join("examples/deploy/Containerfile")).unwrap();
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, rest) = manifest.split_once("rust-version = \"").unwrap();
    let version = rest.split('"').next().unwrap();
    assert!(text.contains(&format!("rust:{version}-alpine")), "the Rust that Cargo.toml asks for");
}

// OPS-1, OPS-6, OPS-7, DMN-2
#[test]
fn a_worker_a_daemon_and_a_server_apart_do_what_one_process_does() {
    let store = fresh_postgres();
    let quickstart = Quickstart::copy(Some(store.clone()));
    let folder = &quickstart.folder;
    let complaint = folder.run(&["worker", "--store", &store]).failed(1);
    assert!(complaint.contains("redrive db migrate"), "no worker migrates: {complaint}");
    folder.run(&["db", "migrate", "--store", &store, "-q"]).code.unwrap();
    quickstart.told(&["runs", "submit", "--from", "orders.jsonl"]);
    quickstart.told(&["pipeline", "run", "menu", "--detach"]);

    let start = |arguments: &[&str]| {
        Process::start(folder.command(&[arguments, &["--store", &store]].concat()))
    };
    let mut parts = [
        start(&["worker", "--queues", "orders"]),
        start(&["worker", "--sources", "weather", "--pipelines", "menu"]),
        start(&["daemon", "--interval", "1s"]),
    ];
    let server = Process::serving(folder, &["serve", "--store", &store]);
    parts[0].until("everything has come to its end", || quickstart.is_settled());
    quickstart.check();
    assert_eq!(server.get("/readyz").0, 200);
    let (status, runs) = server.get("/v1/runs?status=error");
    assert_eq!((status, runs.contains("fishmonger")), (200, true), "{runs}");
    for part in parts.into_iter().chain([server]) {
        part.signal("-TERM");
        let (code, log) = part.end();
        assert_eq!(code, Some(143), "{log}");
    }
    folder.run(&["doctor", "--store", &store]).ok();
}
