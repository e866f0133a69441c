//! Causes: what failures of all kinds have in common.

use std::time::Duration;

use jiff::Timestamp;
use redrive_core::{Class, Code, Decision, Failure, GiveUpReason, ItemEvent, ItemId, Message};

use super::{
    Fixture,
    items::{group, item},
    partition_samples::{FRESH, day, verdict},
    pipeline_samples::{answered, dead, lines, new_run},
    samples::{at, finish, operator, passed, run},
};
use redrive_store::{
    AddedItem, CauseChange, CauseFilter, CauseMark, CauseMiscount, CauseRecord, ExportedUnit,
    ItemAttempt, ItemMove, NewSample, PageLimit, PageOrder, PartitionVerdict, PruneFilter,
    PruneRecord, RunCompletion, RunRecord, Selection, StateFilter, UnitKind, Written,
    cause_hours_pruned, hour_of,
};

fn quota(n: u32) -> Failure {
    Failure::reported(Some(Class::Retryable), Code::Number(429), &format!("quota {n} is used up"))
}

fn broken() -> Failure {
    Failure::reported(Some(Class::Final), Code::Name("bad".to_owned()), "it is broken")
}

fn given_up(failure: Failure) -> RunCompletion {
    RunCompletion::Failed { failure, decision: Decision::GiveUp { reason: GiveUpReason::Final } }
}

fn waits(failure: Failure) -> RunCompletion {
    let decision =
        Decision::RetryAt { at: at(9_000), delay: Duration::from_secs(9), counted: true };
    RunCompletion::Failed { failure, decision }
}

fn fingerprint(failure: &Failure) -> String {
    failure.fingerprint().to_string()
}

fn by_cause(failure: &Failure) -> Selection {
    Selection { cause: Some(fingerprint(failure)), ..Selection::default() }
}

impl Fixture {
    async fn causes(&self, since: Timestamp) -> Vec<CauseRecord> {
        self.causes_of(None, since).await
    }

    async fn causes_of(&self, kind: Option<UnitKind>, since: Timestamp) -> Vec<CauseRecord> {
        let filter = CauseFilter { kind, fingerprint: None, since, hours_since: since, limit: 50 };
        self.store.causes(&filter).await.expect("read")
    }

    async fn fail_runs(&self, queue: &str, now: i64, completions: Vec<RunCompletion>) {
        let runs = vec![run(queue, "", at(1)); completions.len()];
        self.submit(&runs, at(1)).await;
        for completion in completions {
            let claimed = self.claim_from(queue, at(now)).await;
            self.end(&claimed, at(now), completion).await;
        }
    }

    /// A rejected item; the second rejection gives it up.
    async fn reject_item(&self, now: i64, failure: Failure, gives_up: bool) -> ItemId {
        let name = format!("name-{now}-{gives_up}");
        let added = self.store.add_items(&[item(&name)], &operator(at(1))).await.expect("added");
        let AddedItem::Accepted(id) = added[0] else { panic!("not accepted") };
        let reason = Some(Message::clean(failure.message().as_str()));
        let attempt = ItemAttempt {
            gates: None,
            started_at: at(now),
            failure: Some(failure),
            worker: "w".to_owned(),
            after: None,
        };
        let mut moves = vec![ItemMove {
            attempt: Some(attempt),
            rejection_reason: reason,
            ..ItemMove::new(id, ItemEvent::RejectAttempt, at(now))
        }];
        moves.extend(gives_up.then(|| ItemMove::new(id, ItemEvent::GiveUp, at(now))));
        let written = self.store.move_items(&moves).await.expect("answered");
        assert!(written.iter().all(|written| *written == Written::Applied));
        id
    }

    async fn fail_partition(&self, number: u32, now: i64, failure: Failure) {
        self.change_all(FRESH, &[day(number)], at(1)).await;
        let claimed = self.take(at(now)).await;
        self.judge(&claimed, at(now), PartitionVerdict::Rejected { failure }).await;
    }

