//! An outage, told by plans: runs and partitions were given up, canaries fail while it lasts, and later a paced plan is paused,
//! resumed and undone half-way.

use std::{
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use redrive::{
    AuditContext, Clock, Failure, Lane, Operator, PartitionAction, PartitionKey, Store, SystemClock,
};
use redrive_core::{Decision, GiveUpReason};
use redrive_store::{
    BackfillShare, Categories, ClaimRequest, ClaimedRun, NamedPartition, NewRun, PartitionClaim,
    PartitionFinish, PartitionVerdict, RunCompletion, RunFinish, WorkerId,
};
use serde_json::{Value, json};

use crate::{
    databases::{one_of_each, texts},
    folder::Folder,
    shop::Shop,
};

const RUNS: usize = 2_000;
const PARTITIONS: usize = 300;

const CONFIG: &str = r#"
[[queue]]
name = "verify"
handler = { exec = ["/bin/sh", "work.sh"] }
concurrency = 8
policy = { max-attempts = 1 }

[[source]]
name = "ads"
customers = ["7"]
queries = ["daily"]
extract = { exec = ["/bin/sh", "work.sh"] }
policy = { max-attempts = 1 }
"#;

const HANDLER: &str = r#"
[ -e mended ] || { echo 'the provider is down' >&2; exit 75; }
echo '{"ok": 1}'
"#;

fn provider_is_down() -> Failure {
    Failure::exit(75, "the provider is down")
}

fn not_extracted() -> Failure {
    Failure::exit(75, "no raw partition: the provider is down")
}

/// A shop where everything was given up.
fn after_the_outage(folder: Folder, url: &str) -> Shop {
    let shop = Shop::selling(folder, url, CONFIG, HANDLER);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = redrive::open(url).await.unwrap();
        give_up_runs(&*store).await;
        give_up_partitions(&*store).await;
    });
    shop
}

async fn give_up_runs(store: &dyn Store) {
    let now = SystemClock.now();
    let new = NewRun::new("verify", &json!({}), now).unwrap();
    store.submit_runs(&vec![new; RUNS], now).await.unwrap();
    loop {
        let owner = WorkerId("w-outage".to_owned());
        let claim = ClaimRequest {
            queue: "verify".to_owned(),
            categories: Categories::All,
            limit: 1_000,
            owner: owner.clone(),
            lease_until: store.now() + Duration::from_secs(60),
            now: store.now(),
            gates: Default::default(),
        };
        let claimed = store.claim_runs(&claim).await.unwrap();
        if claimed.is_empty() {
            return;
        }
        let finish = |run: &ClaimedRun| RunFinish {
            id: run.id,
            epoch: run.epoch,
            attempt: run.attempt,
            history: run.history,
            started_at: now,
            ended_at: now,
            worker: owner.clone(),
            completion: RunCompletion::Failed {
                failure: provider_is_down(),
                decision: Decision::GiveUp { reason: GiveUpReason::AttemptsExhausted },
            },
            gates: None,
        };
        let finishes: Vec<RunFinish> = claimed.iter().map(finish).collect();
        store.finish_runs(&finishes, now).await.unwrap();
    }
}

async fn give_up_partitions(store: &dyn Store) {
    let (now, owner) = (SystemClock.now(), WorkerId("w-outage".to_owned()));
    let first: redrive::jiff::civil::Date = "2025-06-01".parse().unwrap();
    let key = |day: usize| -> PartitionKey {
        let day = first.checked_add(redrive::jiff::Span::new().days(day as i64)).unwrap();
        format!("ads/7/daily/{day}").parse().unwrap()
    };
    let named: Vec<NamedPartition> = (0..PARTITIONS).map(|day| key(day).into()).collect();
    let by = Operator { actor: "ada".to_owned(), at: now, reason: None };
    let context = AuditContext { by, command: "test".to_owned(), filter: None, flags: vec![] };
    let backfill = PartitionAction::Backfill { force_pending: false, lane: Lane::Fresh };
    store.change_partitions(&backfill, &named, &context).await.unwrap();
    let claim = PartitionClaim {
        gates: redrive::store::GateRules::default(),
        now: jiff::Timestamp::UNIX_EPOCH,
        source: "ads".to_owned(),
        run_ids: (0..PARTITIONS).map(|id| format!("r{id:06}").parse().unwrap()).collect(),
        backfill: BackfillShare::default(),
        owner: owner.clone(),
        lease_until: store.now() + Duration::from_secs(60),
    };
    let claimed = store.claim_partitions(&claim).await.unwrap();
    assert_eq!(claimed.len(), PARTITIONS);
    let finishes: Vec<PartitionFinish> = claimed
        .into_iter()
        .map(|claimed| PartitionFinish {
            gates: None,
            key: claimed.key,
            lease: claimed.lease,
            attempt: claimed.attempt,
            run_id: claimed.run_id,
            started_at: now,
            ended_at: now,
            worker: owner.clone(),
            verdict: PartitionVerdict::Rejected { failure: not_extracted() },
        })
        .collect();
    store.finish_partitions(&finishes).await.unwrap();
}

