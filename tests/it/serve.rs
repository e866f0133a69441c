//! `redrive serve`.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

use crate::{databases::one_of_each, folder::Folder};

/// A server that listens, and where.
fn start(folder: &Folder, store: &str) -> (Child, String) {
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
