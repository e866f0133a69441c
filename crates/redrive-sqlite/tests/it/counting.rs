//! Counts of runs that are kept from one look to the next, beside counts of everything.

use std::time::Duration;

use jiff::SignedDuration;
use redrive_core::{Decision, Failure, GiveUpReason, RunId};
use redrive_sqlite::SqliteStore;
use redrive_store::{
    ClaimRequest, ClaimedRun, ExportedUnit, Journal, LeaseRef, LeaseRelease, Leased, Leases,
    NewRun, Operator, PruneFilter, PruneRecord, Pruned, Pruning, RunCompletion, RunFinish, Runs,
};
use serde_json::json;

use crate::scratch::{Scratch, at, claim, passed};

/// A store that is worked on, and one beside it that looks again and again.
struct Beside {
    scratch: Scratch,
    worked_on: SqliteStore,
    looking: SqliteStore,
    held: Vec<ClaimedRun>,
    /// Where the next step is taken from.
    chance: u64,
}

impl Beside {
    fn new() -> Self {
        let scratch = Scratch::migrated();
        let (worked_on, looking) = (scratch.open(), scratch.open());
        Self { scratch, worked_on, looking, held: Vec::new(), chance: 1 }
    }

    /// A number below this one; always the same in the same place.
    fn any(&mut self, below: u64) -> u64 {
        self.chance =
            self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.chance >> 33) % below
    }

    async fn submit(&mut self, count: u64) {
        let run = |n: u64| {
            let queue = ["q", "r"][(n % 2) as usize];
            let run = NewRun::new(queue, &json!({}), at(n as i64)).unwrap();
            let run = run.with_category(["", "a", "b"][(n % 3) as usize]).unwrap();
            if n.is_multiple_of(7) { run.with_not_before(at(50 + n as i64)) } else { run }
        };
        let runs: Vec<NewRun> = (0..count).map(run).collect();
        self.worked_on.submit_runs(&runs, at(0)).await.unwrap();
    }

    async fn claim(&mut self, limit: u64) {
        let queue = ["q", "r"][self.any(2) as usize].to_owned();
        let now = at(self.any(200) as i64);
        let request = ClaimRequest { queue, now, ..claim(limit as u32) };
        self.held.extend(self.worked_on.claim_runs(&request).await.unwrap());
    }

    async fn finish(&mut self, count: u64) {
        let from = self.held.len().saturating_sub(count as usize);
        let completion = |n: i64| {
            let failure = Failure::exit(75, "no");
            let delay = Duration::from_secs(n.unsigned_abs() % 300);
            let again = Decision::RetryAt { at: at(2) + delay, delay, counted: true };
            let give_up = Decision::GiveUp { reason: GiveUpReason::AttemptsExhausted };
            match n % 3 {
                0 => Some(RunCompletion::Failed { failure, decision: again }),
                1 => Some(RunCompletion::Failed { failure, decision: give_up }),
                _ => None,
            }
        };
        let finish = |run: ClaimedRun| {
            let passed = passed(&run);
            RunFinish {
                completion: completion(run.id.0).unwrap_or(passed.completion.clone()),
                ..passed
            }
        };
        let finishes: Vec<RunFinish> = self.held.drain(from..).map(finish).collect();
        self.worked_on.finish_runs(&finishes, at(2)).await.unwrap();
    }

    async fn release_leases(&mut self) {
        let Some(run) = self.held.pop() else { return };
        let owner = claim(1).owner;
        let lease = LeaseRef { id: run.id.0, epoch: run.epoch };
        let back = LeaseRelease::each(&[lease], &owner, "shutdown");
        self.worked_on.release_leases(Leased::Run, &back, at(3)).await.unwrap();
    }

    async fn action(&mut self, of: u64) {
        let ids: Vec<RunId> = (0..5).map(|_| RunId(1 + self.any(of) as i64)).collect();
        let by = Operator { actor: "o".to_owned(), at: at(4), reason: None };
        match self.any(2) {
            0 => self.worked_on.retry_runs(&ids, &by).await.unwrap(),
            _ => self.worked_on.cancel_runs(&ids, &by).await.unwrap(),
        };
    }

    /// Both say the same, and what is read anew says it too.
    #[track_caller]
    fn agree(&self) -> impl Future<Output = ()> + '_ {
        let place = std::panic::Location::caller();
        async move {
            let anew = self.scratch.open().queue_stats().await.unwrap();
            assert_eq!(self.looking.queue_stats().await.unwrap(), anew, "{place}");
            assert_eq!(self.worked_on.queue_stats().await.unwrap(), anew, "{place}");
        }
    }
}

#[tokio::test]
async fn counts_that_are_kept_agree_with_counts_of_everything() {
    let mut beside = Beside::new();
    beside.agree().await;
    beside.submit(5_000).await;
    beside.agree().await;
    for _ in 0..150 {
        let many = 1 + beside.any(400);
        match beside.any(8) {
            0 => beside.submit(many).await,
            1 | 2 => beside.claim(many).await,
            3 | 4 => beside.finish(many).await,
            5 => beside.release_leases().await,
            6 => beside.action(6_000).await,
            // What is claimed and finished between two looks was never seen to be held.
            _ => {
                beside.claim(many).await;
                beside.finish(many).await;
            }
        }
        beside.agree().await;
    }
}

#[tokio::test]
async fn what_is_pruned_is_no_longer_counted_also_while_that_goes_on() {
    let mut beside = Beside::new();
    beside.submit(3_000).await;
    for _ in 0..4 {
        beside.claim(1_000).await;
        beside.finish(1_000).await;
    }
    beside.agree().await;
    let before = at(0) + SignedDuration::from_hours(24 * 365);
    let filter = PruneFilter { before, queue: None, pipeline: None };
    let by = Operator { actor: "o".to_owned(), at: at(4), reason: None };
    let [one, other] = ["one", "other"].map(|name| PruneRecord {
        name: name.to_owned(),
        filter: filter.clone(),
        by: by.clone(),
        files: json!([]),
    });
    let store = &beside.worked_on;
    store.append_journal(&[one.start_entry(), other.start_entry()]).await.unwrap();
    beside.agree().await;
    let prune = async |record: &PruneRecord| {
        let page = store.prunable_runs(&filter, RunId(0), 100).await.unwrap();
        let gone = page.iter().map(|run| ExportedUnit {
            id: run.id.0,
            attempts: run.attempts,
            epoch: run.lease_epoch,
        });
        let gone: Vec<ExportedUnit> = gone.collect();
        assert_eq!(store.prune_runs(&record.key(), &filter, &gone).await.unwrap().units, 100);
    };
    prune(&one).await;
    beside.agree().await;
    let end = one.end_entry(Pruned::default(), Pruned::default(), 0, at(5));
    store.append_journal(&[end]).await.unwrap();
    beside.agree().await;
    prune(&other).await;
    beside.agree().await;
}
