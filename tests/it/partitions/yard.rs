//! A folder with sources, their extractor, a raw sink and a store.

use std::sync::Arc;

use redrive::{
    AttemptNumber, Clock, Operator, PartitionKey, PartitionStatus, RawSink, Store, SystemClock,
    Unit,
    store::{
        AttemptRecord, AuditContext, JournalFilter, Lane, NamedPartition, PartitionAction,
        PartitionChange, PartitionRecord, UnitKind, UnitRow,
    },
};
use tokio::runtime::Runtime;

use crate::{databases::one_of_each, folder::Folder, shop::Shop};

const CONFIG: &str = r#"
[[source]]
name = "ads"
customers = ["1234"]
queries = ["fine"]
extract = { exec = ["/bin/sh", "work.sh"] }
lease = "1s"

[[source]]
name = "strict"
customers = ["1234"]
queries = ["fine"]
extract = { exec = ["/bin/sh", "work.sh"], grace = "100ms" }
validate = { min-rows = 2, handler = { exec = ["/bin/sh", "judge.sh"] } }
schema-version = "2"
timeout = "1s"

[[source]]
name = "flowing"
customers = ["1234"]
queries = ["fine"]
extract = { stream = ["/bin/sh", "stream.sh"] }

[[queue]]
name = "work"
handler = { exec = ["/bin/true"] }
"#;

/// What the extractor does is chosen by the query.
const EXTRACTOR: &str = r#"
row() { echo "{\"customer\": \"$REDRIVE_CUSTOMER_ID\", \"day\": \"$REDRIVE_LOGICAL_DATE\", \"n\": $1}"; }
case "$REDRIVE_QUERY_NAME" in
fine) row 1; row 2 ;;
one) row 1 ;;
open) row 1; printf '{"n": 2}' ;;
empty) ;;
call) cat; echo "{\"variables\": \"$REDRIVE_KIND $REDRIVE_SOURCE $REDRIVE_CUSTOMER_ID $REDRIVE_QUERY_NAME $REDRIVE_LOGICAL_DATE $REDRIVE_RUN_ID $REDRIVE_ATTEMPT\"}" ;;
described) row 1; echo starting >&2; echo '{"ok": {"schema_version": "7", "api": "v3"}}' >&2 ;;
logging) row 1; echo '{"level": "info", "error": "none"}' >&2 ;;
garbage) row 1; echo 'Traceback (most recent call last)' ;;
busy) row 1; echo 'first'; echo 'over quota [terminal]' >&2; exit 75 ;;
reported) row 1; echo '{"error": {"class": "final", "code": "no_such_query", "message": "gone [terminal]"}}' >&2; exit 1 ;;
limited) echo '{"error": {"class": "rate_limited", "code": 429, "message": "slow down", "retry_after": 7200}}' >&2; exit 1 ;;
misplaced) row 1; echo '{"error": {"code": 429, "message": "slow down"}}' ;;
errors) echo '{"error": {"message": "a", "day": 1}}'; echo '{"error": {"message": "b"}, "day": 1}'; echo '{"error": {"class": "final"}}' ;;
vouched) echo '{"error": {"message": "a"}}'; echo '{"ok": null}' >&2 ;;
killed) row 1; kill -9 $$ ;;
late) row 1; sleep 60 ;;
held) row 1; sleep 60 & ;;
mode) row 1; row 2; read -r mode < mode; [ "$mode" = good ] || exit 75 ;;
gate) row 1; echo begun > begun; read -r word < gate; row 2 ;;
big) exec head -c 314572800 /dev/zero | tr '\0' 'x' | fold -w 1000 | sed 's/.*/{"x": "&"}/' ;;
esac
"#;

const JUDGE: &str = r#"
[ -s "$REDRIVE_RAW_PAYLOAD" ] && [ -s "$REDRIVE_RAW_METADATA" ] || exit 70
case "$REDRIVE_CUSTOMER_ID" in
nobody) echo '{"ok": "no such customer", "verdict": "failed"}' ;;
esac
"#;

/// Prints its rows and then a reply; what, is in the call.
const STREAM: &str = r#"
while read -r call; do
    case "$call" in
    *'"query_name":"fine"'*) echo '{"row": {"n": 1}}'; echo '{"row": {"n":  12345678901234567890123}}'; echo '{"ok": {"schema_version": 5}}' ;;
    *'"query_name":"many"'*) i=0; while [ $i -lt 20000 ]; do echo "{\"row\": {\"n\": $i, \"text\": \"some more to fill a pipe with\"}}"; i=$((i+1)); done; echo '{"ok": null}' ;;
    *'"query_name":"busy"'*) echo '{"row": {"n": 1}}'; echo '{"error": {"code": 429, "message": "slow down"}}' ;;
    *'"query_name":"both"'*) echo '{"row": {"n": 1}, "ok": null}' ;;
    *'"query_name":"dies"'*) echo '{"row": {"n": 1}}'; exit 75 ;;
    *'"query_name":"leaves"'*) echo '{"row": {"n": 1}}'; echo '{"ok": null}'; exit 0 ;;
    esac
