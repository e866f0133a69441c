//! Gates: what claims let through, what results change, and orders.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use redrive_core::{Decision, Failure, GateSettings, GateStatus, GateTrip, RunId};
use redrive_store::{
    Categories, ClaimRequest, ClaimedRun, DeclaredGate, GateDeclarations, GateOrder, GateOrdered,
    GatePlace, GateRecord, GateRule, GateRules, JournalFilter, LeaseRef, LeaseRelease, Leased,
    PassedGates, PermitHolder, RunCompletion, RunFinish, UnitKind, WorkerId, Written,
};

use super::{
    Fixture,
    samples::{at, claim_of, finish, operator, passed, retry, run},
};

const BASE: Duration = Duration::from_secs(10);
const CAP: Duration = Duration::from_secs(600);

fn plain() -> GateSettings {
    GateSettings::default()
}

fn concurrency(most: u32) -> GateSettings {
    GateSettings::new(None, Some(most), None, BASE, CAP).expect("valid")
}

fn rule(name: &str, is_keyed: bool, settings: GateSettings) -> GateRule {
    GateRule { name: name.to_owned(), is_keyed, settings }
}

/// One gate, divided by category.
fn keyed(settings: GateSettings) -> GateRules {
    Arc::new([rule("api", true, settings)])
}

fn claim(gates: &GateRules, limit: u32, now: Timestamp) -> ClaimRequest {
    ClaimRequest { gates: gates.clone(), ..claim_of(limit, now) }
}

fn ids(claimed: &[ClaimedRun]) -> Vec<RunId> {
    claimed.iter().map(|run| run.id).collect()
}

fn finish_behind(
    gates: &GateRules,
    run: &ClaimedRun,
    ended_at: Timestamp,
    completion: RunCompletion,
) -> RunFinish {
    let gates = Some(PassedGates { rules: gates.clone(), key: run.category.clone() });
    RunFinish { gates, ..finish(run, ended_at, completion) }
}

/// The service limits the rate and asks for a wait.
fn limited(now: Timestamp, seconds: u64) -> RunCompletion {
    retry(now, Duration::from_secs(seconds), false)
}

impl Fixture {
    async fn declare(&self, gates: &GateRules) {
        let place = GatePlace { kind: UnitKind::Run, place: "q".to_owned() };
        let declared = gates.iter().map(|gate| DeclaredGate {
            name: gate.name.clone(),
            per: gate.is_keyed.then(|| "category".to_owned()),
            limits: gate.settings.limits_in_words(),
            places: vec![place.clone()],
            ..DeclaredGate::default()
        });
        let declared: Vec<DeclaredGate> = declared.collect();
        self.store.declare_gates(&declared.into(), at(0)).await.expect("declared");
    }

    async fn end_behind(
        &self,
        gates: &GateRules,
        run: &ClaimedRun,
        ended_at: Timestamp,
        completion: RunCompletion,
    ) {
        let finish = finish_behind(gates, run, ended_at, completion);
        let written = self.store.finish_runs(&[finish], ended_at).await.expect("answered");
        assert_eq!(written, [Written::Applied]);
    }

    async fn gate(&self, gate: &str, key: &str) -> GateRecord {
        let found = self.store.gate_rows(&[(gate, key)]).await.expect("read").pop();
        found.unwrap_or_else(|| panic!("{gate}/{key} has no row"))
    }

    async fn taken(&self, gates: &GateRules, limit: u32, now: Timestamp) -> Vec<RunId> {
        ids(&self.claim(&claim(gates, limit, now)).await)
    }
}

// GAT-1
pub async fn declared_gates_read_back_and_have_rows(f: &Fixture) {
    let gates: GateRules = Arc::new([rule("one", false, plain()), rule("many", true, plain())]);
    f.declare(&gates).await;
    f.declare(&gates).await;
    let declared = f.store.declared_gates().await.expect("read");
    let names: Vec<(&str, Option<&str>)> =
        declared.iter().map(|gate| (gate.name.as_str(), gate.per.as_deref())).collect();
    assert_eq!(names, [("many", Some("category")), ("one", None)]);
    assert_eq!(declared[0].places_of(UnitKind::Run).collect::<Vec<_>>(), ["q"]);
    assert_eq!(f.gate("one", "").await.state.status, GateStatus::Open);
    f.store.note_gate_keys(&[("many", "b"), ("many", "a'\\")]).await.expect("noted");
    f.store.note_gate_keys(&[("many", "b")]).await.expect("noted");
    let page = f.store.gates_page(Some("many"), false, ("", ""), 10).await.expect("read");
    assert_eq!(page.iter().map(|row| &*row.key).collect::<Vec<_>>(), ["a'\\", "b"]);
    let rest = f.store.gates_page(None, false, ("many", "b"), 10).await.expect("read");
    assert_eq!(rest.iter().map(GateRecord::name).collect::<Vec<_>>(), ["one"]);
    assert_eq!(f.store.gates_page(None, true, ("", ""), 10).await.expect("read"), []);
}