fn plan(shop: &Shop, id: u64) -> Value {
    shop.run(&["plan", "show", &id.to_string(), "-o", "json"]).json()
}

/// Waits until a plan is as wanted.
#[track_caller]
fn until(shop: &Shop, id: u64, wanted: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let plan = plan(shop, id);
        if wanted(&plan) {
            return plan;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{plan}");
    }
}

fn start(shop: &Shop, arguments: &[&str]) -> Child {
    let mut command = shop.command(arguments);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn counts(plan: &Value, names: [&str; 4]) -> [u64; 4] {
    names.map(|name| plan[name].as_u64().unwrap())
}

/// The plans in the journal of a unit, with the actions.
fn told(shop: &Shop, unit: &str) -> Vec<(String, u64)> {
    let story = shop.run(&["why", unit, "-o", "json"]).json();
    let entries = story["journal"].as_array().unwrap().iter();
    let named = |entry: &Value| {
        Some((entry["action"].as_str()?.to_owned(), entry["details"]["plan"].as_u64()?))
    };
    entries.filter_map(named).collect()
}

/// The failed attempts at units of a kind.
fn attempts(shop: &Shop, kind: &str) -> usize {
    let sql = format!(
        "SELECT CAST(count(*) AS TEXT) FROM attempts WHERE kind = '{kind}' AND outcome <> 'success'"
    );
    texts(shop.store(), &sql).pop().unwrap().parse().unwrap()
}

// PLN-1, PLN-2, PLN-3, PLN-4, PLN-5
#[test]
fn an_outage_is_met_by_canaries_and_a_paced_plan_that_is_undone_half_way() {
    let [sqlite, postgres] = [Folder::new(), Folder::new()];
    let [sqlite_url, postgres_url] = one_of_each(&sqlite);
    for (folder, url) in [(sqlite, sqlite_url), (postgres, postgres_url)] {
        let shop = after_the_outage(folder, &url);
        while_it_lasts(&shop);
        shop.folder.write("mended", "");
        when_it_is_over(&shop);
        shop.run(&["doctor"]).ok();
    }
}

/// The canaries fail, and the rest is not touched.
fn while_it_lasts(shop: &Shop) {
    let mut worker = start(shop, &["worker", "-q", "-q"]);
    let new = ["plan", "new", "retry", "--kind", "run", "--queue", "verify", "-q", "-o", "json"];
    assert_eq!(shop.run(&new).json()["total"], RUNS);
    let applied = shop.run(&["plan", "apply", "1", "--canary", "10", "--yes", "-q"]);
    assert_eq!(applied.code, Some(3), "{applied:?}");
    let aborted = until(shop, 1, |plan| plan["pending"] == 0);
    assert_eq!((&aborted["status"], &aborted["changed"]), (&json!("aborted"), &json!(10)));
    assert_eq!(aborted["same_cause"], 10, "{aborted}");
    assert_eq!(attempts(shop, "run"), RUNS + 10, "1990 were not tried again");

    let new = ["plan", "new", "retry", "--kind", "partition", "--source", "ads"];
    let new = [&new[..], &["--clear-terminal", "-q", "-o", "json"]].concat();
    assert_eq!(shop.run(&new).json()["total"], PARTITIONS);
    let applied = shop.run(&["plan", "apply", "2", "--canary", "5", "--yes", "-q"]);
    assert_eq!(applied.code, Some(3), "{applied:?}");
    let aborted = until(shop, 2, |plan| plan["pending"] == 0);
    assert_eq!((&aborted["status"], &aborted["changed"]), (&json!("aborted"), &json!(5)));
    assert_eq!(attempts(shop, "partition"), PARTITIONS + 5);
    worker.kill().unwrap();
    worker.wait().unwrap();
}

/// A new plan over the same selection is paused, resumed and undone half-way.
fn when_it_is_over(shop: &Shop) {
    let mut worker = start(shop, &["worker", "--queues", "verify", "-q", "-q"]);
    let new = ["plan", "new", "retry", "--kind", "run", "--queue", "verify", "-q", "-o", "json"];
    assert_eq!(shop.run(&new).json()["total"], RUNS);
    let settings = ["--canary", "10", "--pace", "200/s", "--ramp", "2s", "--yes", "-q"];
    let reason = ["--reason", "the provider is back"];
    let mut applied = start(shop, &[&["plan", "apply", "3"], &settings[..], &reason].concat());
    until(shop, 3, |plan| plan["recovered"].as_u64() >= Some(50));
    shop.run(&["plan", "pause", "3", "-q"]).ok();
    assert_eq!(applied.wait().unwrap().code(), Some(3), "it is told of the pause");
    let paused = plan(shop, 3)["changed"].clone();
    worker.kill().unwrap();
    worker.wait().unwrap();
    assert_eq!(plan(shop, 3)["changed"], paused);

    let mut resumed = start(shop, &["plan", "resume", "3", "-q"]);
    until(shop, 3, |plan| plan["pending"].as_u64() >= Some(100));
    let undone = shop.run(&["plan", "undo", "3", "--reason", "not yet", "-q", "-o", "json"]);
    let undone = undone.json();
    assert_eq!(resumed.wait().unwrap().code(), Some(3), "it is told of the undo");
    let names = ["changed", "recovered", "undone", "pending"];
    let [changed, recovered, returned, pending] = counts(&undone, names);
    assert!(returned >= 100 && changed < RUNS as u64, "{undone}");
    // What the killed worker held may be neither.
    assert!(changed - recovered - returned <= 8 && pending <= 8, "{undone}");

    // Every unit tells what the plans did to it.
    let units = ["plan", "units", "3", "--limit", "2000", "-o", "json", "--outcome"];
    let unit = |outcome: &str| {
        let listed = shop.run(&[&units[..], &[outcome]].concat()).json();
        listed.as_array().unwrap().last().unwrap()["unit"].as_str().unwrap().to_owned()
    };
    let retried = ("run.retry".to_owned(), 3);
    assert_eq!(told(shop, &unit("recovered")).last(), Some(&retried));
    let returned = told(shop, &unit("undone"));
    assert_eq!(returned[returned.len() - 2..], [retried, ("run.undo".to_owned(), 3)]);
    assert_eq!(told(shop, "run:1").first(), Some(&("run.retry".to_owned(), 1)));
    assert_eq!(told(shop, &format!("run:{RUNS}")), []);
    let story = shop.run(&["why", &unit("recovered")]).ok();
    assert!(story.contains("\"plan\":3") && story.contains("the provider is back"), "{story}");

    let new = ["plan", "new", "retry", "--kind", "partition", "--source", "ads"];
    shop.run(&[&new[..], &["--clear-terminal", "-q"]].concat()).ok();
    shop.run(&["plan", "apply", "4", "--yes", "-q"]).ok();
    let undone = shop.run(&["plan", "undo", "4", "-q", "-o", "json"]).json();
    let names = ["changed", "undone", "pending", "skipped"];
    assert_eq!(counts(&undone, names), [PARTITIONS as u64, PARTITIONS as u64, 0, 0]);
    let expected = [("partition.retry", 2), ("partition.retry", 4), ("partition.undo", 4)];
    let expected = expected.map(|(action, plan)| (action.to_owned(), plan));
    assert_eq!(told(shop, "partition:ads/7/daily/2025-06-01"), expected);
}
