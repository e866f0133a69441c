//! Sources of pipeline runs: claims, added samples and invalid lines.

use std::collections::HashSet;

use jiff::SignedDuration;
use redrive_core::{
    BudgetCount, Cause, Epoch, Failure, FailureBudget, PipelineRules, PipelineRunId,
    PipelineStatus, SampleId, SampleStatus,
};
use serde_json::json;

use super::{
    Fixture,
    pipeline_samples::{counts, feed_claim, lines, new_run, position, served},
    samples::{at, before, operator},
};
use redrive_store::{
    ExpiringLease, JournalEntry, LeaseRef, MAX_PAGE_BYTES, NewPipelineRun, NewSample, PageLimit,
    SampleLine, Selection, Served, SourceClaim, SourceFinish, SourcePosition, WorkerId, Written,
    pipeline_entry,
};

// PIP-2
pub async fn a_source_is_read_by_one_who_holds_it(f: &Fixture) {
    let id = f.store.start_pipeline_run(&new_run(), &operator(at(0))).await.expect("started");
    let claims = async |claim: SourceClaim| f.store.claim_feeds(&claim).await.expect("claimed");
    let other = Served { stages: vec!["clean".to_owned()], ..served() };
    assert_eq!(claims(SourceClaim { served: other, ..feed_claim(at(1)) }).await, []);
    let other = Served { pipeline: "q".to_owned(), ..served() };
    assert_eq!(claims(SourceClaim { served: other, ..feed_claim(at(1)) }).await, []);
    let other = Served { run: Some(PipelineRunId(id.0 + 1)), ..served() };
    assert_eq!(claims(SourceClaim { served: other, ..feed_claim(at(1)) }).await, []);
    assert_eq!(claims(SourceClaim { limit: 0, ..feed_claim(at(1)) }).await, []);

    let first = claims(feed_claim(at(1))).await;
    assert_eq!(first[0].0, LeaseRef { id: id.0, epoch: Epoch(1) });
    let feed = ExpiringLease { owner: WorkerId("w1".to_owned()), until: at(61) };
    assert_eq!(first[0].1.feed, Some(feed));
    assert_eq!(claims(feed_claim(at(2))).await, [], "it is held");
    f.feed(first[0].0, &lines(1..=3), false).await;

    let finish = |lease, failure| SourceFinish {
        lease,
        failure,
        at: at(3),
        worker: WorkerId("w1".to_owned()),
    };
    let finishes = [
        finish(LeaseRef { epoch: before(first[0].0.epoch), ..first[0].0 }, None),
        finish(first[0].0, None),
        finish(first[0].0, Some(Failure::spawn("too late"))),
    ];
    let written = f.store.finish_feeds(&finishes).await.expect("answered");
    assert_eq!(written, [Written::Stale, Written::Applied, Written::Stale]);
    assert_eq!(f.progress(id).await.status, PipelineStatus::Running);

    let second = claims(feed_claim(at(4))).await;
    assert_eq!(second[0].0.epoch, Epoch(2));
    assert_eq!(second[0].1.position, position(3, false), "whoever comes next goes on from there");
    f.feed(second[0].0, &lines(4..=4), true).await;
    let written = f.store.finish_feeds(&[finish(second[0].0, None)]).await.expect("answered");
    assert_eq!(written, [Written::Applied]);
    assert_eq!(claims(feed_claim(at(5))).await, [], "it was read to its end");
    assert_eq!(f.store.finish_feeds(&[]).await.expect("answered"), []);
}