// GAT-2, GAT-3
pub async fn a_rate_limited_run_closes_its_key_for_every_claim(f: &Fixture) {
    let gates = keyed(plain());
    f.declare(&gates).await;
    let new: Vec<_> = (0..6).map(|n| run("q", ["acme", "bolt"][n % 2], at(n as i64))).collect();
    let runs = f.submit(&new, at(6)).await;
    let held = f.claim(&claim(&gates, 2, at(7))).await;
    assert_eq!(ids(&held), runs[..2]);
    assert!(!held[0].pass.has_permit, "an open gate without limits notes nothing");

    f.end_behind(&gates, &held[0], at(8), limited(at(8), 30)).await;
    let acme = f.gate("api", "acme").await;
    assert_eq!((acme.state.status, acme.state.closed_until), (GateStatus::Closed, Some(at(38))));
    assert_eq!(acme.state.closed_by.as_deref(), Some(&*format!("run:{}", runs[0])));
    assert_eq!(f.store.waiting_behind("api", "acme").await.expect("read"), 2);
    assert_eq!(f.taken(&gates, 10, at(9)).await, [runs[3], runs[5]], "other keys go on");
    let only = Categories::Only(vec!["acme".to_owned()]);
    let request = ClaimRequest { categories: only, ..claim(&gates, 10, at(9)) };
    assert_eq!(f.claim(&request).await, []);
    let journal = JournalFilter { unit: Some("gate:api/acme".to_owned()), action: None };
    let entries = f.store.journal_page(&journal, 0, 10).await.expect("read");
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].entry.action, "gate.closed");
}

// GAT-4
pub async fn one_probe_runs_and_its_answer_opens_the_gate_in_steps(f: &Fixture) {
    let gates = keyed(plain());
    f.declare(&gates).await;
    let new: Vec<_> = (0..20).map(|n| run("q", "acme", at(n))).collect();
    f.submit(&new, at(20)).await;
    let held = f.claim(&claim(&gates, 5, at(21))).await;
    f.end_behind(&gates, &held[0], at(22), limited(at(22), 30)).await;
    assert_eq!(f.gate("api", "acme").await.state.target, 5, "as many as ran");
    for run in &held[1..] {
        f.end_behind(&gates, run, at(23), passed()).await;
    }
    assert_eq!(f.gate("api", "acme").await.state.status, GateStatus::Closed, "stragglers");
    assert_eq!(f.taken(&gates, 10, at(51)).await, []);
    let mut steps = Vec::new();
    for now in [53, 54, 55, 56] {
        let step = f.claim(&claim(&gates, 10, at(now))).await;
        assert_eq!(f.taken(&gates, 10, at(now)).await, [], "no more than the step");
        steps.push(step.len());
        for run in &step {
            assert!(run.pass.has_permit);
            f.end_behind(&gates, run, at(now), passed()).await;
        }
    }
    assert_eq!(steps, [1, 2, 4, 5]);
    let open = f.gate("api", "acme").await;
    assert_eq!((open.state.status, open.held.all), (GateStatus::Open, 0));
    assert_eq!(f.claim(&claim(&gates, 100, at(57))).await.len(), 4, "the rest, with the first");
}

// GAT-4
pub async fn a_refused_probe_closes_the_gate_for_longer(f: &Fixture) {
    let gates = keyed(plain());
    f.declare(&gates).await;
    f.submit(&(0..4).map(|n| run("q", "", at(n))).collect::<Vec<_>>(), at(4)).await;
    let first = f.claim(&claim(&gates, 1, at(5))).await;
    f.end_behind(&gates, &first[0], at(6), limited(at(6), 4)).await;
    let probe = f.claim(&claim(&gates, 1, at(10))).await;
    f.end_behind(&gates, &probe[0], at(11), retry(at(11), BASE, true)).await;
    let gate = f.gate("api", "").await;
    assert_eq!((gate.state.closings, gate.state.closed_until), (2, Some(at(31))));
    assert_eq!(f.taken(&gates, 10, at(30)).await, []);
}

