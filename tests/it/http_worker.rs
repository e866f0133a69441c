//! A queue whose handler is a server.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener},
    sync::Arc,
    thread,
};

use rustls::{ServerConfig, ServerConnection, StreamOwned, crypto::ring, pki_types::PrivateKeyDer};
use serde_json::{Value, json};

use crate::{databases::one_of_each, folder::Folder, shop::Shop};

const SECRET: &str = "planted-7f3a9c";

/// A server that does what the category of the run asks for. It lives as long as the tests.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || converse(stream.unwrap()));
        }
    });
    address
}

fn converse(stream: impl Read + Write) {
    let mut stream = BufReader::new(stream);
    while let Some((headers, call)) = read_request(&mut stream) {
        let (status, more, body) = respond(&headers, &call);
        let length = body.len();
        let answer = format!("HTTP/1.1 {status} X\r\n{more}content-length: {length}\r\n\r\n{body}");
        stream.get_mut().write_all(answer.as_bytes()).unwrap();
        stream.get_mut().flush().unwrap();
    }
}

fn respond(headers: &str, call: &Value) -> (u16, &'static str, String) {
    let attempt = call["attempt"].as_u64().unwrap();
    match (call["category"].as_str().unwrap(), attempt) {
        ("fine", _) => (200, "", json!({"choices": [{"message": call["payload"]}]}).to_string()),
        ("flaky", 1) => (503, "", "not yet".to_owned()),
        ("limited", 1) => (429, "Retry-After: 0\r\n", String::new()),
        ("flaky" | "limited", _) => {
            (200, "", r#"{"choices": [{"message": "at last"}]}"#.to_owned())
        }
        ("gone", _) => (410, "", "it is gone".to_owned()),
        ("strange", _) => (200, "", "{}".to_owned()),
        _ => (401, "", format!("who is this?\n{headers}")),
    }
}

pub(crate) fn read_request(reader: &mut impl BufRead) -> Option<(String, Value)> {
    let (mut headers, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim_end().parse().unwrap();
        }
        headers.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((headers, serde_json::from_slice(&body).unwrap()))
}

fn config() -> String {
    format!(
        r#"
[[queue]]
name = "work"
policy = {{ max-attempts = 3, base = "10ms", cap = "1s" }}

[queue.handler.http]
url = "http://{}/work"
headers = {{ authorization = {{ env = "WORK_TOKEN", prefix = "Bearer " }} }}
reply = "/choices/0/message"
"#,
        serve()
    )
}

fn shops() -> [Shop; 2] {
    let [sqlite, postgres] = [Folder::new(), Folder::new()];
    let [_, postgres_url] = one_of_each(&sqlite);
    let config = config();
    [
        Shop::selling(sqlite, "sqlite:store.db", &config, ""),
        Shop::selling(postgres, &postgres_url, &config, ""),
    ]
}

// HANDLERS-4, CLS-2, OPS-7
#[test]
fn a_queue_with_a_server_behind_it_is_drained_and_no_secret_is_left_anywhere() {
    for shop in shops() {
        let categories = ["fine", "flaky", "limited", "gone", "strange", "echo"];
        let ids: Vec<i64> = categories.iter().map(|category| shop.submit(category)).collect();
        let mut worker = shop.command(&["worker", "--drain", "-v"]);
        worker.env("WORK_TOKEN", SECRET).env("HTTP_PROXY", "http://127.0.0.1:1");
        let worked = shop.folder.ended(worker.output().unwrap());
        assert_eq!(worked.code, Some(0), "{}", worked.stderr);

        let shown: Vec<Value> = ids.iter().map(|id| shop.show(*id)).collect();
        let short = |run: &Value| {
            json!([run["status"], run["attempts"], run["error_class"], run["error_code"]])
        };
        let ends: Vec<Value> = shown.iter().map(short).collect();
        let code = |index: usize| shop.why(ids[index])["attempts"][0]["code"].clone();
        assert_eq!(ends[0][0], "passed", "{shown:?}");
        assert_eq!(ends.iter().map(|end| &end[1]).collect::<Vec<_>>(), [1, 2, 2, 1, 3, 1]);
        assert_eq!(
            ends.iter().map(|end| end[2].clone()).collect::<Vec<_>>(),
            [
                json!(null),
                json!(null),
                json!(null),
                json!("final"),
                json!("retryable"),
                json!("final")
            ]
        );
        assert_eq!([1, 2, 3, 4, 5].map(code), ["503", "429", "410", "bad_reply", "401"]);
        assert_eq!(shown[1]["result"], "at last");
        assert_eq!(shown[3]["error_message"], "the server answered 410 Gone\nit is gone");

        let said = shown[5]["error_message"].as_str().unwrap();
        assert!(said.contains("authorization: Bearer [$WORK_TOKEN]"), "{said}");
        assert!(said.contains(&format!("idempotency-key: run:{}", ids[5])), "{said}");
        let everything = format!("{}{shown:?}{:?}", worked.stderr, shop.why(ids[5]));
        assert!(!everything.contains(SECRET), "{everything}");
        if let Ok(file) = std::fs::read(shop.folder.path().join("store.db")) {
            assert!(!String::from_utf8_lossy(&file).contains(SECRET), "it is in the store");
        }
        shop.run(&["doctor"]).ok();
    }
}

// HANDLERS-4, OPS-6
#[test]
fn a_request_that_does_not_end_in_time_is_handed_back_uncounted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = listener.local_addr().unwrap();
    let config = format!(
        "[[queue]]\nname = \"work\"\nhandler = {{ http = {{ url = \"http://{url}\" }} }}\n"
    );
    let shop = Shop::selling(Folder::new(), "sqlite:store.db", &config, "");
    let id = shop.submit("slow");
    let worker = shop.start_worker(&["--grace", "50ms"]);
    let (mut stream, _) = listener.accept().unwrap();
    stream.read_exact(&mut [0; 4]).unwrap();
    worker.signal("-TERM");
    let (code, log) = worker.end();
    assert_eq!(code, Some(143), "{log}");
    assert_eq!(shop.why(id)["attempts"], json!([]), "no attempt was spent");
    assert_eq!(shop.status(id), "discovered");
}