// PIP-2
pub async fn claims_of_sources_at_once_are_granted_to_one(f: &Fixture) {
    for _ in 0..20 {
        f.store.start_pipeline_run(&new_run(), &operator(at(0))).await.expect("started");
    }
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..8 {
        let store = f.store.clone();
        tasks.spawn(async move {
            let owner = WorkerId(format!("w{worker}"));
            let mut mine = Vec::new();
            for _ in 0..20 {
                let claim = SourceClaim { limit: 3, owner: owner.clone(), ..feed_claim(at(1)) };
                mine.extend(store.claim_feeds(&claim).await.expect("claimed"));
            }
            mine.into_iter().map(|(lease, _)| lease.id).collect::<Vec<_>>()
        });
    }
    let taken: Vec<i64> = tasks.join_all().await.into_iter().flatten().collect();
    let distinct: HashSet<i64> = taken.iter().copied().collect();
    assert_eq!((taken.len(), distinct.len()), (20, 20));
}

// FIX-3
pub async fn a_source_is_moved_only_while_nobody_reads_it(f: &Fixture) {
    let id = f.store.start_pipeline_run(&new_run(), &operator(at(0))).await.expect("started");
    let claim = async |seconds| {
        let lease_until = f.store.now() + SignedDuration::from_secs(seconds);
        let claim = SourceClaim { lease_until, ..feed_claim(at(1)) };
        f.store.claim_feeds(&claim).await.expect("claimed").remove(0).0
    };
    let patched = |lines| SourcePosition { bytes: 99, ..position(lines, false) };
    let entry = JournalEntry {
        unit: Some("a unit".to_owned()),
        ..pipeline_entry(id, "pipeline.source_changed", &json!({}), at(2), "ada")
    };
    let move_to = async |lines| f.store.move_source(id, &patched(lines), &entry).await;
    let finish = async |lease| {
        let worker = WorkerId("w1".to_owned());
        let finish = SourceFinish { lease, failure: None, at: at(3), worker };
        f.store.finish_feeds(&[finish]).await.expect("answered")
    };

    let held = claim(60).await;
    f.feed(held, &lines(1..=3), false).await;
    assert_eq!(move_to(3).await.expect("answered"), Written::Stale, "a worker reads it");
    assert_eq!(finish(held).await, [Written::Applied]);
    assert_eq!(move_to(2).await.expect("answered"), Written::Stale, "three lines were read");
    assert_eq!(f.pipeline_run(id).await.position, position(3, false));
    assert_eq!(move_to(3).await.expect("answered"), Written::Applied);
    assert_eq!(f.pipeline_run(id).await.position, patched(3));

    let expired = claim(-1).await;
    assert_eq!(move_to(3).await.expect("answered"), Written::Applied, "its reader is lost");
    let late = f.store.append_samples(expired, &lines(4..=4), &position(4, false), at(4)).await;
    assert_eq!(late.expect("answered"), None, "a reader that comes back is kept out");

    let last = claim(60).await;
    f.feed(last, &lines(4..=4), true).await;
    assert_eq!(finish(last).await, [Written::Applied]);
    assert_eq!(move_to(4).await.expect("answered"), Written::Stale, "it was read to its end");
    assert_eq!(f.told_by("pipeline.source_changed").await, [entry.clone(), entry]);
}

// PIP-2
pub async fn samples_and_the_position_are_stored_together(f: &Fixture) {
    let feed = f.reading(&new_run()).await;
    let id = PipelineRunId(feed.id);
    let run = f.feed(feed, &lines(1..=3), false).await;
    assert_eq!(run.position, position(3, false));
    assert_eq!(run.progress.counts, counts([3, 0, 0, 0], false));
    assert_eq!(run, f.pipeline_run(id).await);

    let stale = LeaseRef { epoch: before(feed.epoch), ..feed };
    let unknown = LeaseRef { id: feed.id + 1, ..feed };
    for lease in [stale, unknown] {
        let added = f.store.append_samples(lease, &lines(4..=5), &position(5, true), at(2)).await;
        assert_eq!(added.expect("answered"), None);
    }
    assert_eq!(f.pipeline_run(id).await, run, "someone else adds nothing");
    // A line that is there already: the position and the other line are not kept either.
    let twice = f.store.append_samples(feed, &lines(3..=4), &position(4, false), at(2)).await;
    twice.expect_err("a line is read once");
    assert_eq!(f.pipeline_run(id).await, run);
    assert_eq!(f.store.count_samples(&Selection::default()).await.expect("read"), 3);

    let all = Selection::default();
    let samples = f.store.samples_page(&all, SampleId(0), 9.into()).await.expect("read");
    assert_eq!(samples.iter().map(|sample| sample.line).collect::<Vec<_>>(), [1, 2, 3]);
    for sample in &samples {
        assert_eq!((sample.run, sample.pipeline.as_str()), (id, "p"));
        assert_eq!(sample.data, Some(format!("{{\"n\": {}}}", sample.line)));
        assert_eq!((sample.status, sample.stage), (SampleStatus::Pending, 0));
        assert_eq!((sample.stage_name.as_str(), sample.attempts), ("clean", 0));
        assert_eq!((sample.lease_epoch, sample.lease_until), (Epoch(0), None));
    }

    let run = f.feed(feed, &[], true).await;
    assert_eq!(run.progress.counts, counts([3, 0, 0, 0], true));
    assert_eq!(run.progress.status, PipelineStatus::Running, "there is work");
}