// GAT-4
pub async fn a_lost_probe_leaves_its_place(f: &Fixture) {
    let gates = keyed(plain());
    f.declare(&gates).await;
    let runs = f.submit(&(0..3).map(|n| run("q", "", at(n))).collect::<Vec<_>>(), at(4)).await;
    let first = f.claim(&claim(&gates, 1, at(5))).await;
    f.end_behind(&gates, &first[0], at(6), limited(at(6), 4)).await;
    let probe = f.claim(&claim(&gates, 9, at(10))).await;
    assert_eq!(ids(&probe), [runs[0]]);
    let lease = LeaseRef { id: probe[0].id.0, epoch: probe[0].epoch };
    let holder = PermitHolder { kind: UnitKind::Run, lease };
    assert_eq!(f.store.gate_permits("api", "", 9).await.expect("read"), [holder]);
    let release =
        LeaseRelease { lease, owner: WorkerId("w1".to_owned()), why: "shutdown".to_owned() };
    let released = f.store.release_leases(Leased::Run, &[release], at(11)).await.expect("answered");
    assert_eq!(released, [Written::Applied]);
    let again = f.claim(&claim(&gates, 9, at(12))).await;
    assert_eq!(ids(&again), [runs[0]], "another probe, and one alone");

    let lost = RunCompletion::Failed {
        failure: Failure::lost_worker("the lease ended"),
        decision: Decision::RetryAt { at: at(13), delay: Duration::ZERO, counted: true },
    };
    f.end_behind(&gates, &again[0], at(13), lost).await;
    assert_eq!(f.gate("api", "").await.state.status, GateStatus::Probing);
    assert_eq!(f.claim(&claim(&gates, 9, at(14))).await.len(), 1);
    f.store.cancel_runs(&[runs[0]], &operator(at(15))).await.expect("cancelled");
    assert_eq!(f.claim(&claim(&gates, 9, at(16))).await.len(), 1, "a cancelled probe too");
}

// GAT-5
pub async fn concurrency_is_never_exceeded_over_all_claims(f: &Fixture) {
    let gates = keyed(concurrency(3));
    f.declare(&gates).await;
    let new: Vec<_> = (0..12).map(|n| run("q", ["acme", "bolt"][n % 2], at(n as i64))).collect();
    f.submit(&new, at(12)).await;
    let first = f.claim(&claim(&gates, 4, at(13))).await;
    let rest = f.claim(&claim(&gates, 100, at(13))).await;
    assert_eq!((first.len(), rest.len()), (4, 2), "three of each");
    assert_eq!(f.taken(&gates, 100, at(13)).await, []);
    let acme = first.iter().find(|run| run.category == "acme").expect("one");
    f.end_behind(&gates, acme, at(14), passed()).await;
    let next = f.claim(&claim(&gates, 100, at(14))).await;
    assert_eq!(next.iter().map(|run| &*run.category).collect::<Vec<_>>(), ["acme"]);
}

// GAT-5
pub async fn a_rate_gives_start_times_one_after_another(f: &Fixture) {
    let rate = Some("10/s".parse().expect("valid"));
    let settings = GateSettings::new(rate, None, None, BASE, CAP).expect("valid");
    let gates: GateRules = Arc::new([rule("api", false, settings)]);
    f.declare(&gates).await;
    f.submit(&(0..50).map(|n| run("q", "", at(n))).collect::<Vec<_>>(), at(50)).await;
    let mut starts = Vec::new();
    for _ in 0..3 {
        let claimed = f.claim(&claim(&gates, 2, at(51))).await;
        starts.extend(claimed.iter().filter_map(|run| run.pass.start).map(|start| start.from));
    }
    assert!((2..=4).contains(&starts.len()), "a quarter of a second ahead: {starts:?}");
    let spaced =
        |pair: &[Timestamp]| pair[1].duration_since(pair[0]) >= SignedDuration::from_millis(100);
    assert!(starts.windows(2).all(spaced), "{starts:?}");
}

// GAT-5: a gate of one rate is shared by keys with rates of their own.
pub async fn two_rates_waste_no_start_times(f: &Fixture) {
    let rated = |name: &str, is_keyed, rate: &str| {
        let rate = Some(rate.parse().expect("valid"));
        rule(name, is_keyed, GateSettings::new(rate, None, None, BASE, CAP).expect("valid"))
    };
    let gates: GateRules = Arc::new([rated("all", false, "100/s"), rated("each", true, "10/s")]);
    f.declare(&gates).await;
    let slow = (0..3).map(|n| run("q", "acme", at(n)));
    let others: Vec<String> = (0..10).map(|n| format!("other-{n}")).collect();
    let others = others.iter().map(|key| run("q", key, at(5)));
    f.submit(&slow.chain(others).collect::<Vec<_>>(), at(6)).await;
    let claimed = f.claim(&claim(&gates, 13, at(7))).await;
    let starts = claimed.iter().filter_map(|run| Some((&*run.category, run.pass.start?.from)));
    let mut starts: Vec<(&str, Timestamp)> = starts.collect();
    starts.sort_by_key(|(_, from)| *from);
    assert_eq!(starts.len(), 13, "all can start within a quarter of a second");
    let early = starts.iter().take(10).filter(|(category, _)| *category == "acme").count();
    assert_eq!(early, 1, "keys that can start at once do not wait for acme: {starts:?}");
}

