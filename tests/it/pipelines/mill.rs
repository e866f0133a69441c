//! A folder with a pipeline of two stages, its samples and a store.

use serde_json::Value;

use crate::{
    databases::{one_of_each, texts},
    folder::{Ended, Folder},
    shop::Shop,
};

pub(super) const CONFIG: &str = r#"
[[pipeline]]
name = "flour"
source = { jsonl = "in.jsonl" }
failure-budget = { rate = 0.5, every = 30 }

[[pipeline.stage]]
name = "grind"
handler = { exec = ["/bin/sh", "work.sh"] }
policy = { max-attempts = 3, base = "10ms", cap = "1s", jitter = "none", retriable = "by-class" }
lease = "1s"

[[pipeline.stage]]
name = "sift"
handler = { exec = ["/bin/sh", "work.sh"] }
policy = { max-attempts = 2, base = "10ms", jitter = "none" }
lease = "1s"

[[queue]]
name = "work"
handler = { exec = ["/bin/true"] }
"#;

/// What a stage does is chosen by the sample. Every call leaves a line.
const STAGE: &str = r#"
read -r call
echo "$REDRIVE_STAGE $REDRIVE_SAMPLE" >> calls
[ "$REDRIVE_STAGE" = grind ] || { echo "{\"ok\": {\"sifted\": $REDRIVE_SAMPLE}}"; exit; }
case "$call" in
*'"do":"skip"'*) echo '{"skip": "only stones"}'; exit ;;
*'"do":"bad"'*) [ -e mended ] || { echo "sack $REDRIVE_SAMPLE is torn" >&2; exit 65; } ;;
*'"do":"flaky"'*) [ "$REDRIVE_ATTEMPT" -gt 1 ] || exit 75 ;;
*'"do":"down"'*) [ -e mended ] || { echo "wheel $REDRIVE_ATTEMPT stands still" >&2; exit 75; } ;;
*'"do":"half"'*) [ $(((REDRIVE_SAMPLE >> (REDRIVE_ATTEMPT - 1)) & 1)) = 0 ] || exit 75 ;;
*'"do":"escape"'*) printf 'red \033[31m \302\233' >&2; exit 65 ;;
*'"do":"gate"'*) read -r word < gate ;;
esac
echo "{\"ok\": {\"ground\": $REDRIVE_SAMPLE}}"
"#;

/// One of them.
pub(super) struct Mill {
    pub(super) shop: Shop,
}

impl Mill {
    /// One on each kind of store, with samples to do.
    pub(super) fn both(samples: &[&str]) -> [Self; 2] {
        Self::both_of(CONFIG, samples)
    }

    pub(super) fn both_of(config: &str, samples: &[&str]) -> [Self; 2] {
        let [sqlite, postgres] = [Folder::new(), Folder::new()];
        let [sqlite_url, postgres_url] = one_of_each(&sqlite);
        [(sqlite, sqlite_url), (postgres, postgres_url)]
            .map(|(folder, url)| Self::new(folder, &url, config, samples))
    }

    /// One on SQLite, for what no store has a part in.
    pub(super) fn on_sqlite(config: &str, samples: &[&str]) -> Self {
        let folder = Folder::new();
        let url = format!("sqlite:{}", folder.path().join("store.db").display());
        Self::new(folder, &url, config, samples)
    }

    fn new(folder: Folder, url: &str, config: &str, samples: &[&str]) -> Self {
        let mill = Self { shop: Shop::selling(folder, url, config, STAGE) };
        mill.deliver(samples);
        mill
    }

    /// Writes the source anew. A sample that is no word is the line itself.
    pub(super) fn deliver(&self, samples: &[&str]) {
        let line = |sample: &&str| match sample.bytes().all(|byte| byte.is_ascii_lowercase()) {
            true => format!("{{\"do\": \"{sample}\"}}\n"),
            false => format!("{sample}\n"),
        };
        self.shop.folder.write("in.jsonl", samples.iter().map(line).collect::<String>());
    }

    /// Makes the stages work that were down.
    pub(super) fn mend(&self) {
        self.shop.folder.write("mended", "");
    }

    pub(super) fn run(&self, arguments: &[&str]) -> Ended {
        self.shop.run(arguments)
    }

    /// Runs a command that tells its result as JSON and ends with a code, quietly.
    #[track_caller]
    pub(super) fn told(&self, arguments: &[&str], code: i32) -> Value {
        let ended = self.run(&[arguments, &["-o", "json", "-q", "-q"]].concat());
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(code), ""), "{}", ended.stdout);
        serde_json::from_str(&ended.stdout).unwrap()
    }

    /// Runs the pipeline, which ends with a code.
    #[track_caller]
    pub(super) fn grind(&self, code: i32) -> Value {
        self.told(&["pipeline", "run", "flour"], code)
    }

    /// Starts a run that is left to workers, and says which it is.
    #[track_caller]
    pub(super) fn detached(&self) -> String {
        self.told(&["pipeline", "run", "flour", "--detach"], 0)["id"].to_string()
    }

    #[track_caller]
    pub(super) fn status(&self) -> Value {
        self.told(&["pipeline", "status"], 0)
    }

    /// The calls that stages had, sorted.
    pub(super) fn calls(&self) -> Vec<String> {
        let mut calls: Vec<String> =
            self.shop.folder.read("calls").lines().map(str::to_owned).collect();
        calls.sort();
        calls
    }

    /// The texts that a query of one column finds.
    pub(super) fn texts(&self, sql: &str) -> Vec<String> {
        texts(self.shop.store(), sql)
    }

    #[track_caller]
    pub(super) fn doctor(&self) {
        self.run(&["doctor"]).ok();
    }
}

/// The counts of a run.
pub(super) fn counts(run: &Value) -> [u64; 5] {
    ["total", "succeeded", "skipped", "dlq", "pending"].map(|name| run[name].as_u64().unwrap())
}
