//! A shop with all four kinds of work, whose program sends spans.

use std::{net::SocketAddr, process::Command};

use crate::{
    databases::{one_of_each, texts},
    folder::{Ended, Folder},
    shop::Shop,
    upload_server::{Reply, Server},
};

/// All four kinds of work. Everything fails at its first attempt.
fn config(server: &Server) -> String {
    let soon = r#"{ max-attempts = 3, base = "10ms", cap = "1s" }"#;
    let program = r#"{ exec = ["/bin/sh", "work.sh"] }"#;
    format!(
        r#"
[[queue]]
name = "work"
handler = {program}
policy = {soon}
lease = "1s"

[[queue]]
name = "stream"
handler = {{ stream = ["/bin/sh", "stream.sh"] }}
policy = {soon}

[[source]]
name = "ads"
customers = ["1"]
queries = ["daily"]
extract = {program}

[[pipeline]]
name = "score"
source = {{ jsonl = "samples.jsonl" }}

[[pipeline.stage]]
name = "ask"
handler = {program}
policy = {soon}

[[pipeline.stage]]
name = "judge"
handler = {{ http = {{ url = "http://{}/judge" }} }}
policy = {soon}

[[upload]]
name = "tiles"
url = "{}"
backoff-base = "10ms"
"#,
        server.address,
        server.url()
    )
}

const PROGRAM: &str = r#"
echo "$REDRIVE_UNIT $REDRIVE_ATTEMPT $TRACEPARENT" >> told
case "$REDRIVE_CATEGORY:$REDRIVE_ATTEMPT" in
bad:*) echo 'cannot be read' >&2; exit 65 ;;
fine:*) ;;
fatal:1) kill -9 $PPID ;;
*:1) echo 'not yet' >&2; exit 75 ;;
esac
echo '{"ok": {"n": 1}}'
"#;

const STREAM: &str = r#"
while read -r call; do
    echo "$call" >> calls
    echo '{"ok": 1}'
done
"#;

/// Items fail at first; what is posted to the judge is answered with itself.
fn serve() -> Server {
    Server::new(|item| match (item.name.as_str(), item.time) {
        ("", _) => Reply::Status(200, "", r#"{"ok": {"judged": true}}"#.to_owned()),
        (_, 1) => Reply::Status(503, "", "not yet".to_owned()),
        _ => Reply::status(201),
    })
}

/// The shop.
pub(crate) struct Traced {
    pub(crate) shop: Shop,
    pub(crate) server: Server,
    environment: Vec<(&'static str, String)>,
}

impl Traced {
    pub(crate) fn both(collector: SocketAddr) -> [Self; 2] {
        let [sqlite, postgres] = [Folder::new(), Folder::new()];
        let stores = one_of_each(&sqlite);
        let [sqlite_url, postgres_url] = stores;
        [Self::new(sqlite, &sqlite_url, collector), Self::new(postgres, &postgres_url, collector)]
    }

    pub(crate) fn on_sqlite(collector: SocketAddr) -> Self {
        let folder = Folder::new();
        let url = format!("sqlite:{}", folder.path().join("store.db").display());
        Self::new(folder, &url, collector)
    }

    fn new(folder: Folder, store: &str, collector: SocketAddr) -> Self {
        let server = serve();
        let config = config(&server);
        folder.write("stream.sh", STREAM).write("samples.jsonl", "{\"n\": 1}\n{\"n\": 2}\n");
        let shop = Shop::selling(folder, store, &config, PROGRAM);
        let endpoint = format!("http://{collector}/");
        Self { shop, server, environment: vec![("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)] }
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.environment.push((name, value.to_owned()));
        self
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.shop.command(arguments);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        self.shop.folder.ended(self.command(arguments).output().unwrap())
    }

    #[track_caller]
    pub(crate) fn drain(&self) -> String {
        let ended = self.run(&["worker", "--drain"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended.stderr
    }

    /// The ledger, a line for each attempt.
    pub(crate) fn ledger(&self) -> Vec<String> {
        let unit = "kind || ' ' || stage || ' ' || attempt || ' ' || outcome";
        let order = "ORDER BY kind, unit_id, stage, attempt";
        // PostgreSQL has runs that passed in a table of their own.
        let ledger = match self.shop.store().starts_with("postgres") {
            true => {
                "(SELECT kind, unit_id, stage, attempt, outcome FROM attempts UNION ALL \
                 SELECT kind, unit_id, stage, attempt, outcome FROM pass_attempts) AS ledger"
            }
            false => "attempts",
        };
        let mut lines = texts(self.shop.store(), &format!("SELECT {unit} FROM {ledger} {order}"));
        lines.sort();
        lines
    }
}