    /// Three dead letters of one cause, one of them a line of the source, and a sample of another.
    async fn fail_samples(&self, now: i64) {
        let feed = self.reading(&new_run()).await;
        let mut given = lines(1..=4);
        given[3] = NewSample { line: 4, data: Err(quota(4)), hash: None };
        self.feed(feed, &given, true).await;
        let held = self.samples_at(0, 3, at(now)).await;
        self.end_sample(&held[0], 0, at(now), dead(quota(1))).await;
        self.end_sample(&held[1], 0, at(now), dead(quota(2))).await;
        self.end_sample(&held[2], 0, at(now), dead(broken())).await;
    }
}

// CAU-1, CAU-2
pub async fn a_cause_has_the_units_and_the_attempts_of_all_kinds(f: &Fixture) {
    f.fail_runs("a", 10, vec![given_up(quota(1)), waits(quota(2)), given_up(broken())]).await;
    f.fail_runs("b", 4_000, vec![given_up(quota(3))]).await;
    f.reject_item(20, quota(1), true).await;
    f.reject_item(21, quota(1), false).await;
    f.fail_partition(1, 30, quota(5)).await;
    f.fail_samples(40).await;

    let causes = f.causes(at(0)).await;
    let names: Vec<&str> = causes.iter().map(|cause| cause.fingerprint.as_str()).collect();
    assert_eq!(names, [fingerprint(&quota(9)), fingerprint(&broken())]);
    let quotas = &causes[0];
    assert_eq!((quotas.class.as_str(), quotas.code.as_str()), ("retryable", "429"));
    assert!(quotas.message.starts_with("quota "), "{}", quotas.message);
    assert_eq!((quotas.first_at, quotas.last_at), (at(10), at(4_000)));
    let kinds: Vec<_> =
        quotas.kinds.iter().map(|it| (it.kind, it.stuck, it.waiting, it.attempts)).collect();
    use UnitKind::{Item, Partition, Run, Sample};
    assert_eq!(kinds, [(Item, 1, 1, 2), (Partition, 1, 0, 1), (Run, 2, 1, 3), (Sample, 3, 0, 3)]);
    let mut places: Vec<_> = quotas
        .hours
        .iter()
        .map(|it| (it.kind.name(), it.place.as_str(), it.attempts, it.last_at))
        .collect();
    places.sort_unstable();
    let upload = group("g").upload;
    assert_eq!(
        places,
        [
            ("item", upload.as_str(), 2, at(21)),
            ("partition", day(1).source(), 1, at(30)),
            ("run", "a", 2, at(10)),
            ("run", "b", 1, at(4_000)),
            ("sample", "p/clean", 2, at(40)),
            ("sample", "p/source", 1, at(1)),
        ]
    );
    let kinds: Vec<_> = causes[1].kinds.iter().map(|it| (it.kind, it.stuck, it.attempts)).collect();
    assert_eq!(kinds, [(Run, 1, 1), (Sample, 1, 1)]);

    let runs = f.causes_of(Some(Run), at(0)).await;
    assert_eq!(runs[0].kinds.len(), 1);
    assert!(runs.iter().all(|cause| cause.hours.iter().all(|hour| hour.kind == Run)));
    let later = f.causes(at(3_700)).await;
    assert_eq!(later[0].kinds.iter().map(|it| it.attempts).sum::<u64>(), 1, "of the second hour");
    let filter = CauseFilter {
        kind: None,
        fingerprint: Some(fingerprint(&broken())),
        since: at(0),
        hours_since: at(0),
        limit: 1,
    };
    assert_eq!(f.store.causes(&filter).await.expect("read"), causes[1..]);
}

