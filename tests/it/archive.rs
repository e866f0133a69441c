//! A folder with sources, a store and raw data, and partitions in whatever state a test needs. The data
//! plane is the test itself: it claims, writes raw partitions, and says what the validator would.

use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use redrive::{
    AuditContext, Cause, Clock, Control, Extracted, Failure, Lane, Operator, PartitionAction,
    PartitionKey, PartitionRecord, PartitionRules, PartitionRunId, PartitionStatus, RawSink,
    Selection, Store, SystemClock, build_partition_rules,
    jiff::Timestamp,
    store::{
        NamedPartition, PartitionChange, PartitionClaim, PartitionFinish, PartitionVerdict,
        WorkerId, Written,
    },
};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::{
    databases::one_of_each,
    folder::{Ended, Folder},
};

const CONFIG: &str = r#"
[[source]]
name = "ads"
customers = ["7", "8"]
queries = ["daily"]
extract = { exec = ["/bin/true"] }
schedule = { every = "day", at = "04:00", lag-days = 1, start = "2026-01-01" }

[[source]]
name = "strict"
customers = ["7"]
queries = ["daily"]
extract = { exec = ["/bin/true"] }
policy = { max-attempts = 2, base = "5m", cap = "6h" }

[[source]]
name = "young"
customers = ["7"]
queries = ["daily"]
extract = { exec = ["/bin/true"] }
policy = { max-age = "1h", base = "5m", cap = "6h" }
"#;

/// One of them.
pub(crate) struct Archive {
    pub(crate) folder: Folder,
    url: String,
    pub(crate) runtime: Runtime,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) raw: RawSink,
    runs: AtomicU32,
}

impl Archive {
    /// One on each kind of store.
    pub(crate) fn both() -> [Self; 2] {
        let [sqlite, postgres] = [Folder::new(), Folder::new()];
        let [_, postgres_url] = one_of_each(&sqlite);
        let sqlite_url = format!("sqlite:{}", sqlite.path().join("store.db").display());
        [Self::new(sqlite, sqlite_url), Self::new(postgres, postgres_url)]
    }

    /// One on SQLite, for what no store has a part in.
    pub(crate) fn on_sqlite() -> Self {
        let folder = Folder::new();
        let url = format!("sqlite:{}", folder.path().join("store.db").display());
        Self::new(folder, url)
    }

    fn new(folder: Folder, url: String) -> Self {
        folder.write("redrive.toml", CONFIG);
        folder.run(&["db", "migrate", "--store", &url]).ok();
        let runtime = Runtime::new().unwrap();
        let store = runtime.block_on(redrive::open(&url)).unwrap();
        let raw = RawSink::folder(folder.path().join("raw"));
        Self { folder, url, runtime, store, raw, runs: AtomicU32::new(1) }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.folder.command(&[arguments, &["--store", &self.url]].concat())
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        self.folder.ended(self.command(arguments).output().unwrap())
    }

    /// The rules that the configuration declares.
    pub(crate) fn rules(&self) -> PartitionRules {
        let config = redrive::config::parse(CONFIG, "redrive.toml", self.folder.path()).unwrap();
        build_partition_rules(&config)
    }

    pub(crate) fn control(&self) -> Control {
        Control::new(self.store.clone(), self.rules(), self.raw.clone())
    }

    pub(crate) fn action(&self, action: PartitionAction, key: &PartitionKey) -> PartitionChange {
        let (named, order) = ([NamedPartition::from(key.clone())], order("test"));
        let changed = self.store.change_partitions(&action, &named, &order);
        self.runtime.block_on(changed).unwrap()[0]
    }

    /// One that is asked for, with history.
    pub(crate) fn pending(&self, key: &str) -> PartitionKey {
        let key: PartitionKey = key.parse().unwrap();
        let lane = Lane::Backfill;
        self.done(PartitionAction::Backfill { force_pending: false, lane }, &key);
        key
    }

    /// One that is good, with these rows.
    pub(crate) fn good(&self, key: &str, rows: &[&str]) -> PartitionKey {
        let key: PartitionKey = key.parse().unwrap();
        let lane = Lane::Fresh;
        self.done(PartitionAction::Backfill { force_pending: false, lane }, &key);
        self.accept(&key, rows);
        key
    }