pub async fn pages_of_samples_are_bounded_in_bytes(f: &Fixture) {
    let feed = f.reading(&new_run()).await;
    let large = format!("{:?}", "x".repeat(MAX_PAGE_BYTES / 2));
    let mut samples = lines(1..=5);
    samples[..4].iter_mut().for_each(|sample| sample.data = Ok(large.clone()));
    f.feed(feed, &samples, true).await;
    let all = Selection::default();
    let page = |after, limit| f.store.samples_page(&all, SampleId(after), limit);
    let (limit, mut after, mut seen) = (PageLimit::from(100), 0, Vec::new());
    loop {
        let page = page(after, limit).await.expect("read");
        assert!((1..=2).contains(&page.len()), "{}", page.len());
        after = page[page.len() - 1].id.0;
        seen.extend(page.iter().map(|sample| sample.line));
        if !limit.is_reached(&page) {
            break;
        }
    }
    assert_eq!(seen, [1, 2, 3, 4, 5]);
    let found = page(0, PageLimit::without_data(100)).await.expect("read");
    assert!(found.len() == 5 && found.iter().all(|it| it.data.as_deref() == Some("")));
    assert_eq!(found[0].stage_name, "clean");
}

// PIP-2, PIP-3
pub async fn a_line_that_is_no_sample_is_a_dead_letter_at_once(f: &Fixture) {
    // Ids of samples go on where those of another run end; lines begin anew.
    let other = f.reading(&new_run()).await;
    f.feed(other, &lines(1..=3), true).await;
    let feed = f.reading(&new_run()).await;
    let failure = || Failure::named("not_json", Cause::Validator, "line 2 is no JSON: \0 <html>");
    let mut given = lines(1..=4);
    for line in [1, 3] {
        given[line] = NewSample { line: given[line].line, data: Err(failure()), hash: None };
    }
    let run = f.feed(feed, &given, false).await;
    assert_eq!(run.progress.counts, counts([4, 0, 0, 2], false));
    assert_eq!(run.progress.budget, BudgetCount { processed: 2, failed: 2 });
    let filter = Selection { state: Some(SampleStatus::Dlq.into()), ..Selection::default() };
    let dead = f.store.samples_page(&filter, SampleId(0), 9.into()).await.expect("read");
    assert_eq!(dead.iter().map(|sample| sample.line).collect::<Vec<_>>(), [2, 4]);
    for sample in &dead {
        assert_eq!((&sample.data, sample.stage_name.as_str()), (&None, "source"));
        assert_eq!(sample.error_code.as_deref(), Some("not_json"));
        assert_eq!(sample.error_message.as_deref(), Some(failure().message().as_str()));
        assert_eq!(sample.last_attempt_at, Some(at(1)));
        assert!(sample.fingerprint.is_some());
    }
    let told = f.told_by("sample.dead").await;
    let units: Vec<_> = told.iter().map(|entry| entry.unit.clone().expect("a unit")).collect();
    let named =
        |sample: &redrive_store::SampleRecord| redrive_store::sample_unit(sample.id, "source");
    assert_eq!(units, dead.iter().map(named).collect::<Vec<_>>());
    let claimed = f.samples_at(0, 9, at(2)).await;
    let of_run = claimed.iter().filter(|sample| sample.run.0 == feed.id);
    assert_eq!(of_run.count(), 2, "the rest goes on");
}