// CAU-3
pub async fn units_of_every_kind_are_selected_by_their_last_failure(f: &Fixture) {
    f.fail_runs("a", 10, vec![given_up(quota(1)), waits(quota(2)), passed(), given_up(broken())])
        .await;
    let items = [
        f.reject_item(10, quota(1), true).await,
        f.reject_item(11, quota(1), false).await,
        f.reject_item(12, broken(), true).await,
    ];
    f.fail_partition(1, 10, quota(5)).await;
    f.fail_partition(2, 12, broken()).await;
    f.fail_samples(10).await;

    let found_in = async |selection: &Selection, order: PageOrder| {
        let (start, limit) = (order.start(), PageLimit::from(9).ordered(order));
        let runs = f.store.runs_page(selection, redrive_core::RunId(start), limit).await;
        let items = f.store.items_page(selection, ItemId(start), limit).await;
        let partitions = f.store.partitions_page(selection, None, limit).await;
        let samples = f.store.samples_page(selection, redrive_core::SampleId(start), limit).await;
        (
            runs.expect("read").iter().map(|run| run.id.0).collect::<Vec<_>>(),
            items.expect("read").iter().map(|item| item.id).collect::<Vec<_>>(),
            partitions.expect("read").into_iter().map(|it| it.key).collect::<Vec<_>>(),
            samples.expect("read").iter().map(|sample| sample.line).collect::<Vec<_>>(),
        )
    };
    let found = async |selection: Selection| {
        let mut newest = found_in(&selection, PageOrder::Descending).await;
        newest.0.reverse();
        newest.1.reverse();
        newest.2.reverse();
        newest.3.reverse();
        let found = found_in(&selection, PageOrder::Ascending).await;
        assert_eq!(found, newest, "{selection:?}");
        found
    };
    let first = f.causes(at(0)).await.len();
    assert_eq!(first, 2);
    let ids = |ids: &[i64]| ids.to_vec();
    let none = Selection::default();
    let text = |text: &str| Some(text.to_owned());
    let of_quota = (ids(&[1, 2]), items[..2].to_vec(), vec![day(1)], vec![1, 2, 4]);
    let of_broken = (ids(&[4]), items[2..].to_vec(), vec![day(2)], vec![3]);
    assert_eq!(found(by_cause(&quota(7))).await, of_quota);
    assert_eq!(found(by_cause(&broken())).await, of_broken);
    assert_eq!(found(Selection { code: text("429"), ..none.clone() }).await, of_quota);
    assert_eq!(found(Selection { class: text("final"), ..none.clone() }).await, of_broken);
    assert_eq!(found(Selection { error: text("is broken"), ..none.clone() }).await, of_broken);
    assert_eq!(found(Selection { code: text("%"), ..none.clone() }).await, Default::default());
    let late = Selection { failed_since: Some(at(11)), ..none.clone() };
    assert_eq!(found(late).await, (ids(&[]), items[1..].to_vec(), vec![day(2)], vec![]));
    let early = Selection { failed_until: Some(at(11)), ..by_cause(&quota(1)) };
    assert_eq!(
        found(early).await,
        (ids(&[1, 2]), items[..1].to_vec(), vec![day(1)], vec![1, 2, 4])
    );
    let waiting = Some(StateFilter { status: "error", waiting: Some(true) });
    let runs = Selection { state: waiting, ..by_cause(&quota(1)) };
    let runs = f.store.runs_page(&runs, redrive_core::RunId(0), 9.into()).await.expect("read");
    assert_eq!(runs.iter().map(|run| run.id.0).collect::<Vec<_>>(), [2]);
}

// CAU-5
pub async fn a_stale_finish_is_not_counted_under_a_cause(f: &Fixture) {
    f.submit(&[run("a", "", at(1))], at(1)).await;
    let claimed = f.claim_from("a", at(2)).await;
    let failed = finish(&claimed, at(3), given_up(quota(1)));
    for expected in [Written::Applied, Written::Stale, Written::Stale] {
        let written = f.store.finish_runs(std::slice::from_ref(&failed), at(3)).await;
        assert_eq!(written.expect("answered"), [expected]);
    }
    let late = finish(&claimed, at(4), given_up(broken()));
    assert_eq!(f.store.finish_runs(&[late], at(4)).await.expect("answered"), [Written::Stale]);
    f.change_all(FRESH, &[day(1)], at(1)).await;
    let held = f.take(at(5)).await;
    let verdict = verdict(&held, at(6), PartitionVerdict::Rejected { failure: quota(1) });
    for expected in [Written::Applied, Written::Stale] {
        let written = f.store.finish_partitions(std::slice::from_ref(&verdict)).await;
        assert_eq!(written.expect("answered"), [expected]);
    }
    let causes = f.causes(at(0)).await;
    assert_eq!(causes.len(), 1, "{causes:?}");
    let counts: Vec<_> = causes[0].kinds.iter().map(|it| (it.stuck, it.attempts)).collect();
    assert_eq!(counts, [(1, 1), (1, 1)]);
}