/// The same server behind TLS, and its certificate.
fn serve_tls() -> (u16, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let stream = StreamOwned::new(connection, stream.unwrap());
            thread::spawn(move || converse(stream));
        }
    });
    (port, made.cert.pem())
}

// HANDLERS-4, CLS-2
#[test]
fn a_server_behind_tls_is_called_when_its_certificate_is_trusted_and_else_not_at_all() {
    let (port, certificate) = serve_tls();
    let config = format!(
        "[[queue]]\nname = \"work\"\n\
         handler = {{ http = {{ url = \"https://localhost:{port}/\", reply = \"/choices/0/message\" }} }}\n"
    );
    let shop = Shop::selling(Folder::new(), "sqlite:store.db", &config, "");
    let (_, other) = serve_tls();
    shop.folder.write("good.pem", certificate).write("other.pem", other);
    for (authorities, status, code) in
        [("other.pem", "error", json!("certificate")), ("good.pem", "passed", json!(null))]
    {
        let id = shop.submit("fine");
        let mut worker = shop.command(&["worker", "--drain", "-q"]);
        let worked = worker.env("SSL_CERT_FILE", authorities).output().unwrap();
        assert!(worked.status.success(), "{worked:?}");
        assert_eq!(shop.status(id), status);
        assert_eq!(shop.why(id)["attempts"][0]["code"], code);
    }
}

// HANDLERS-4
#[test]
fn a_machine_that_trusts_nobody_is_told_so_at_the_start() {
    let config = "[[queue]]\nname = \"work\"\nhandler = { http = { url = \"https://h/\" } }\n";
    let folder = Folder::with_config(config);
    folder.write("empty.pem", "").write("none/readme", "");
    let none = [("SSL_CERT_FILE", "empty.pem"), ("SSL_CERT_DIR", "none")];
    let complaint = folder.run_with(&none, &["worker"]).failed(1);
    assert!(complaint.contains("trusts no certificate authority"), "{complaint}");
}

#[test]
fn the_examples_of_the_documentation_are_good() {
    let page = include_str!("../../docs/http-handlers.md");
    let blocks = page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let blocks: Vec<&str> = blocks.collect();
    assert_eq!(blocks.len(), 4);
    for block in blocks {
        Folder::with_config(block).run(&["check"]).ok();
    }
}