// PIP-6
pub async fn dead_lines_of_a_source_count_against_the_budget(f: &Fixture) {
    let budget = FailureBudget { rate: 0.5, every: 2, ..FailureBudget::default() };
    let rules = PipelineRules { budget, ..PipelineRules::default() };
    let feed = f.reading(&NewPipelineRun { rules, ..new_run() }).await;
    let failure = || Failure::named("not_json", Cause::Validator, "no JSON");
    let dead = |line| NewSample { line, data: Err(failure()), hash: None };
    let run = f.feed(feed, &[dead(1), dead(2), dead(3)], true).await;
    assert_eq!(run.progress.status, PipelineStatus::Aborted);
    assert_eq!(run.progress.counts, counts([3, 0, 0, 3], true), "every sample is accounted for");
    let why = run.stop_reason.expect("a reason");
    assert!(why.contains("2 of 2 failed"), "{why}");
    let more = f.store.append_samples(feed, &lines(4..=4), &position(4, true), at(2)).await;
    assert_eq!(more.expect("answered"), None, "nothing is added to a run that was stopped");
}

// PIP-2
pub async fn a_source_that_cannot_be_read_stops_its_run(f: &Fixture) {
    let feed = f.reading(&new_run()).await;
    let id = PipelineRunId(feed.id);
    f.feed(feed, &lines(1..=2), false).await;
    let failure = Failure::named("source_changed", Cause::Validator, "line 1 is another\0");
    let finish = SourceFinish {
        lease: feed,
        failure: Some(failure),
        at: at(9),
        worker: WorkerId("w1".into()),
    };
    let written = f.store.finish_feeds(&[finish]).await.expect("answered");
    assert_eq!(written, [Written::Applied]);
    let run = f.pipeline_run(id).await;
    assert_eq!((run.progress.status, run.ended_at), (PipelineStatus::Aborted, Some(at(9))));
    assert!(run.stop_reason.expect("a reason").contains("line 1 is another"));
    assert_eq!((run.feed, f.told_by("pipeline.abort").await.len()), (None, 1));
    assert_eq!(f.samples_at(0, 9, at(10)).await, []);
}

// FIX-3
pub async fn lines_that_were_read_come_page_by_page(f: &Fixture) {
    let bad = Failure::named("bad_line", Cause::Validator, "not JSON");
    let read: Vec<NewSample> = (1..=5)
        .map(|line| NewSample {
            line,
            data: if line == 3 { Err(bad.clone()) } else { Ok("{}".to_owned()) },
            hash: Some(-100 - i64::try_from(line).expect("a few")),
        })
        .collect();
    let feeds = [f.reading(&new_run()).await, f.reading(&new_run()).await];
    for feed in feeds {
        f.feed(feed, &read, true).await;
    }
    let page = f.store.sample_lines(PipelineRunId(feeds[1].id), 1, 3).await.expect("read");
    let samples = f.store.samples_page(&Selection::default(), SampleId(0), 99.into()).await;
    let samples = samples.expect("read").into_iter();
    let expected: Vec<SampleLine> = samples
        .filter(|sample| sample.run.0 == feeds[1].id && (2..=4).contains(&sample.line))
        .map(|sample| SampleLine {
            id: sample.id,
            line: sample.line,
            hash: Some(-100 - i64::try_from(sample.line).expect("a few")),
            status: sample.status,
            stage: 0,
        })
        .collect();
    assert_eq!(page, expected);
    assert_eq!(page.iter().map(|line| line.line).collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!(page[1].status, SampleStatus::Dlq);
}