// GAT-1
pub async fn a_gate_that_its_places_leave_opens(f: &Fixture) {
    let gate = |queue: &str| {
        let places = vec![GatePlace { kind: UnitKind::Run, place: queue.to_owned() }];
        DeclaredGate { name: "api".to_owned(), places, ..DeclaredGate::default() }
    };
    for queue in ["q", "r"] {
        f.store.declare_gates(&vec![gate(queue)].into(), at(0)).await.expect("declared");
    }
    let close = GateOrder::Close { until: None };
    f.store.order_gate("api", "", &close, &operator(at(1))).await.expect("closed");
    let leave = async |queue: &str| {
        let left = GateDeclarations { gates: Vec::new(), places: gate(queue).places };
        f.store.declare_gates(&left, at(2)).await.expect("declared");
        let declared = f.store.declared_gates().await.expect("read");
        let places: Vec<String> = declared[0].places_of(UnitKind::Run).map(str::to_owned).collect();
        (places, f.gate("api", "").await.state.status)
    };
    let of_another_configuration = (vec!["r".to_owned()], GateStatus::Closed);
    assert_eq!(leave("q").await, of_another_configuration);
    assert_eq!(leave("q").await, of_another_configuration);
    assert_eq!(leave("r").await, (Vec::new(), GateStatus::Open));
}

// GAT-4: nothing would probe it.
pub async fn a_key_that_nothing_passes_opens(f: &Fixture) {
    let gates = keyed(plain());
    f.declare(&gates).await;
    f.submit(&[run("q", "acme", at(0)), run("q", "bolt", at(0))], at(1)).await;
    let held = f.claim(&claim(&gates, 2, at(2))).await;
    for run in &held {
        f.end_behind(&gates, run, at(3), limited(at(3), 10)).await;
    }
    let acme = held.iter().find(|run| run.category == "acme").expect("claimed").id;
    f.store.cancel_runs(&[acme], &operator(at(4))).await.expect("cancelled");
    let hour = 3_600;
    assert_eq!(f.taken(&gates, 9, at(12)).await, []);
    assert_eq!(f.gate("api", "acme").await.state.status, GateStatus::Closed);
    f.submit(&[run("q", "else", at(5))], at(5)).await;
    let probe = f.claim(&claim(&gates, 9, at(14 + hour))).await;
    assert_eq!(probe.len(), 2, "the probe of bolt, and a run of another key");
    assert_eq!(f.gate("api", "acme").await.state.status, GateStatus::Open);
    assert_eq!(f.gate("api", "bolt").await.state.status, GateStatus::Probing);
    let journal = JournalFilter { unit: Some("gate:api/acme".to_owned()), action: None };
    let entries = f.store.journal_page(&journal, 0, 10).await.expect("read");
    let told: Vec<&str> = entries.iter().map(|row| &*row.entry.action).collect();
    assert_eq!(told, ["gate.closed", "gate.opened"]);
    // The probe of bolt is cancelled: the gate stays in the midst of its way to open.
    let bolt = probe.iter().find(|run| run.category == "bolt").expect("claimed").id;
    f.submit(&[run("q", "else", at(6)), run("q", "else", at(7))], at(7)).await;
    assert_eq!(f.claim(&claim(&gates, 1, at(15 + hour))).await.len(), 1);
    assert_eq!(f.gate("api", "bolt").await.state.status, GateStatus::Probing, "it runs");
    f.store.cancel_runs(&[bolt], &operator(at(16 + hour))).await.expect("cancelled");
    assert_eq!(f.claim(&claim(&gates, 1, at(17 + hour))).await.len(), 1);
    assert_eq!(f.gate("api", "bolt").await.state.status, GateStatus::Open);
}

