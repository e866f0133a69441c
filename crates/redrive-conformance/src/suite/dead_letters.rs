//! Dead letters: finding, grouping and reprocessing them.

use redrive_core::{
    AttemptNumber, BudgetCount, Cause, Class, Failure, Fingerprint, PipelineRunId, PipelineStatus,
    SampleId, SampleState, SampleStatus,
};

use super::{
    Fixture,
    pipeline_samples::{answered, broken, counts, dead, ended, lines, new_run, skipped},
    samples::{at, distinct_entry, operator},
};
use redrive_store::{
    DataEdit, DeadCause, NewPipelineRun, NewSample, SampleChange, SampleFinish, SampleWritten,
    Selection, Written,
};

fn dlq() -> Selection {
    Selection { state: Some(SampleStatus::Dlq.into()), ..Selection::default() }
}

impl Fixture {
    async fn bring_back(&self, ids: &[SampleId]) -> Vec<SampleChange> {
        self.store.reprocess_samples(ids, &operator(at(40))).await.expect("answered")
    }

    /// The ids that match, in pages of two, which must be as many as are counted.
    async fn found(&self, filter: &Selection) -> Vec<SampleId> {
        let (mut after, mut found) = (SampleId(0), Vec::new());
        loop {
            let page = self.store.samples_page(filter, after, 2.into()).await.expect("read");
            let Some(last) = page.last() else { break };
            after = last.id;
            found.extend(page.into_iter().map(|sample| sample.id));
        }
        let count = self.store.count_samples(filter).await.expect("read");
        assert_eq!(count, found.len() as u64, "{filter:?}");
        found
    }
}

