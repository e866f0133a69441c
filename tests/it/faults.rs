//! Workers that are killed, stopped and doubled, as real processes on real stores.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::Read,
    process::{Child, Stdio},
    thread,
};

use serde_json::{Value, json};

use crate::{databases::one_of_each, folder::Folder, shop::Shop};

/// Runs a test on a store of each kind, both at the same time: most of it is waiting for leases.
fn on_both(config: &str, handler: &str, test: impl Fn(&Shop) + Sync) {
    let [sqlite, postgres] = [Folder::new(), Folder::new()];
    let [_, postgres_url] = one_of_each(&sqlite);
    let stores = [(sqlite, "sqlite:store.db"), (postgres, postgres_url.as_str())];
    thread::scope(|scope| {
        for (folder, store) in stores {
            scope.spawn(|| test(&Shop::selling(folder, store, config, handler)));
        }
    });
}

fn config(lease: &str, max_attempts: u32) -> String {
    format!(
        "[[queue]]\nname = \"work\"\nhandler = {{ exec = [\"/bin/sh\", \"work.sh\"] }}\n\
         lease = \"{lease}\"\ntimeout = \"60s\"\n\
         policy = {{ max-attempts = {max_attempts}, base = \"10ms\", cap = \"50ms\" }}\n"
    )
}

/// Submits runs in one go.
#[track_caller]
pub(crate) fn submit_many(shop: &Shop, count: usize) {
    let lines = "{\"queue\": \"work\"}\n".repeat(count);
    let arguments = ["runs", "submit", "--from", "-", "-q", "-o", "json"];
    assert_eq!(shop.run_reading(lines, &arguments).json()["accepted"], count);
}

/// Every run there is has passed, as many as were submitted, and the store has no complaint. Says how
/// many attempts each took.
#[track_caller]
pub(crate) fn all_passed(shop: &Shop, count: usize) -> BTreeMap<String, u64> {
    let runs = shop.run(&["runs", "list", "--limit", "10000", "-o", "json"]).json();
    let runs = runs.as_array().unwrap();
    assert_eq!(runs.len(), count, "nothing lost, nothing added");
    for run in runs {
        assert_eq!(run["status"], "passed", "{run}");
    }
    shop.run(&["doctor"]).ok();
    let attempts = |run: &Value| (format!("run:{}", run["id"]), run["attempts"].as_u64().unwrap());
    runs.iter().map(attempts).collect()
}