// GAT-2
pub async fn a_trip_closes_a_gate_after_too_many_failures(f: &Fixture) {
    let trip = GateTrip { failures: 0.5, of: 4, within: Duration::from_secs(60) };
    let settings = GateSettings::new(None, None, Some(trip), BASE, CAP).expect("valid");
    let gates: GateRules = Arc::new([rule("api", false, settings)]);
    f.declare(&gates).await;
    f.submit(&(0..9).map(|n| run("q", "", at(n))).collect::<Vec<_>>(), at(9)).await;
    let held = f.claim(&claim(&gates, 4, at(10))).await;
    f.end_behind(&gates, &held[0], at(11), retry(at(11), BASE, true)).await;
    f.end_behind(&gates, &held[1], at(12), passed()).await;
    f.end_behind(&gates, &held[2], at(13), retry(at(13), BASE, true)).await;
    assert_eq!(f.gate("api", "").await.state.status, GateStatus::Open);
    f.end_behind(&gates, &held[3], at(14), retry(at(14), BASE, true)).await;
    let gate = f.gate("api", "").await;
    assert_eq!((gate.state.status, gate.state.closed_until), (GateStatus::Closed, Some(at(24))));
    assert_eq!(gate.state.reason.as_deref(), Some("3 of the last 4 attempts failed as retryable"));
    assert_eq!(f.taken(&gates, 9, at(15)).await, []);
}

// GAT-2, GAT-6
pub async fn operators_close_and_open_gates(f: &Fixture) {
    let gates: GateRules = Arc::new([rule("api", false, plain())]);
    f.declare(&gates).await;
    let runs = f.submit(&[run("q", "x", at(0))], at(1)).await;
    let close = GateOrder::Close { until: Some(at(60)) };
    let unknown = f.store.order_gate("none", "", &close, &operator(at(2))).await.expect("answered");
    assert_eq!(unknown, GateOrdered::Unknown);
    let open = f.store.order_gate("api", "", &GateOrder::Open, &operator(at(2))).await;
    assert_eq!(open.expect("answered"), GateOrdered::Refused(GateStatus::Open));
    let closed = f.store.order_gate("api", "", &close, &operator(at(2))).await.expect("answered");
    assert_eq!(closed, GateOrdered::Done);
    assert_eq!(f.taken(&gates, 9, at(3)).await, []);
    assert_eq!(f.gate("api", "").await.state.closed_by.as_deref(), Some("ada"));
    let open = f.store.order_gate("api", "", &GateOrder::Open, &operator(at(4))).await;
    assert_eq!(open.expect("answered"), GateOrdered::Done);
    assert_eq!(f.taken(&gates, 9, at(5)).await, runs);
    let journal = JournalFilter { unit: Some("gate:api".to_owned()), action: None };
    let entries = f.store.journal_page(&journal, 0, 10).await.expect("read");
    let told: Vec<(&str, &str)> =
        entries.iter().map(|row| (&*row.entry.action, &*row.entry.actor)).collect();
    assert_eq!(told, [("gate.closed", "ada"), ("gate.opened", "ada")]);
}

// GAT-3: a claim and the finish that closes its gate, at once.
pub async fn no_claim_after_a_closing_takes_a_run_behind_it(f: &Fixture) {
    let gates = keyed(plain());
    f.declare(&gates).await;
    for round in 0..10 {
        let key = format!("k{round}");
        let new: Vec<_> = (0..30).map(|n| run("q", &key, at(n))).collect();
        f.submit(&new, at(30)).await;
        let held = f.claim(&claim(&gates, 1, at(31))).await;
        let finish = finish_behind(&gates, &held[0], at(32), limited(at(32), 600));
        let (request, finishes) = (claim(&gates, 5, at(33)), [finish]);
        let (written, early, also) = tokio::join!(
            f.store.finish_runs(&finishes, at(32)),
            f.store.claim_runs(&request),
            f.store.claim_runs(&request),
        );
        assert_eq!(written.expect("answered"), [Written::Applied]);
        let early = early.expect("claimed").len() + also.expect("claimed").len();
        assert_eq!(f.taken(&gates, 50, at(34)).await, [], "{early} were claimed before");
        let closed = f.gate("api", &key).await.state;
        assert_eq!((closed.status, closed.epoch), (GateStatus::Closed, 1));
    }
}

// GAT-1: units pass all of their gates.
pub async fn a_run_passes_all_of_its_gates(f: &Fixture) {
    let gates: GateRules =
        Arc::new([rule("all", false, concurrency(3)), rule("each", true, concurrency(2))]);
    f.declare(&gates).await;
    let new: Vec<_> = (0..8).map(|n| run("q", ["acme", "bolt"][n / 4], at(n as i64))).collect();
    f.submit(&new, at(12)).await;
    let claimed = f.claim(&claim(&gates, 100, at(13))).await;
    let count = |key: &str| claimed.iter().filter(|run| run.category == key).count();
    assert_eq!((count("acme"), count("bolt")), (2, 1));
}