done
"#;

/// One of them.
pub(super) struct Yard {
    pub(super) shop: Shop,
    runtime: Runtime,
    store: Arc<dyn Store>,
    sink: RawSink,
}

impl Yard {
    /// One on each kind of store.
    pub(super) fn both() -> [Self; 2] {
        let [sqlite, postgres] = [Folder::new(), Folder::new()];
        let [sqlite_url, postgres_url] = one_of_each(&sqlite);
        [Self::new(sqlite, &sqlite_url), Self::new(postgres, &postgres_url)]
    }

    pub(super) fn on_sqlite() -> Self {
        let folder = Folder::new();
        let url = format!("sqlite:{}", folder.path().join("store.db").display());
        Self::new(folder, &url)
    }

    fn new(folder: Folder, url: &str) -> Self {
        folder.write("judge.sh", JUDGE).write("stream.sh", STREAM);
        let shop = Shop::selling(folder, url, CONFIG, EXTRACTOR);
        let runtime = Runtime::new().unwrap();
        let store = runtime.block_on(redrive::open(url)).unwrap();
        let sink = RawSink::folder(shop.folder.path().join("raw"));
        Self { shop, runtime, store, sink }
    }

    pub(super) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub(super) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub(super) fn sink(&self) -> &RawSink {
        &self.sink
    }

    #[track_caller]
    pub(super) fn action(&self, action: PartitionAction, key: &PartitionKey) {
        let by = Operator { actor: "test".to_owned(), at: SystemClock.now(), reason: None };
        let order =
            AuditContext { by, command: "test".to_owned(), filter: None, flags: Vec::new() };
        let named = [NamedPartition::from(key.clone())];
        let changes = self.block_on(self.store.change_partitions(&action, &named, &order)).unwrap();
        assert!(matches!(changes[..], [PartitionChange::Done(_)]), "{changes:?}");
    }

    /// Asks for a partition that was never there.
    #[track_caller]
    pub(super) fn ask(&self, key: &str) -> PartitionKey {
        self.ask_in(Lane::Fresh, key)
    }

    #[track_caller]
    pub(super) fn ask_in(&self, lane: Lane, key: &str) -> PartitionKey {
        let key = key.parse().unwrap();
        self.action(PartitionAction::Backfill { force_pending: false, lane }, &key);
        key
    }

    #[track_caller]
    pub(super) fn reprocess(&self, key: &PartitionKey) {
        self.action(PartitionAction::Reprocess { lane: Lane::Fresh }, key);
    }

    #[track_caller]
    pub(super) fn retry(&self, key: &PartitionKey) {
        self.action(PartitionAction::Retry { clear_terminal: false, lane: Lane::Fresh }, key);
    }

    #[track_caller]
    pub(super) fn drain(&self) {
        self.shop.run(&["worker", "--drain", "-q", "-q"]).ok();
    }

    /// Asks for a partition and has it done.
    #[track_caller]
    pub(super) fn drained(&self, key: &str) -> PartitionRecord {
        let key = self.ask(key);
        self.drain();
        self.record(&key)
    }

    #[track_caller]
    pub(super) fn record(&self, key: &PartitionKey) -> PartitionRecord {
        let keys = [key.clone()];
        self.block_on(self.store.partitions_by_key(&keys)).unwrap().remove(0).unwrap()
    }

    /// What a consumer reads: the rows of the run that has authority.
    #[track_caller]
    pub(super) fn rows(&self, key: &PartitionKey) -> String {
        let record = self.record(key);
        assert_eq!(record.status, PartitionStatus::Success, "{record:?}");
        let run = record.current_run_id.unwrap();
        self.block_on(async {
            let mut reader = self.sink.read(key, &run).await.unwrap();
            let mut rows = Vec::new();
            while let Some(chunk) = reader.next().await.unwrap() {
                rows.extend_from_slice(&chunk);
            }
            assert_eq!(Some(reader.metadata().record_count), record.record_count);
            String::from_utf8(rows).unwrap()
        })
    }

    /// The attempts of a partition.
    pub(super) fn ledger(&self, key: &PartitionKey) -> Vec<AttemptRecord> {
        let unit = UnitRow::new(UnitKind::Partition, self.record(key).id.0);
        self.block_on(self.store.attempts_of(&unit, AttemptNumber(0), 100)).unwrap()
    }

    /// What the journal says of a partition: actor and action.
    pub(super) fn journal(&self, key: &PartitionKey) -> Vec<(String, String)> {
        let unit = Some(Unit::Partition(key.clone()).to_string());
        let filter = JournalFilter { unit, ..JournalFilter::default() };
        let page = self.block_on(self.store.journal_page(&filter, 0, 100)).unwrap();
        page.into_iter().map(|row| (row.entry.actor, row.entry.action)).collect()
    }
}