    /// One that failed some times just now, each time leaving raw data that was judged.
    pub(crate) fn failed(&self, key: &str, times: u32) -> PartitionKey {
        self.failed_at(key, times, SystemClock.now(), true)
    }

    /// One whose extraction failed just now, and left nothing behind.
    pub(crate) fn unextracted(&self, key: &str) -> PartitionKey {
        let key = self.pending(key);
        let failure = Failure::exit(1, "no raw partition: the program exited with code 1");
        let verdict = PartitionVerdict::Rejected { failure };
        self.judge(&key, &self.next_run(), SystemClock.now(), verdict);
        key
    }

    /// One that failed some times, for the last time then.
    pub(crate) fn failed_at(
        &self,
        key: &str,
        times: u32,
        at: Timestamp,
        leaves_raw: bool,
    ) -> PartitionKey {
        let key: PartitionKey = key.parse().unwrap();
        let lane = Lane::Fresh;
        self.done(PartitionAction::Backfill { force_pending: false, lane }, &key);
        for time in 0..times {
            if time > 0 {
                self.done(PartitionAction::Retry { clear_terminal: true, lane }, &key);
            }
            self.reject(&key, at, leaves_raw);
        }
        key
    }

    /// One that failed, and that an operator marked.
    pub(crate) fn terminal(&self, key: &str) -> PartitionKey {
        let key = self.failed(key, 1);
        self.done(PartitionAction::MarkTerminal, &key);
        key
    }

    #[track_caller]
    pub(crate) fn done(&self, action: PartitionAction, key: &PartitionKey) {
        let change = self.action(action, key);
        assert!(matches!(change, PartitionChange::Done(_)), "{action:?} {key}: {change:?}");
    }

    /// The attempt that is asked for is good.
    pub(crate) fn accept(&self, key: &PartitionKey, rows: &[&str]) -> PartitionRunId {
        let run_id = self.next_run();
        self.seal(key, &run_id, rows);
        let record_count = rows.len() as u64;
        let schema_version = Some("1".to_owned());
        let verdict = PartitionVerdict::Accepted { record_count, schema_version };
        self.judge(key, &run_id, SystemClock.now(), verdict);
        run_id
    }

    /// The attempt that is asked for is bad.
    pub(crate) fn reject(&self, key: &PartitionKey, at: Timestamp, leaves_raw: bool) {
        let run_id = self.next_run();
        if leaves_raw {
            self.seal(key, &run_id, &[]);
        }
        let failure = Failure::named("too_few_rows", Cause::Validator, "no rows");
        self.judge(key, &run_id, at, PartitionVerdict::Rejected { failure });
    }

    fn next_run(&self) -> PartitionRunId {
        format!("r{:06}", self.runs.fetch_add(1, Ordering::Relaxed)).parse().unwrap()
    }

    /// Writes raw data.
    pub(crate) fn seal(&self, key: &PartitionKey, run_id: &PartitionRunId, rows: &[&str]) {
        self.runtime.block_on(async {
            let mut writer = self.raw.begin(key, run_id).await.unwrap();
            for row in rows {
                writer.write(format!("{row}\n").as_bytes()).await.unwrap();
            }
            writer.seal(Extracted::default()).await.unwrap();
        });
    }

    /// Claims the partition, which is alone in the lane it is in, and judges it.
    fn judge(
        &self,
        key: &PartitionKey,
        run_id: &PartitionRunId,
        at: Timestamp,
        verdict: PartitionVerdict,
    ) {
        let owner = WorkerId("w-test".to_owned());
        self.runtime.block_on(async {
            let asked = self.store.partitions_by_key(std::slice::from_ref(key)).await.unwrap();
            let work = asked[0].as_ref().unwrap().work.as_ref().unwrap();
            let lane = work.request.as_ref().unwrap().lane;
            let claim = PartitionClaim {
                gates: redrive::store::GateRules::default(),
                now: Timestamp::UNIX_EPOCH,
                source: key.source().to_owned(),
                run_ids: vec![run_id.clone()],
                backfill: redrive_store::BackfillShare {
                    share: 0.0,
                    owed: f64::from(u8::from(lane == Lane::Backfill)),
                },
                owner: owner.clone(),
                lease_until: self.store.now() + Duration::from_secs(60),
            };
            let claimed = self.store.claim_partitions(&claim).await.unwrap().remove(0);
            assert_eq!(&claimed.key, key, "nothing else is in this lane");
            let finish = PartitionFinish {
                gates: None,
                key: key.clone(),
                lease: claimed.lease,
                attempt: claimed.attempt,
                run_id: run_id.clone(),
                started_at: at,
                ended_at: at,
                worker: owner,
                verdict,
            };
            assert_eq!(self.store.finish_partitions(&[finish]).await.unwrap(), [Written::Applied]);
        });
    }

