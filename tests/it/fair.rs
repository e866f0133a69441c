//! A folder with something of every kind in it, some of which failed, and a server that shows it.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, ChildStderr, Stdio},
};

use serde_json::Value;

use crate::{
    databases::one_of_each,
    folder::Folder,
    shop::Shop,
    upload_server::{Reply, Server},
    web,
};

const CONFIG: &str = r#"
[[queue]]
name = "work"
handler = { exec = ["/bin/sh", "work.sh"] }
policy = { max-attempts = 2, base = "10ms", cap = "1s", jitter = "none" }

[[source]]
name = "ads"
customers = ["1234"]
queries = ["daily", "hourly"]
extract = { exec = ["/bin/sh", "work.sh"] }
schedule = { every = "day", at = "04:00", lag-days = 1, start = "2026-11-01" }
policy = "gentle"

[policy.gentle]
max-attempts = "none"
base = "1d"
cap = "7d"
jitter = "10%"

[prune]
export = "archive"

[[pipeline]]
name = "flour"
source = { jsonl = "in.jsonl" }

[[pipeline.stage]]
name = "grind"
handler = { exec = ["/bin/sh", "work.sh"] }

[[upload]]
name = "tiles"
url = "URL"
max-in-call-retries = 0
max-item-attempts = 1
"#;

/// Fails for some of everything, until it is mended.
const WORK: &str = r#"
read -r call
[ -e mended ] && kind=mended || kind=$REDRIVE_KIND
case "$kind:$REDRIVE_CATEGORY:$REDRIVE_LOGICAL_DATE:$call" in
run:bad:*) echo 'this cannot be <b>read</b>' >&2; exit 65 ;;
run:down:*) echo 'the service is down' >&2; exit 75 ;;
partition:*:2026-11-01:* | partition:*:2026-11-04:*) ;;
partition:*) echo 'quota exceeded for 1234' >&2; exit 75 ;;
sample:*'"bad"'*) echo "sack $REDRIVE_SAMPLE is torn" >&2; exit 65 ;;
esac
case "$REDRIVE_KIND" in
partition) echo '{"n": 1}' ;;
*) echo '{"ok": {"n": 1}}' ;;
esac
"#;

/// One of them.
pub(crate) struct Fair {
    pub(crate) shop: Shop,
    _receiver: Server,
}

impl Fair {
    /// One on each kind of store.
    pub(crate) fn both() -> [Self; 2] {
        let [sqlite, postgres] = [Folder::new(), Folder::new()];
        let [_, url] = one_of_each(&sqlite);
        [Self::new(sqlite, "sqlite:store.db", ""), Self::new(postgres, &url, "")]
    }

    /// One on SQLite, with more in its configuration.
    pub(crate) fn on_sqlite(more: &str) -> Self {
        Self::new(Folder::new(), "sqlite:store.db", more)
    }

    fn new(folder: Folder, store: &str, more: &str) -> Self {
        let receiver = Server::new(|_| Reply::Status(422, "", "no such tile".to_owned()));
        let config = format!("{}{more}", CONFIG.replace("URL", &receiver.url()));
        folder.write("in.jsonl", "{\"do\": \"bad\"}\n{\"do\": \"good\"}\n".repeat(6));
        let shop = Shop::selling(folder, store, &config, WORK);
        let fair = Self { shop, _receiver: receiver };
        for category in ["fine", "bad", "down", "fine", "bad"] {
            fair.shop.submit(category);
        }
        let days = ["--since", "2026-11-01", "--until", "2026-11-06"];
        fair.told(&[&["state", "backfill", "--source", "ads", "--yes"], &days[..]].concat());
        fair.told(&["pipeline", "run", "flour", "--detach"]);
        for name in ["one.png", "two.png"] {
            fair.shop.folder.write(name, name);
            fair.told(&["uploads", "add", "--upload", "tiles", "--group", "g", name]);
        }
        fair.told(&["uploads", "run", "--upload", "tiles", "--group", "g"]);
        fair.work();
        fair.told(&["queue", "pause", "work", "--reason", "a <i>rest</i>"]);
        fair.told(&["state", "pause", "partition:ads/1234/hourly/2026-11-02", "--reason", "later"]);
        fair
    }

    /// Has workers do all there is to do.
    pub(crate) fn work(&self) {
        self.told(&["worker", "--drain"]);
    }

    /// From now on nothing fails.
    pub(crate) fn mend(&self) {
        self.shop.folder.write("mended", "");
    }

    /// Runs a command that may tell of failures.
    #[track_caller]
    pub(crate) fn told(&self, arguments: &[&str]) {
        let ended = self.shop.run(&[arguments, &["-q", "-q"]].concat());
        assert!(matches!(ended.code, Some(0 | 1 | 3 | 4)), "{arguments:?}: {ended:#?}");
    }

    /// What a command prints as JSON.
    #[track_caller]
    pub(crate) fn printed(&self, arguments: &[&str]) -> Value {
        self.shop.run(&[arguments, &["-o", "json", "-q", "-q"]].concat()).json()
    }

    /// Starts to serve.
    pub(crate) fn serve(&self, environment: &[(&str, &str)]) -> Serving {
        self.serve_at("127.0.0.1:0", environment)
    }

    /// Starts to serve at an address.
    pub(crate) fn serve_at(&self, address: &str, environment: &[(&str, &str)]) -> Serving {
        Serving::start(&self.shop, address, environment)
    }
}

/// A server that does not outlive its test.
pub(crate) struct Serving {
    child: Child,
    pub(crate) address: SocketAddr,
    folder: String,
    _said: BufReader<ChildStderr>,
}

impl Serving {
    pub(crate) fn start(shop: &Shop, address: &str, environment: &[(&str, &str)]) -> Self {
        let mut command = shop.command(&["serve", "--listen", address]);
        command.envs(environment.iter().copied());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://");
        let address = address.unwrap_or_else(|| panic!("{line}")).parse().unwrap();
        let folder = shop.folder.path().display().to_string();
        Self { child, address, folder, _said: said }
    }

    /// What the API answers. The name of the folder is `[FOLDER]`, as in the output of commands.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Value {
        let body = self.text(path).replace(&self.folder, "[FOLDER]");
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
    }

    /// What the API answers to a PUT of any content.
    #[track_caller]
    pub(crate) fn put(&self, path: &str, content: &str) -> (u16, String) {
        web::send(self.address, "PUT", path, "application/octet-stream", content)
    }

    /// What the API answers that is no JSON.
    #[track_caller]
    pub(crate) fn text(&self, path: &str) -> String {
        let (status, body) = web::ask(self.address, "GET", path, None);
        assert_eq!(status, 200, "{path}: {body}");
        body
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