// CAU-2, CAU-5
pub async fn a_unit_that_recovers_leaves_its_cause(f: &Fixture) {
    f.fail_runs("a", 10, vec![given_up(quota(1)), given_up(quota(2))]).await;
    f.fail_samples(10).await;
    let ids = [redrive_core::RunId(1)];
    f.store.retry_runs(&ids, &operator(at(20))).await.expect("retried");
    let stuck = async || {
        let cause = f.causes(at(0)).await.remove(0);
        cause.kinds.iter().map(|it| (it.kind, it.stuck, it.attempts)).collect::<Vec<_>>()
    };
    assert_eq!(stuck().await, [(UnitKind::Run, 1, 2), (UnitKind::Sample, 3, 3)]);
    let claimed = f.claim_from("a", at(21)).await;
    f.end(&claimed, at(22), passed()).await;
    let good = f.run(ids[0]).await;
    assert_eq!(
        (good.fingerprint, good.error_code, good.last_failure_at),
        (None, None, Some(at(10)))
    );

    let dead =
        f.store.samples_page(&by_cause(&quota(1)), redrive_core::SampleId(0), 9.into()).await;
    let one = dead.expect("read").remove(0).id;
    f.store.reprocess_samples(&[one], &operator(at(23))).await.expect("reprocessed");
    assert_eq!(stuck().await, [(UnitKind::Run, 1, 2), (UnitKind::Sample, 2, 3)]);
    let again = f.sample_at(0, at(24)).await;
    f.end_sample(&again, 0, at(25), answered("1")).await;
    let good = f.sample(one).await;
    assert_eq!((good.fingerprint, good.last_failure_at), (None, Some(at(10))));
}

// CAU-4
pub async fn a_fixed_cause_that_comes_back_is_reported_once(f: &Fixture) {
    let cause = fingerprint(&quota(1));
    let change = |mark| CauseChange::new(Some(mark), None, None).expect("a change");
    let fixed = change(Some(CauseMark::Fixed));
    let unknown = f.store.change_cause(&cause, &fixed, &operator(at(5))).await;
    assert_eq!(unknown.expect("answered"), Written::Stale);

    f.fail_runs("a", 10, vec![given_up(quota(1))]).await;
    let noted =
        CauseChange::new(Some(Some(CauseMark::Fixed)), Some("a higher quota"), Some("OPS-7"));
    let noted = noted.expect("a change");
    let written = f.store.change_cause(&cause, &noted, &operator(at(20))).await;
    assert_eq!(written.expect("answered"), Written::Applied);
    let now = f.causes(at(0)).await.remove(0);
    assert_eq!((now.mark, now.marked_at), (Some(CauseMark::Fixed), Some(at(20))));
    assert_eq!(
        (now.note.as_deref(), now.ticket.as_deref()),
        (Some("a higher quota"), Some("OPS-7"))
    );
    assert_eq!(f.told_by("cause.mark").await.len(), 1);

    // An attempt that began before the mark says nothing about the repair.
    f.submit(&[run("b", "", at(1))], at(1)).await;
    let claimed = f.claim_from("b", at(15)).await;
    let mut early = finish(&claimed, at(25), given_up(quota(2)));
    early.started_at = at(19);
    f.store.finish_runs(&[early], at(25)).await.expect("answered");
    assert_eq!(f.told_by("cause.return").await, []);
    assert_eq!(f.causes(at(0)).await[0].returned_at, None);

    f.fail_runs("a", 30, vec![given_up(quota(3)), given_up(broken())]).await;
    f.fail_runs("a", 40, vec![given_up(quota(4))]).await;
    let told = f.told_by("cause.return").await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].details.contains(&cause), "{}", told[0].details);
    assert_eq!(told[0].at, at(30));
    assert_eq!(f.causes(at(0)).await[0].returned_at, Some(at(30)));

    let written = f.store.change_cause(&cause, &fixed, &operator(at(50))).await;
    assert_eq!(written.expect("answered"), Written::Applied);
    let now = f.causes(at(0)).await.remove(0);
    assert_eq!((now.returned_at, now.note.as_deref()), (None, Some("a higher quota")));
    f.fail_runs("a", 60, vec![given_up(quota(5))]).await;
    assert_eq!(f.told_by("cause.return").await.len(), 2, "once for each mark");

    let cleared = CauseChange::new(Some(None), Some(""), None).expect("a change");
    let written = f.store.change_cause(&cause, &cleared, &operator(at(70))).await;
    assert_eq!(written.expect("answered"), Written::Applied);
    let now = f.causes(at(0)).await.remove(0);
    assert_eq!((now.mark, now.note, now.ticket.as_deref()), (None, None, Some("OPS-7")));
}

