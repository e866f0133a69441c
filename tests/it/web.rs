//! Requests over HTTP, for tests that ask a server as any program could.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
};

use serde_json::Value;

/// Asks, and says with which status and what was answered.
#[track_caller]
pub(crate) fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> (u16, String) {
    let body = body.map(Value::to_string).unwrap_or_default();
    send(address, method, path, "application/json", &body)
}

/// A form as a browser sends it.
pub(crate) const FORM: &str = "application/x-www-form-urlencoded\r\nSec-Fetch-Site: same-origin";

/// The same with a body of any kind.
#[track_caller]
pub(crate) fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    kind: &str,
    body: &str,
) -> (u16, String) {
    let mut connection = TcpStream::connect(address).unwrap();
    write!(
        connection,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = BufReader::new(connection);
    let (mut status, mut length, mut is_chunked) = (0, None, false);
    loop {
        let mut line = String::new();
        answer.read_line(&mut line).unwrap();
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if status == 0 {
            status = line.split(' ').nth(1).unwrap().parse().unwrap();
        }
        match line.split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = Some(value.trim().parse().unwrap());
            }
            Some((name, _)) if name.eq_ignore_ascii_case("transfer-encoding") => is_chunked = true,
            _ => {}
        }
    }
    let mut body = Vec::new();
    match length {
        Some(length) => _ = answer.take(length).read_to_end(&mut body).unwrap(),
        None if is_chunked => body = chunks(&mut answer),
        None => _ = answer.read_to_end(&mut body).unwrap(),
    }
    (status, String::from_utf8(body).unwrap())
}

/// The chunks of a body whose length nobody knew before.
fn chunks(answer: &mut impl BufRead) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        answer.read_line(&mut line).unwrap();
        let length = u64::from_str_radix(line.trim_end(), 16).unwrap();
        answer.by_ref().take(length).read_to_end(&mut body).unwrap();
        answer.read_line(&mut line).unwrap();
        if length == 0 {
            return body;
        }
    }
}
