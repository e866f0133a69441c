//! A process that serves until it is told to stop, whose log is read as it comes.

use std::{
    io::{BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
};

use crate::folder::Folder;

/// One of them. It does not outlive its test.
pub(crate) struct Process {
    child: Child,
    log: Receiver<String>,
    read: String,
    address: String,
}

impl Process {
    /// `redrive up` at a port of its own, once it answers.
    #[track_caller]
    pub(crate) fn up(folder: &Folder, arguments: &[&str]) -> Self {
        Self::serving(folder, &[&["up"], arguments].concat())
    }

    /// A command that listens, at a port of its own, once it answers.
    #[track_caller]
    pub(crate) fn serving(folder: &Folder, arguments: &[&str]) -> Self {
        Self::starting(folder, arguments).listening()
    }

    /// A command that will listen, at a port of its own.
    pub(crate) fn starting(folder: &Folder, arguments: &[&str]) -> Self {
        let listen = ["--listen", "127.0.0.1:0"];
        Self::start(folder.command(&[arguments, &listen].concat()))
    }

    /// Waits until it answers.
    #[track_caller]
    pub(crate) fn listening(mut self) -> Self {
        let line = self.wait_for("http://127.0.0.1:");
        let (_, url) = line.split_once("http://").unwrap();
        self.address = url.trim_end().trim_end_matches('"').to_owned();
        self
    }

    /// Any command.
    pub(crate) fn start(mut command: Command) -> Self {
        command.env("PATH", std::env::var_os("PATH").unwrap());
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, log) = channel();
        // Read by a thread, so that a process that has much to tell never waits for its test.
        thread::spawn(move || {
            let mut line = Vec::new();
            for byte in stderr.bytes().map_while(Result::ok) {
                // What is drawn on a terminal goes back to the beginning of its line.
                if byte == b'\n' || byte == b'\r' {
                    _ = sender.send(String::from_utf8_lossy(&line).into_owned());
                    line.clear();
                } else {
                    line.push(byte);
                }
            }
        });
        Self { child, log, read: String::new(), address: String::new() }
    }

    /// Where it answers.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Reads the log until a line has these words.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, words: &str) -> String {
        loop {
            let Ok(line) = self.log.recv() else {
                panic!("it ended and never said {words:?}:\n{}", self.read);
            };
            self.read.push_str(&line);
            self.read.push('\n');
            if line.contains(words) {
                return line;
            }
        }
    }

    /// Looks until something is so, as long as the process lives.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, mut is_so: impl FnMut() -> bool) {
        while !is_so() {
            let ended = self.child.try_wait().unwrap();
            assert_eq!(ended, None, "it ended before {what}:\n{}", self.read);
        }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// Waits for its end: the exit code, and the whole log.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        while let Ok(line) = self.log.recv() {
            self.read.push_str(&line);
            self.read.push('\n');
        }
        (self.child.wait().unwrap().code(), std::mem::take(&mut self.read))
    }

    /// What it answers to a GET: the status and the body.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        self.ask(&format!("GET {path} HTTP/1.1\r\n"), "")
    }

    /// What it answers to a POST of JSON.
    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: &str) -> (u16, String) {
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n"
        );
        self.ask(&head, body)
    }

    /// What it answers to a PUT of any content.
    #[track_caller]
    pub(crate) fn put(&self, path: &str, content: &str) -> (u16, String) {
        let length = content.len();
        self.ask(&format!("PUT {path} HTTP/1.1\r\nContent-Length: {length}\r\n"), content)
    }

    #[track_caller]
    fn ask(&self, head: &str, body: &str) -> (u16, String) {
        let mut connection = TcpStream::connect(&self.address).unwrap();
        let request = format!("{head}Host: {}\r\nConnection: close\r\n\r\n{body}", self.address);
        connection.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), body.to_owned())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended, and was waited for, is not signalled.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