// CAU-2
pub async fn causes_are_listed_by_what_they_stop(f: &Fixture) {
    let failure =
        |name: &str| Failure::reported(Some(Class::Final), Code::Name(name.to_owned()), name);
    f.fail_runs("a", 10, vec![waits(failure("a")), waits(failure("a")), waits(failure("a"))]).await;
    f.fail_runs("b", 10, vec![given_up(failure("b"))]).await;
    f.fail_runs("c", 10, vec![given_up(failure("c")), given_up(failure("c"))]).await;
    let codes = async |limit| {
        let filter =
            CauseFilter { kind: None, fingerprint: None, since: at(0), hours_since: at(0), limit };
        let causes = f.store.causes(&filter).await.expect("read");
        causes.into_iter().map(|cause| cause.code).collect::<Vec<_>>()
    };
    assert_eq!(codes(9).await, ["c", "b", "a"]);
    assert_eq!(codes(2).await, ["c", "b"]);
    assert_eq!(f.causes(at(7_200)).await.len(), 3, "what is stuck is listed in every period");
}

// CAU-2
pub async fn a_cause_of_one_kind_says_when_and_where_that_kind_failed_last(f: &Fixture) {
    f.fail_runs("a", 10, vec![given_up(quota(1))]).await;
    f.reject_item(4_000, quota(1), true).await;
    for pruned in [false, true] {
        if pruned {
            f.store.prune_cause_hours(at(3_600), &operator(at(4_001))).await.expect("pruned");
        }
        let cause = f.causes_of(Some(UnitKind::Run), at(7_200)).await.remove(0);
        let hours: Vec<_> = cause.hours.iter().map(|it| (it.kind, it.place.as_str())).collect();
        assert_eq!((cause.last_at, hours), (at(10), vec![(UnitKind::Run, "a")]));
        assert_eq!(f.causes(at(7_200)).await[0].last_at, at(4_000));
    }
}