// PIP-7
pub async fn a_dead_letter_comes_back_to_its_stage_with_a_new_count(f: &Fixture) {
    let id = f.run_of(2).await;
    let first = f.samples_at(0, 2, at(2)).await;
    f.end_sample(&first[0], 0, at(3), answered("1")).await;
    f.end_sample(&first[1], 0, at(3), skipped()).await;
    let second = f.sample_at(1, at(4)).await;
    f.end_sample(&second, 1, at(5), broken()).await;
    let over = f.pipeline_run(id).await;
    assert_eq!((over.progress.status, over.ended_at), (PipelineStatus::Failed, Some(at(5))));

    assert_eq!(f.bring_back(&[second.id]).await, [SampleChange::Done]);
    let sample = f.sample(second.id).await;
    assert_eq!((sample.state(), sample.stage_name.as_str()), (SampleState::Ready, "score"));
    assert_eq!((sample.attempts, sample.attempts_at_reset, sample.retry_count), (1, 1, 0));
    assert_eq!((sample.first_attempt_at, sample.data.as_deref()), (None, Some("1")));
    let run = f.pipeline_run(id).await;
    assert_eq!((run.progress.status, run.ended_at), (PipelineStatus::Running, None));
    assert_eq!(run.progress.counts, counts([2, 0, 1, 0], true));
    assert_eq!(run.progress.budget, BudgetCount::default());
    let told = f.told_by("sample.reprocess").await;
    assert_eq!(told[0].unit, Some(redrive_store::sample_unit(second.id, "score")));
    assert_eq!((told.len(), told[0].actor.as_str(), told[0].at), (1, "ada", at(40)));

    let third = f.sample_at(1, at(41)).await;
    assert_eq!((third.attempt, third.history.counted), (AttemptNumber(2), 0));
    f.end_sample(&third, 1, at(42), broken()).await;
    assert_eq!(f.progress(id).await.status, PipelineStatus::Failed, "it can die again");
    assert_eq!(f.bring_back(&[second.id]).await, [SampleChange::Done]);
    let fourth = f.sample_at(1, at(43)).await;
    f.end_sample(&fourth, 1, at(44), answered("2")).await;
    let run = f.pipeline_run(id).await;
    assert_eq!(run.progress.status, PipelineStatus::Completed);
    assert_eq!(run.progress.counts, counts([2, 1, 1, 0], true));
    let ledger = f.sample_attempts(second.id, "score").await;
    assert_eq!(ledger.iter().map(|row| row.attempt.0).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(f.sample_attempts(second.id, "clean").await.len(), 1, "no stage is done twice");
}

// PIP-7
pub async fn only_dead_letters_come_back_each_once_and_answers_come_in_order(f: &Fixture) {
    let feed = f.reading(&new_run()).await;
    let mut given = lines(1..=5);
    let failure = Failure::named("not_json", Cause::Validator, "no JSON");
    given[4] = NewSample { line: 5, data: Err(failure), hash: None };
    f.feed(feed, &given, true).await;
    let held = f.samples_at(0, 3, at(2)).await;
    f.end_sample(&held[0], 0, at(3), broken()).await;
    f.end_sample(&held[1], 0, at(3), skipped()).await;
    let (dies, skips, runs) = (held[0].id, held[1].id, held[2].id);
    let (ready, none, unknown) = (SampleId(runs.0 + 1), SampleId(runs.0 + 2), SampleId(9_999));
    use SampleChange as C;
    assert_eq!(
        f.bring_back(&[unknown, none, ready, runs, skips, dies, dies]).await,
        [
            C::Unknown,
            C::NoData,
            C::Refused(SampleState::Ready),
            C::Refused(SampleState::Running),
            C::Refused(SampleState::Skipped),
            C::Done,
            C::Refused(SampleState::Ready),
        ]
    );
    assert_eq!(f.told_by("sample.reprocess").await.len(), 1);
    let progress = f.progress(PipelineRunId(feed.id)).await;
    assert_eq!(progress.counts, counts([5, 0, 1, 1], true));
    assert_eq!(f.bring_back(&[]).await, []);
    assert_eq!(f.bring_back(&[none]).await, [C::NoData], "again, and nothing else");
    assert_eq!(f.sample(none).await.state(), SampleState::Dead);
}

// PIP-7
pub async fn a_stopped_run_stays_so_when_its_dead_letters_come_back(f: &Fixture) {
    let id = f.run_of(3).await;
    let held = f.samples_at(0, 2, at(2)).await;
    f.end_sample(&held[0], 0, at(3), broken()).await;
    f.end_sample(&held[1], 0, at(3), broken()).await;
    f.cancel_pipeline_run(id).await;
    let back = f.bring_back(&[held[0].id, held[1].id]).await;
    assert_eq!(back, [SampleChange::Done; 2]);
    let run = f.pipeline_run(id).await;
    assert_eq!(run.progress.status, PipelineStatus::Cancelled);
    assert_eq!((run.ended_at, run.stop_reason.is_some()), (Some(at(50)), true));
    assert_eq!(run.progress.counts, counts([3, 0, 0, 0], true));
    assert_eq!(f.samples_at(0, 9, at(51)).await, []);
}

// PIP-7
pub async fn operators_at_once_bring_each_dead_letter_back_once(f: &Fixture) {
    let runs = [f.run_of(20).await, f.run_of(20).await];
    f.end_each(at(2), (0..40).map(|_| broken()).collect()).await;
    let ids = f.found(&dlq()).await;
    let mut tasks = tokio::task::JoinSet::new();
    for turn in 0..6 {
        let (store, mut ids) = (f.store.clone(), ids.clone());
        if turn % 2 == 0 {
            ids.reverse();
        }
        tasks.spawn(async move {
            store.reprocess_samples(&ids, &operator(at(40))).await.expect("answered")
        });
    }
    let changes = tasks.join_all().await.concat();
    let done = changes.iter().filter(|change| **change == SampleChange::Done).count();
    assert_eq!((changes.len(), done), (240, 40));
    assert_eq!(f.told_by("sample.reprocess").await.len(), 40);
    for run in runs {
        let progress = f.progress(run).await;
        assert_eq!(progress.counts, counts([20, 0, 0, 0], true));
        assert_eq!(progress.status, PipelineStatus::Running);
    }
}

// PIP-7
pub async fn samples_are_found_by_everything_that_is_given(f: &Fixture) {
    let first = f.run_of(6).await;
    let held = f.samples_at(0, 6, at(2)).await;
    let messages =
        ["100% broken", "100 broken", "a_b 'quoted' \"twice\"", "aXb \\ backslash", "日本語 é"];
    for (sample, message) in held.iter().zip(messages) {
        f.end_sample(sample, 0, at(3), dead(Failure::http(422, None, message))).await;
    }
    f.end_sample(&held[5], 0, at(3), answered("1")).await;
    let later = f.sample_at(1, at(4)).await;
    f.end_sample(&later, 1, at(5), dead(Failure::exit(3, "100% broken"))).await;
    let other = NewPipelineRun { pipeline: "p%".to_owned(), ..new_run() };
    let feed = f.reading(&other).await;
    let failure = Failure::named("not_json", Cause::Validator, "100% broken");
    f.feed(feed, &[NewSample { line: 1, data: Err(failure), hash: None }], false).await;
    f.feed(feed, &lines(2..=3), true).await;
    let second = PipelineRunId(feed.id);
    let all = f.found(&Selection::default()).await;
    assert_eq!(all.len(), 9);
    let id = |place: usize| all[place];

    let check = async |filter: Selection, expected: Vec<SampleId>| {
        let kept = filter.clone();
        assert_eq!(f.found(&filter).await, expected, "{kept:?}");
        // The same of dead letters, which are found by their own index.
        let dead = f.found(&dlq()).await;
        let both: Vec<_> = expected.into_iter().filter(|id| dead.contains(id)).collect();
        let filter = Selection { state: Some(SampleStatus::Dlq.into()), ..filter };
        assert_eq!(f.found(&filter).await, both, "{kept:?} of the dead");
    };
    let none = Selection::default();
    let text = |text: &str| Some(text.to_owned());
    check(Selection { error: text("100%"), ..none.clone() }, vec![id(0), id(5), id(6)]).await;
    check(Selection { error: text("a_b"), ..none.clone() }, vec![id(2)]).await;
    check(Selection { error: text("'quoted' \"twice\""), ..none.clone() }, vec![id(2)]).await;
    check(Selection { error: text("\\ b"), ..none.clone() }, vec![id(3)]).await;
    check(Selection { error: text("語 é"), ..none.clone() }, vec![id(4)]).await;
    check(Selection { error: text("BROKEN"), ..none.clone() }, vec![]).await;
    check(Selection { code: text("422"), ..none.clone() }, all[..5].to_vec()).await;
    check(Selection { code: text("42"), ..none.clone() }, vec![]).await;
    check(Selection { stage: text("score"), ..none.clone() }, vec![id(5)]).await;
    check(Selection { stage: text("source"), ..none.clone() }, vec![id(6)]).await;
    let clean = [&all[..5], &all[7..]].concat();
    check(Selection { stage: text("clean"), ..none.clone() }, clean).await;
    check(Selection { stage: text("clea_"), ..none.clone() }, vec![]).await;
    check(Selection { pipeline: text("p%"), ..none.clone() }, all[6..].to_vec()).await;
    check(Selection { pipeline: text("p"), ..none.clone() }, all[..6].to_vec()).await;
    check(Selection { run: Some(first), ..none.clone() }, all[..6].to_vec()).await;
    check(Selection { run: Some(second), ..none.clone() }, all[6..].to_vec()).await;
    check(Selection { run: Some(PipelineRunId(99)), ..none.clone() }, vec![]).await;
    let cause = Some(Fingerprint::of(Class::Final, "422", "100% broken").to_string());
    check(Selection { cause, ..none.clone() }, vec![id(0)]).await;
    let newest = async |filter: Selection, limit| {
        let found = f.store.newest_dead_samples(&filter, limit).await.expect("read");
        found.into_iter().map(|sample| sample.id).collect::<Vec<_>>()
    };
    let since = |seconds| Selection { failed_since: Some(at(seconds)), ..dlq() };
    let until = |seconds| Selection { failed_until: Some(at(seconds)), ..dlq() };
    let of_first = Selection { run: Some(first), ..dlq() };
    assert_eq!(newest(of_first.clone(), 2).await, [id(5), id(4)], "the last to die, then by id");
    assert_eq!(newest(of_first, 99).await, [id(5), id(4), id(3), id(2), id(1), id(0)]);
    let between = Selection { run: Some(first), failed_until: Some(at(5)), ..since(3) };
    assert_eq!(f.found(&between).await, all[..5]);
    assert_eq!(newest(between, 1).await, [id(4)]);
    assert_eq!(
        f.found(&until(3)).await,
        f.found(&Selection { run: Some(second), ..until(3) }).await
    );
    let late = Selection { run: Some(first), ..since(5) };
    assert_eq!(f.found(&late).await, [id(5)]);
    let causes = f.store.dead_causes(&late, 9).await.expect("read");
    assert_eq!(causes.iter().map(|cause| cause.first).collect::<Vec<_>>(), [id(5)]);
    let several =
        Selection { run: Some(first), code: text("3"), error: text("broken"), ..none.clone() };
    check(several, vec![id(5)]).await;
    let pending = Selection { state: Some(SampleStatus::Pending.into()), ..none };
    assert_eq!(f.found(&pending).await, all[7..]);
    assert_eq!(f.store.samples_by_id(&[SampleId(9_999)]).await.expect("read"), []);
    let named = f.store.samples_by_id(&[id(3), SampleId(9_999), id(1)]).await.expect("read");
    assert_eq!(named.iter().map(|sample| sample.id).collect::<Vec<_>>(), [id(1), id(3)]);
}

// PIP-7
pub async fn dead_letters_are_grouped_by_what_they_died_of(f: &Fixture) {
    f.run_of(5).await;
    let held = f.samples_at(0, 5, at(2)).await;
    let busy = |n: u32| dead(Failure::http(503, None, &format!("host 10.0.0.{n} is busy")));
    f.end_sample(&held[3], 0, at(3), busy(1)).await;
    f.end_sample(&held[1], 0, at(9), busy(2)).await;
    f.end_sample(&held[2], 0, at(4), busy(3)).await;
    f.end_sample(&held[0], 0, at(5), broken()).await;
    f.end_sample(&held[4], 0, at(5), answered("1")).await;
    let later = f.sample_at(1, at(6)).await;
    f.end_sample(&later, 1, at(7), busy(4)).await;
    let causes =
        async |filter: Selection, limit| f.store.dead_causes(&filter, limit).await.expect("read");
    let all = causes(dlq(), 9).await;
    let busy = Fingerprint::of(Class::Retryable, "503", "host 10.0.0.9 is busy").to_string();
    let expected = DeadCause {
        fingerprint: busy.clone(),
        pipeline: "p".to_owned(),
        stage_name: "clean".to_owned(),
        code: "503".to_owned(),
        example: "host 10.0.0.2 is busy".to_owned(),
        first: held[1].id,
        count: 3,
        last_attempt_at: Some(at(9)),
    };
    assert_eq!(all[0], expected);
    let rest: Vec<_> = all[1..].iter().map(|cause| (cause.first, cause.count)).collect();
    assert_eq!(rest, [(held[0].id, 1), (held[4].id, 1)], "the most frequent first, then by id");
    assert_eq!(causes(dlq(), 1).await, all[..1]);
    assert_eq!(causes(Selection::default(), 1).await, all[..1]);
    let score = Selection { stage: Some("score".to_owned()), ..dlq() };
    assert_eq!(causes(score, 9).await[0].first, held[4].id);
    let same = Selection { cause: Some(busy), ..dlq() };
    assert_eq!(causes(same, 9).await.len(), 2);
    let alive = Selection { state: Some(SampleStatus::Pending.into()), ..Selection::default() };
    assert_eq!(causes(alive, 9).await, []);
    let none = Selection { error: Some("%".to_owned()), ..dlq() };
    assert_eq!(causes(none, 9).await, []);
}

// PIP-5
pub async fn the_database_refuses_samples_and_runs_that_make_no_sense(f: &Fixture) {
    let id = f.run_of(3).await;
    let held = f.samples_at(0, 2, at(2)).await;
    f.end_sample(&held[0], 0, at(3), broken()).await;
    for sql in [
        "UPDATE samples SET status = 'done'",
        "UPDATE samples SET stage = -1",
        "UPDATE samples SET line = 0",
        "UPDATE samples SET line = 1",
        "UPDATE samples SET run_id = 99",
        "UPDATE samples SET attempts = -1",
        "UPDATE samples SET error_class = 'bad'",
        "UPDATE samples SET data = NULL",
        "UPDATE samples SET error_message = NULL",
        "UPDATE samples SET lease_owner = 'w9'",
        "UPDATE samples SET lease_until = NULL",
        "UPDATE samples SET status = 'succeeded'",
        "UPDATE samples SET next_retry_at = lease_until WHERE lease_until IS NOT NULL",
        "UPDATE samples SET next_retry_at = last_attempt_at WHERE status = 'dlq'",
        "DELETE FROM pipeline_runs",
        "UPDATE pipeline_runs SET status = 'done'",
        "UPDATE pipeline_runs SET status = 'failed'",
        "UPDATE pipeline_runs SET ended_at = started_at",
        "UPDATE pipeline_runs SET total = 0",
        "UPDATE pipeline_runs SET succeeded = -1",
        "UPDATE pipeline_runs SET succeeded = 3",
        "UPDATE pipeline_runs SET read_ahead = 0",
        "UPDATE pipeline_runs SET pipeline = ''",
        "UPDATE pipeline_runs SET lease_owner = NULL",
    ] {
        f.raw.execute(sql).await.expect_err(sql);
    }
    assert_eq!(f.progress(id).await.counts, counts([3, 0, 0, 1], true));
}

// FIX-2
pub async fn an_edit_replaces_the_data_of_a_dead_letter_that_was_seen(f: &Fixture) {
    let feed = f.reading(&new_run()).await;
    let bad = Failure::named("bad_line", Cause::Validator, "not JSON");
    let bad = NewSample { line: 4, data: Err(bad), hash: None };
    f.feed(feed, &[lines(1..=3), vec![bad]].concat(), true).await;
    f.end_each(at(10), vec![broken(), broken()]).await;
    let page = f.store.samples_page(&Selection::default(), SampleId(0), 9.into()).await;
    let mut expected = page.expect("read");
    let edit = |n: usize, old: Option<&str>| DataEdit {
        id: expected[n].id.0,
        old: old.map(str::to_owned),
        new: format!("{{\"new\": {n}}}"),
        journal: distinct_entry(&format!("sample:{n}"), at(20)),
    };
    let edits = [
        edit(0, Some("{\"n\": 1}")),
        edit(1, Some("{\"n\": 9}")),
        edit(2, Some("{\"n\": 3}")),
        edit(3, None),
    ];
    let written = f.store.edit_samples(&edits).await.expect("answered");
    let (stale, applied) = (Written::Stale, Written::Applied);
    assert_eq!(written, [applied, stale, stale, applied], "one has changed, and one is alive");
    for n in [0, 3] {
        expected[n].data = Some(edits[n].new.clone());
    }
    // The line becomes a sample of the first stage when it is reprocessed.
    let page = f.store.samples_page(&Selection::default(), SampleId(0), 9.into()).await;
    assert_eq!(page.expect("read"), expected);
    let entries = [edits[0].journal.clone(), edits[3].journal.clone()];
    assert_eq!(f.told_by("unit.change").await, entries);
}

// FIX-3
pub async fn a_dead_letter_that_is_read_again_starts_at_the_first_stage(f: &Fixture) {
    let id = f.run_of(2).await;
    let first = f.samples_at(0, 2, at(2)).await;
    f.end_sample(&first[0], 0, at(3), answered("1")).await;
    f.end_sample(&first[1], 0, at(3), broken()).await;
    let died = f.sample_at(1, at(4)).await;
    f.end_sample(&died, 1, at(5), broken()).await;
    let edit = |old: &str| DataEdit {
        id: died.id.0,
        old: Some(old.to_owned()),
        new: "{\"new\": 1}".to_owned(),
        journal: distinct_entry(&format!("sample:{}", died.id), at(20)),
    };
    let reread = async |edits: &[DataEdit]| f.store.reread_samples(edits, &operator(at(20))).await;
    let refused = SampleChange::Refused(SampleState::Dead);
    assert_eq!(reread(&[]).await.expect("answered"), []);
    assert_eq!(reread(&[edit("2")]).await.expect("answered"), [refused]);
    let twice = reread(&[edit("1"), edit("1")]).await.expect("answered");
    assert_eq!(twice, [SampleChange::Done, SampleChange::Refused(SampleState::Ready)]);
    let sample = f.sample(died.id).await;
    assert_eq!((sample.state(), sample.stage_name.as_str()), (SampleState::Ready, "clean"));
    assert_eq!((sample.attempts, sample.attempts_at_reset, sample.retry_count), (1, 1, 0));
    assert_eq!(sample.data, Some(edit("1").new));
    assert_eq!(f.progress(id).await.counts, counts([2, 0, 0, 1], true));
    assert_eq!(f.told_by("unit.change").await, [edit("1").journal]);
    assert_eq!(f.told_by("sample.reprocess").await.len(), 1);

    assert_eq!(f.samples_at(1, 9, at(21)).await, []);
    let first = f.sample_at(0, at(21)).await;
    assert_eq!((first.attempt, first.history.counted), (AttemptNumber(2), 0));
    let keep = SampleFinish { keep_until: Some(at(99)), ..ended(&first, 0, at(22), answered("3")) };
    let written = f.store.finish_samples(&[keep]).await.expect("answered");
    assert_eq!(written, [SampleWritten::Applied], "its worker does not know the next attempt");
    let second = f.sample_at(1, at(23)).await;
    assert_eq!((second.attempt, second.data.as_str()), (AttemptNumber(2), "3"));
    f.end_sample(&second, 1, at(24), answered("4")).await;
    assert_eq!(f.progress(id).await.counts, counts([2, 1, 0, 1], true));
    for stage in ["clean", "score"] {
        let ledger = f.sample_attempts(died.id, stage).await;
        assert_eq!(ledger.iter().map(|row| row.attempt.0).collect::<Vec<_>>(), [1, 2]);
    }
}