/// The lines that handlers left in a file, if any did.
fn lines_of(shop: &Shop, name: &str) -> Vec<String> {
    let text = fs::read_to_string(shop.folder.path().join(name)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// A worker that ends when all is done, and says nothing.
fn start_drain(shop: &Shop, arguments: &[&str]) -> Child {
    let mut command = shop.command(&[&["worker", "--drain", "-q", "-q"], arguments].concat());
    command.stdout(Stdio::null()).spawn().unwrap()
}

// RUN-7, OPS-6
#[test]
fn killed_workers_lose_no_run_and_cost_at_most_one_more_execution_each() {
    const RUNS: usize = 250;
    const IN_FLIGHT: usize = 200;
    const KILLS: usize = 3;
    // Nothing ends before the last kill, however slow the machine is; whose worker is gone ends too.
    let handler = "echo \"$REDRIVE_UNIT $REDRIVE_ATTEMPT\" >> executions\n\
                   until [ -e calm ]; do kill -0 \"$PPID\" || exit; sleep 0.5; done\n";
    on_both(&config("2s", 9), handler, |shop| {
        submit_many(shop, RUNS);
        let mut other = start_drain(shop, &["--concurrency", "4"]);
        for _ in 0..KILLS {
            let mut victim = shop.start_worker(&["--concurrency", &IN_FLIGHT.to_string()]);
            for _ in 0..IN_FLIGHT {
                // An initial attempt, or a retry.
                victim.wait_for("queue=work attempt=");
            }
            victim.signal("-KILL");
            assert_eq!(victim.end().0, None);
        }
        shop.folder.write("calm", "");
        shop.drain();
        assert!(other.wait().unwrap().success());

        let attempts = all_passed(shop, RUNS);
        no_attempt_was_executed_twice(shop, &attempts, KILLS);
        assert!(attempts.values().sum::<u64>() > RUNS as u64, "the kills were felt");
    });
}

/// What the handlers wrote into `executions` agrees with the ledger: each attempt at most once, the last
/// one of each run for sure, and no more of them than there were crashes to explain them.
#[track_caller]
pub(crate) fn no_attempt_was_executed_twice(
    shop: &Shop,
    attempts: &BTreeMap<String, u64>,
    crashes: usize,
) {
    let executions = lines_of(shop, "executions");
    let once: BTreeSet<&String> = executions.iter().collect();
    assert_eq!(once.len(), executions.len(), "no attempt was executed twice");
    let mut executed = BTreeMap::<&str, u64>::new();
    for execution in &executions {
        *executed.entry(execution.split_once(' ').unwrap().0).or_default() += 1;
    }
    assert_eq!(executed.len(), attempts.len(), "nothing was executed that is not in the ledger");
    for (run, attempts) in attempts {
        let executed = executed[run.as_str()];
        assert!(executed <= *attempts, "{run}: {executed} executions of {attempts} attempts");
        assert!(*attempts <= 1 + crashes as u64, "{run}: {attempts} attempts");
        assert!(once.contains(&format!("{run} {attempts}")), "{run}: the last one was done");
    }
}

// RUN-7
#[test]
fn a_worker_stopped_beyond_its_lease_ends_its_handler_and_the_run_ends_once() {
    let handler = "[ \"$REDRIVE_ATTEMPT\" = 1 ] || exit 0\n\
                   exec 3> alive; read -r word < gate\n";
    on_both(&config("1s", 3), handler, |shop| {
        shop.make_gate();
        shop.make_pipe("alive");
        let id = shop.submit("");
        let worker = shop.start_worker(&["--grace", "100ms"]);
        // Opens when the handler has begun, and ends when it is gone.
        let mut alive = File::open(shop.folder.path().join("alive")).unwrap();
        worker.freeze(shop);
        shop.drain();
        worker.signal("-CONT");
        alive.read_to_string(&mut String::new()).unwrap();
        worker.signal("-TERM");
        let (code, log) = worker.end();
        assert_eq!(code, Some(143), "{log}");
        assert!(log.contains("stopping its attempt"), "{log}");
        ended_once_after_a_loss(shop, id);
    });
}

// RUN-7
#[test]
fn the_late_result_of_a_stopped_worker_is_refused_and_the_run_ends_once() {
    // The first attempt is over, and its worker reads on for a second because a child holds the pipe.
    // A third of a second into that, the child says so.
    let handler = "[ \"$REDRIVE_ATTEMPT\" = 1 ] || exit 0\n\
                   (sleep 0.3; echo now > over; sleep 60) &\n\
                   echo '{\"ok\": \"late\"}'\n";
    on_both(&config("1s", 3), handler, |shop| {
        shop.make_pipe("over");
        // A machine under load may get past that second; then there was nothing to refuse.
        for _ in 0..5 {
            let id = shop.submit("");
            let worker = shop.start_worker(&[]);
            fs::read_to_string(shop.folder.path().join("over")).unwrap();
            worker.freeze(shop);
            shop.drain();
            worker.signal("-CONT");
            worker.signal("-TERM");
            let (code, log) = worker.end();
            assert_eq!(code, Some(143), "{log}");
            if log.contains("the store refused a late result") {
                ended_once_after_a_loss(shop, id);
                return;
            }
        }
        panic!("no late result was refused");
    });
}

/// A lost attempt began when it was claimed, not when the loss was found out. The lease is one second, and starts a moment
/// before the claim.
#[track_caller]
pub(crate) fn lasted_a_lease(attempt: &Value) {
    let at = |field: &str| attempt[field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let lasted = at("ended_at").duration_since(at("started_at"));
    assert!(lasted >= jiff::SignedDuration::from_millis(900), "{attempt}");
}

/// The first attempt was lost, the second passed; the result of the first is nowhere.
#[track_caller]
fn ended_once_after_a_loss(shop: &Shop, id: i64) {
    let story = shop.why(id);
    let attempts = story["attempts"].as_array().unwrap();
    let ends: Vec<_> = attempts.iter().map(|end| json!([end["outcome"], end["cause"]])).collect();
    assert_eq!(ends, [json!(["retrying", "lost_worker"]), json!(["success", null])], "{story}");
    assert_ne!(attempts[0]["worker"], attempts[1]["worker"]);
    lasted_a_lease(&attempts[0]);
    assert_eq!(
        (&story["run"]["status"], &story["run"]["result"]),
        (&json!("passed"), &Value::Null)
    );
    shop.run(&["doctor"]).ok();
}

// RUN-7
#[test]
fn separate_workers_never_hold_one_run_at_once() {
    const RUNS: usize = 300;
    // Every third run fails at first, so that retries are fought over as well.
    let handler = "mkdir \"$REDRIVE_UNIT\" || echo \"$REDRIVE_UNIT $REDRIVE_ATTEMPT\" >> violations\n\
                   echo \"$PPID\" >> workers\n\
                   sleep 0.02\n\
                   rmdir \"$REDRIVE_UNIT\" || echo \"$REDRIVE_UNIT $REDRIVE_ATTEMPT\" >> violations\n\
                   case \"$REDRIVE_UNIT:$REDRIVE_ATTEMPT\" in *[147]:1) exit 75 ;; esac\n";
    on_both(&config("30s", 3), handler, |shop| {
        submit_many(shop, RUNS);
        let mut workers: Vec<Child> =
            (0..3).map(|_| start_drain(shop, &["--concurrency", "8"])).collect();
        for worker in &mut workers {
            assert!(worker.wait().unwrap().success());
        }
        let attempts = all_passed(shop, RUNS);
        assert_eq!(lines_of(shop, "violations"), [""; 0]);
        let executions = lines_of(shop, "workers");
        assert_eq!(executions.len() as u64, attempts.values().sum::<u64>());
        let seen: BTreeSet<String> = executions.into_iter().collect();
        let all = workers.iter().map(|worker| worker.id().to_string()).collect();
        assert_eq!(seen, all, "all of them worked");
    });
}

// RUN-7
#[test]
fn a_handler_slower_than_its_lease_keeps_it() {
    let handler = "mkdir \"$REDRIVE_UNIT\" && sleep 2.5 && rmdir \"$REDRIVE_UNIT\"\n";
    on_both(&config("1s", 3), handler, |shop| {
        submit_many(shop, 8);
        let mut workers = [(); 2].map(|()| start_drain(shop, &["--concurrency", "4"]));
        for worker in &mut workers {
            assert!(worker.wait().unwrap().success());
        }
        assert!(all_passed(shop, 8).values().all(|attempts| *attempts == 1));
    });
}

/// Starts workers until one of them is through. Says how many were killed.
fn killed_workers(shop: &Shop, most: usize) -> usize {
    for killed in 0..=most {
        let worker = ["worker", "--drain", "-q", "-q", "--concurrency", "1"];
        if let Some(code) = shop.run(&worker).code {
            assert_eq!(code, 0);
            return killed;
        }
    }
    panic!("more than {most} workers were killed");
}

// POL-11
#[test]
fn a_run_that_kills_its_workers_is_given_up_after_max_lost() {
    let config = config("1s", 2).replace("max-attempts = 2", "max-attempts = 2, max-lost = 3");
    on_both(&config, "kill -9 $PPID\n", |shop| {
        let poison = shop.submit("poison");
        assert_eq!(killed_workers(shop, 3), 3, "more than max-attempts");
        let story = shop.why(poison);
        assert_eq!(story["next"]["state"], "given_up");
        let rules: Vec<_> = story["attempts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["rule"].as_str().unwrap())
            .collect();
        assert!(rules[0].starts_with("lost worker 1 of 3, not counted"), "{rules:?}");
        assert_eq!(rules[2..], ["gave up: attempts_exhausted: lost worker 3 of 3"]);
        shop.run(&["doctor"]).ok();
    });
}

// RUN-7, POL-2
#[test]
fn a_run_that_kills_its_workers_is_given_up_within_its_budget() {
    const ATTEMPTS: usize = 3;
    // There is one such run, so nobody else can have killed the worker before.
    let handler = "[ \"$REDRIVE_CATEGORY\" = fine ] || kill -9 $PPID\n";
    on_both(&config("1s", 3), handler, |shop| {
        let poison = shop.submit("poison");
        let fine = shop.submit("fine");
        assert_eq!(killed_workers(shop, ATTEMPTS), ATTEMPTS);
        let story = shop.why(poison);
        assert_eq!(
            (&story["run"]["status"], &story["run"]["attempts"], &story["next"]["state"]),
            (&json!("error"), &json!(ATTEMPTS), &json!("given_up"))
        );
        let last = story["journal"].as_array().unwrap().last().unwrap();
        assert_eq!(last["action"], "run.giveup");
        assert_eq!(
            last["details"],
            json!({ "attempts": ATTEMPTS, "reason": "attempts_exhausted" })
        );
        assert_eq!(shop.status(fine), "passed");
        shop.run(&["doctor"]).ok();
    });
}

// HANDLERS-2
#[test]
fn a_handler_that_forks_ignores_term_and_keeps_stdout_open_is_gone_at_its_time_limit() {
    let handler = "trap '' TERM; exec 3> alive\n(while :; do sleep 60; done) &\n\
                   while :; do sleep 60; done\n";
    let config = config("2s", 1).replace("timeout = \"60s\"", "timeout = \"1s\"");
    on_both(&config, handler, |shop| {
        shop.make_pipe("alive");
        let id = shop.submit("");
        let mut worker = start_drain(shop, &[]);
        let mut alive = File::open(shop.folder.path().join("alive")).unwrap();
        alive.read_to_string(&mut String::new()).unwrap();
        assert!(worker.wait().unwrap().success());
        let story = shop.why(id);
        assert_eq!(
            (&story["run"]["status"], &story["attempts"][0]["code"]),
            (&json!("error"), &json!("timeout"))
        );
        shop.run(&["doctor"]).ok();
    });
}