    /// Claims what there is to claim of a source, up to three, and judges it all alike.
    pub(crate) fn judge_some(&self, source: &str, good: bool, leaves_raw: bool) {
        let claim = PartitionClaim {
            gates: redrive::store::GateRules::default(),
            now: Timestamp::UNIX_EPOCH,
            source: source.to_owned(),
            run_ids: (0..3).map(|_| self.next_run()).collect(),
            backfill: redrive_store::BackfillShare { share: 0.0, owed: 1.0 },
            owner: WorkerId("w-test".to_owned()),
            lease_until: self.store.now() + Duration::from_secs(60),
        };
        let claimed = self.runtime.block_on(self.store.claim_partitions(&claim)).unwrap();
        for held in claimed {
            if good || leaves_raw {
                self.seal(&held.key, &held.run_id, &["{}"]);
            }
            let failure = Failure::named("too_few_rows", Cause::Validator, "no rows");
            let verdict = if good {
                PartitionVerdict::Accepted { record_count: 1, schema_version: None }
            } else {
                PartitionVerdict::Rejected { failure }
            };
            let finish = PartitionFinish {
                gates: None,
                key: held.key,
                lease: held.lease,
                attempt: held.attempt,
                run_id: held.run_id,
                started_at: SystemClock.now(),
                ended_at: SystemClock.now(),
                worker: WorkerId("w-test".to_owned()),
                verdict,
            };
            let written = self.runtime.block_on(self.store.finish_partitions(&[finish])).unwrap();
            assert_eq!(written, [Written::Applied]);
        }
    }

    pub(crate) fn partition(&self, key: &PartitionKey) -> Option<PartitionRecord> {
        let found = self.store.partitions_by_key(std::slice::from_ref(key));
        self.runtime.block_on(found).unwrap().pop().flatten()
    }

    #[track_caller]
    pub(crate) fn status(&self, key: &PartitionKey) -> PartitionStatus {
        self.partition(key).expect("there is an entry").status
    }

    /// Everything there is, by key.
    pub(crate) fn everything(&self) -> Vec<PartitionRecord> {
        let all = Selection::default();
        self.runtime.block_on(self.store.partitions_page(&all, None, 10_000.into())).unwrap()
    }

    /// What `state inspect` says of a partition.
    #[track_caller]
    pub(crate) fn inspect(&self, key: &PartitionKey) -> Value {
        let unit = format!("partition:{key}");
        self.run(&["state", "inspect", &unit, "-o", "json"]).json()[0].take()
    }

    /// What `state audit` says of a partition.
    #[track_caller]
    pub(crate) fn audit(&self, key: &PartitionKey) -> Vec<Value> {
        let unit = format!("partition:{key}");
        let rows = self.run(&["state", "audit", &unit, "-o", "json"]).json();
        rows.as_array().unwrap().clone()
    }
}

pub(crate) fn order(command: &str) -> AuditContext {
    let by = Operator { actor: "test".to_owned(), at: SystemClock.now(), reason: None };
    AuditContext { by, command: command.to_owned(), filter: None, flags: Vec::new() }
}

/// Each row's partition and outcome, as a changing command prints them with `-o json`.
#[track_caller]
pub(crate) fn outcomes(ended: &Ended) -> Vec<(String, String)> {
    let rows: Value = serde_json::from_str(&ended.stdout).expect(&ended.stderr);
    let row = |row: &Value| {
        let key = row["unit"].as_str().unwrap().strip_prefix("partition:").unwrap();
        let key: PartitionKey = key.parse().unwrap();
        let place = format!("{}/{}/{}", key.source(), key.customer_id(), key.logical_date());
        (place, row["outcome"].as_str().unwrap().to_owned())
    };
    rows.as_array().unwrap().iter().map(row).collect()
}

pub(crate) fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(place, outcome): &(&str, &str)| ((*place).to_owned(), (*outcome).to_owned());
    expected.iter().map(owned).collect()
}
