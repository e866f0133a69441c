//! A client that says exactly what it is told to, and hides nothing of the answer.

use std::net::{Ipv4Addr, SocketAddr};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no answer: {text:?}"));
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// A header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The body as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The body of an answer that went well.
    #[track_caller]
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()
    }

    /// The problem of an answer with this status.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], status, "{problem}");
        let kind = problem["type"].as_str().unwrap_or_default();
        assert!(kind.starts_with("urn:redrive:problem:"), "{problem}");
        let told = |field: &str| problem[field].as_str().is_some_and(|text| !text.is_empty());
        assert!(told("title") && told("detail"), "{problem}");
        problem
    }
}

/// Someone who asks a server.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    address: SocketAddr,
    from: Ipv4Addr,
    headers: Vec<(String, String)>,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, from: Ipv4Addr::LOCALHOST, headers: Vec::new() }
            .with("Host", &address.to_string())
    }

    /// Where the server is.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same with another header, or another value for it.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut headers = self.headers.clone();
        headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        headers.push((name.to_owned(), value.to_owned()));
        Self { headers, ..self.clone() }
    }

    /// The same from another address of this machine.
    pub(crate) fn from(&self, last: u8) -> Self {
        Self { from: Ipv4Addr::new(127, 0, 0, last), ..self.clone() }
    }

    /// A connection on which nothing was asked.
    pub(crate) async fn connect(&self) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((self.from, 0).into()).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    /// With a token.
    pub(crate) fn bearing(&self, token: &str) -> Self {
        self.with("Authorization", &format!("Bearer {token}"))
    }

    /// As a browser that shows pages of the server's own.
    pub(crate) fn browsing(&self) -> Self {
        self.with("Accept", "text/html,*/*;q=0.8").with("Sec-Fetch-Site", "same-origin")
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None, "").await
    }

    /// Posts JSON.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, Some("application/json"), &body.to_string()).await
    }

    /// Posts a form.
    pub(crate) async fn submit(&self, path: &str, form: &str) -> Answer {
        self.send("POST", path, Some("application/x-www-form-urlencoded"), form).await
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        kind: Option<&str>,
        body: &str,
    ) -> Answer {
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(kind) = kind {
            head.push_str(&format!("Content-Type: {kind}\r\n"));
        }
        if method != "GET" {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        self.raw(format!("{head}\r\n{body}").as_bytes()).await
    }

    /// Sends bytes as they are.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> Answer {
        Answer::read(&self.exchange(bytes).await)
    }

    /// The status of an answer to bytes, if the server says anything to them.
    pub(crate) async fn raw_status(&self, bytes: &[u8]) -> Option<u16> {
        let mut connection = self.connect().await;
        _ = connection.write_all(bytes).await;
        // Bytes that are no request may have the server wait for more.
        _ = connection.shutdown().await;
        let mut answer = Vec::new();
        _ = connection.read_to_end(&mut answer).await;
        (!answer.is_empty()).then(|| Answer::read(&answer).status)
    }

    pub(crate) async fn exchange(&self, bytes: &[u8]) -> Vec<u8> {
        let mut connection = self.connect().await;
        // A server that has heard enough may hang up before the end of a long request.
        _ = connection.write_all(bytes).await;
        let mut answer = Vec::new();
        _ = connection.read_to_end(&mut answer).await;
        answer
    }

    /// A connection on which something was asked, and nothing read yet.
    pub(crate) async fn open(&self, path: &str) -> TcpStream {
        let mut connection = self.connect().await;
        let host = self.address;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        connection.write_all(request.as_bytes()).await.unwrap();
        connection
    }
}