// CAU-5
pub async fn counts_that_are_not_those_of_the_ledger_are_found(f: &Fixture) {
    let miscounts = async |since, limit| {
        let found = f.store.miscounted_causes(since, limit).await.expect("compared");
        let numbers =
            |it: CauseMiscount| (it.fingerprint, it.hour, it.kind, it.counted, it.in_ledger);
        found.into_iter().map(numbers).collect::<Vec<_>>()
    };
    assert_eq!(miscounts(None, 9).await, []);
    f.fail_runs("a", 10, vec![given_up(quota(1)), waits(quota(2)), passed(), given_up(broken())])
        .await;
    f.fail_runs("b", 20, vec![waits(quota(3))]).await;
    f.fail_runs("b", 4_000, vec![given_up(quota(3))]).await;
    f.reject_item(20, quota(1), true).await;
    f.reject_item(21, quota(1), false).await;
    f.reject_item(4_000, quota(1), false).await;
    f.fail_partition(1, 30, quota(5)).await;
    f.fail_samples(40).await;
    assert_eq!(miscounts(None, 9).await, [], "also with a dead line, which is no attempt");

    f.store.prune_cause_hours(at(3_600), &operator(at(4_001))).await.expect("pruned");
    let hour = hour_of(at(10));
    let lost = |kind, attempts| (fingerprint(&quota(1)), hour, kind, 0, attempts);
    use UnitKind::{Item, Run};
    let all = [lost(Item, 2), lost(Run, 3)];
    assert_eq!(miscounts(None, 9).await, all, "in all places; the newest hour of a kind stays");
    assert_eq!(miscounts(Some(hour), 1).await, all[..1]);
    assert_eq!(miscounts(Some(at(3_600)), 9).await, []);

    // What the ledger does not have any more is counted too often.
    let filter = PruneFilter { before: at(100), queue: Some("a".to_owned()), pipeline: None };
    let record = PruneRecord {
        name: "a".to_owned(),
        filter: filter.clone(),
        by: operator(at(4_002)),
        files: serde_json::json!([]),
    };
    f.store.append_journal(&[record.start_entry()]).await.expect("told");
    let runs = f.store.prunable_runs(&filter, redrive_core::RunId(0), 9).await.expect("read");
    let exported = |run: RunRecord| ExportedUnit {
        id: run.id.0,
        attempts: run.attempts,
        epoch: run.lease_epoch,
    };
    let runs: Vec<ExportedUnit> = runs.into_iter().map(exported).collect();
    f.store.prune_runs(&record.key(), &filter, &runs).await.expect("pruned");
    let extra = (fingerprint(&broken()), hour, Run, 1, 0);
    assert!(miscounts(None, 9).await.contains(&extra), "{:?}", miscounts(None, 9).await);
    assert_eq!(miscounts(Some(at(3_600)), 9).await, []);
}

// CAU-5, OPS-8
pub async fn counts_of_hours_are_pruned_and_causes_stay(f: &Fixture) {
    f.fail_runs("a", 10, vec![given_up(quota(1))]).await;
    f.fail_runs("a", 4_000, vec![given_up(quota(2))]).await;
    let attempts = async || {
        let cause = f.causes(at(0)).await.remove(0);
        (cause.kinds[0].stuck, cause.kinds[0].attempts, cause.first_at, cause.last_at)
    };
    let by = operator(at(90_000));
    let prune = async |before| f.store.prune_cause_hours(before, &by).await.expect("pruned");
    assert_eq!(prune(at(3_599)).await, 0, "not a whole hour");
    assert_eq!(attempts().await, (2, 2, at(10), at(4_000)));
    assert_eq!(f.told_by("prune.causes").await, [], "nothing was removed");
    assert_eq!(prune(at(3_600)).await, 1);
    assert_eq!(attempts().await, (2, 1, at(10), at(4_000)));
    assert_eq!(prune(at(90_000)).await, 0, "the newest stays");
    let told = f.told_by("prune.causes").await;
    assert_eq!(told, [cause_hours_pruned(at(3_600), 1, &by)]);

    // A cause of long ago still says where it was seen, also when nothing is left of it.
    let late = f.causes(at(90_000)).await.remove(0);
    assert_eq!((late.kinds[0].attempts, late.hours[0].place.as_str()), (0, "a"));
    let ids = [redrive_core::RunId(1), redrive_core::RunId(2)];
    f.store.cancel_runs(&ids, &operator(at(90_001))).await.expect("cancelled");
    assert_eq!(f.causes(at(90_000)).await, []);
    let fingerprint = Some(fingerprint(&quota(1)));
    let filter = CauseFilter {
        kind: None,
        fingerprint,
        since: at(90_000),
        hours_since: at(90_000),
        limit: 1,
    };
    let gone = f.store.causes(&filter).await.expect("read").remove(0);
    assert_eq!((gone.kinds, gone.last_at), (Vec::new(), at(4_000)));
}
