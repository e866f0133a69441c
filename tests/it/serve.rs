//! `redrive serve`.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

use crate::{
    databases::{execute, fresh_postgres, one_of_each},
    folder::Folder,
    up::Process,
};

/// A server that listens, and where.
pub(crate) fn start(folder: &Folder, store: &str) -> (Child, String) {
    let mut command = folder.command(&["serve", "--store", store, "--listen", "127.0.0.1:0"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on http://").unwrap().to_owned();
    (child, address)
}

#[test]
fn a_server_is_healthy_until_a_signal_ends_it() {
    let folder = Folder::new();
    for (store, (signal, code)) in one_of_each(&folder).iter().zip([("-TERM", 143), ("-INT", 130)])
    {
        folder.run(&["db", "migrate", "--store", store]).ok();
        let (mut child, address) = start(&folder, store);
        let mut connection = TcpStream::connect(address).unwrap();
        connection
            .write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        let id = child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(code));
    }
}

#[test]
fn an_address_that_cannot_be_listened_on_is_refused() {
    let folder = Folder::new();
    for wrong in ["localhost", "127.0.0.1", "127.0.0.1:99999", "127.0.0.1:-1", ""] {
        let listen = format!("--listen={wrong}");
        let complaint = folder.run(&["serve", &listen]).failed(2);
        assert!(complaint.contains("--listen <ADDRESS>"), "{complaint}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let complaint = folder.run(&["serve", "--listen", &address]).failed(1);
    assert!(complaint.contains(&address), "{complaint}");
}

// OPS-6
#[test]
fn a_client_that_says_nothing_more_does_not_keep_a_server_that_is_told_twice() {
    let folder = Folder::new();
    let (mut child, address) = start(&folder, "sqlite:store.db");
    let mut connection = TcpStream::connect(&address).unwrap();
    connection.write_all(b"GET /readyz HT").unwrap();
    let id = child.id().to_string();
    for _ in 0..2 {
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        // Gone at the second at the latest; the first has to be heard before it.
        while child.try_wait().unwrap().is_none() && TcpStream::connect(&address).is_ok() {}
    }
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

/// A figure of a process in kilobytes, such as `VmRSS`.
#[cfg(target_os = "linux")]
fn memory_kb(id: u32, figure: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(figure)).unwrap();
    line.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn four_lists_of_large_payloads_at_once_need_little_memory() {
    let folder = Folder::new();
    let line = format!("{{\"queue\": \"q\", \"payload\": \"{}\"}}\n", "x".repeat(1_000_000));
    folder.write("runs.jsonl", line.repeat(150));
    for store in &one_of_each(&folder) {
        folder.run(&["db", "migrate", "--store", store]).ok();
        folder.run(&["runs", "submit", "--from", "runs.jsonl", "--store", store]).ok();
        let (mut child, address) = start(&folder, store);
        let get = |path: &str| {
            let mut connection = TcpStream::connect(&address).unwrap();
            let request =
                format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
            connection.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            connection.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 OK"), "{path}: {answer:.300}");
        };
        get("/v1/overview");
        let idle = memory_kb(child.id(), "VmRSS:");
        for path in ["/v1/runs?limit=10000", "/v1/runs?limit=10000&data=true", "/runs"] {
            std::thread::scope(|scope| (0..4).for_each(|_| _ = scope.spawn(|| get(path))));
        }
        let more = memory_kb(child.id(), "VmHWM:") - idle;
        assert!(more < 100_000, "{more} kB more than {idle} kB, with {store}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

// RUN-7
#[test]
fn a_store_that_takes_no_writes_is_not_ready_and_submits_are_answered_with_503() {
    let folder = Folder::new();
    let store = fresh_postgres();
    folder.run(&["db", "migrate", "--store", &store]).ok();
    let server = Process::serving(&folder, &["serve", "--store", &store]);
    assert_eq!(server.get("/readyz").0, 200);
    let (_, database) = store.rsplit_once('/').unwrap();
    let switch = |state: &str| {
        let sql = format!("ALTER DATABASE {database} SET default_transaction_read_only = {state}");
        execute(&crate::databases::server(), &sql);
        // Sessions read the setting when they start.
        let sql = format!(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{database}'"
        );
        execute(&crate::databases::server(), &sql);
    };
    let run = r#"{"queue": "q"}"#;
    switch("on");
    // A connection whose end the pool has not noticed may be met first.
    let (status, body) = loop {
        let (status, body) = server.get("/readyz");
        assert_eq!(status, 503, "{body}");
        if body.contains("read-only") {
            break server.post("/v1/runs", run);
        }
    };
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("urn:redrive:problem:store-unavailable"), "{body}");
    assert_eq!(server.get("/healthz").0, 200);
    assert_eq!(server.get("/v1/runs").0, 200, "reads go on");
    switch("off");
    while server.get("/readyz").0 != 200 {}
    assert_eq!(server.post("/v1/runs", run).0, 201);
    let runs: serde_json::Value = serde_json::from_str(&server.get("/v1/runs").1).unwrap();
    assert_eq!(runs["items"].as_array().unwrap().len(), 1, "what was refused is not there");
}

#[test]
fn a_new_token_is_printed_once_listed_and_revoked() {
    let folder = Folder::new();
    let printed = folder.run(&["token", "new", "--name", "ci", "--role", "submitter"]).ok();
    let (token, lines) = printed.split_once("\n\n").unwrap();
    assert!(!lines.contains(token), "{printed}");
    let viewer = folder.run(&["token", "new", "--name", "ann", "--role", "viewer", "-o", "json"]);
    let viewer: serde_json::Value = serde_json::from_str(&viewer.ok()).unwrap();
    let (ann, entry) = (viewer["token"].as_str().unwrap(), viewer["config"].as_str().unwrap());
    let entry = entry.replace("sha256 = ", "revoked = true\nsha256 = ");
    folder.write("redrive.toml", format!("{lines}\n{entry}\n"));
    let listed = folder.run(&["token", "list"]).ok();
    let row = |name: &str| listed.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(row("ci").contains("submitter") && row("ann").contains("yes"), "{listed}");
    assert!(!listed.contains(token), "{listed}");
    let server = Process::serving(&folder, &["serve"]);
    let submit = |token: &str| {
        let mut connection = TcpStream::connect(server.address()).unwrap();
        let request = format!(
            "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             Connection: close\r\nContent-Type: application/json\r\nContent-Length: 30\r\n\r\n\
             {{\"queue\":\"q\",\"payload\":1     }}"
        );
        connection.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(submit(token), "201");
    assert_eq!(submit(ann), "401", "revoked");
    assert_eq!(server.get("/v1/runs").0, 401);
    for wrong in [["--name", "", "--role", "viewer"], ["--name", "x", "--role", "king"]] {
        folder.run(&[&["token", "new"], &wrong[..]].concat()).failed(2);
    }
}
