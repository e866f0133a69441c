//! A server that receives items as a script says, and counts what it received.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, mpsc},
    thread,
};

/// An item as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) name: String,
    pub(crate) key: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
    /// How often this name came, from 1.
    pub(crate) time: usize,
}

/// What the server does with it.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Status(u16, &'static str, String),
    /// Closes the connection without a word.
    Drop,
    /// Says nothing until the other side is gone.
    Silence,
}

impl Reply {
    pub(crate) fn status(status: u16) -> Self {
        Self::Status(status, "", String::new())
    }
}

type Script = dyn Fn(&Received) -> Reply + Send + Sync;

/// The server. It lives as long as the tests.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    /// Gets every item, once it is written down.
    pub(crate) arrivals: mpsc::Receiver<Received>,
}

impl Server {
    pub(crate) fn new(script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let (log, script): (_, Arc<Script>) = (received.clone(), Arc::new(script));
        let (sender, arrivals) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (log, script, sender) = (log.clone(), script.clone(), sender.clone());
                thread::spawn(move || converse(stream.unwrap(), &log, &*script, &sender));
            }
        });
        Self { address, received, arrivals }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/items", self.address)
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// How often each name came.
    pub(crate) fn times(&self) -> BTreeMap<String, usize> {
        let mut times = BTreeMap::new();
        for item in self.received() {
            *times.entry(item.name).or_default() += 1;
        }
        times
    }

    pub(crate) fn forget(&self) {
        self.received.lock().unwrap().clear();
    }
}

fn converse(
    stream: TcpStream,
    log: &Mutex<Vec<Received>>,
    script: &Script,
    arrivals: &mpsc::Sender<Received>,
) {
    let mut stream = BufReader::new(stream);
    while let Some(mut item) = read(&mut stream) {
        {
            let mut log = log.lock().unwrap();
            item.time = 1 + log.iter().filter(|known| known.name == item.name).count();
            log.push(item.clone());
        }
        let reply = script(&item);
        _ = arrivals.send(item);
        match reply {
            Reply::Status(status, headers, body) => {
                let length = body.len();
                let head =
                    format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n{headers}\r\n");
                if stream.get_mut().write_all(format!("{head}{body}").as_bytes()).is_err() {
                    return;
                }
            }
            Reply::Drop => return stream.get_ref().shutdown(Shutdown::Both).unwrap_or_default(),
            Reply::Silence => {
                _ = stream.read(&mut [0]);
                return;
            }
        }
    }
}

fn read(stream: &mut impl BufRead) -> Option<Received> {
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        if let Some((name, value)) = line.trim_end().split_once(": ") {
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    let header = |name: &str| headers.get(name).cloned().unwrap_or_default();
    let (name, key) = (header("redrive-item"), header("idempotency-key"));
    Some(Received { name, key, headers, body, time: 0 })
}
