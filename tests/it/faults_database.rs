//! A database that goes away in the middle, and comes back.

use crate::{
    faults::{all_passed, no_attempt_was_executed_twice, submit_many},
    folder::Folder,
    own_postgres::OwnPostgres,
    shop::Shop,
};

const CONFIG: &str = r#"
[[queue]]
name = "work"
handler = { exec = ["/bin/sh", "work.sh"] }
lease = "5s"
concurrency = 8
policy = { max-attempts = 3, base = "10ms", cap = "50ms" }
"#;

const HANDLER: &str = "echo \"$REDRIVE_UNIT $REDRIVE_ATTEMPT\" >> executions\nsleep 0.05\n";

// RUN-7
#[test]
fn a_database_that_crashes_and_comes_back_in_a_drain_costs_no_run() {
    const RUNS: usize = 150;
    const CRASHES: usize = 2;
    let server = match OwnPostgres::start() {
        Ok(server) => server,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let shop = Shop::selling(Folder::new(), &server.url(), CONFIG, HANDLER);
    submit_many(&shop, RUNS);
    let mut worker = shop.start_worker(&["--drain"]);
    for _ in 0..CRASHES {
        for _ in 0..20 {
            worker.wait_for("attempt");
        }
        server.crash();
        worker.wait_for("cannot");
        server.up();
    }
    let (code, log) = worker.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("given up"), "{log}");
    let attempts = all_passed(&shop, RUNS);
    no_attempt_was_executed_twice(&shop, &attempts, CRASHES);
}

// RUN-7
#[test]
fn a_database_that_is_away_for_longer_than_a_lease_gives_up_no_run() {
    const RUNS: usize = 20;
    const CONFIG: &str = r#"
[[queue]]
name = "work"
handler = { exec = ["/bin/sh", "work.sh"] }
lease = "2s"
concurrency = 8
policy = { max-attempts = 1 }
"#;
    const HANDLER: &str = "[ -e calm ] || exec sleep 600\n";
    let server = match OwnPostgres::start() {
        Ok(server) => server,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let shop = Shop::selling(Folder::new(), &server.url(), CONFIG, HANDLER);
    submit_many(&shop, RUNS);
    let mut worker = shop.start_worker(&["--drain"]);
    for _ in 0..8 {
        worker.wait_for("attempt");
    }
    server.crash();
    worker.wait_for("lease about to end");
    shop.folder.write("calm", "");
    server.up();
    let (code, log) = worker.end();
    assert_eq!(code, Some(0), "{log}");
    let attempts = all_passed(&shop, RUNS);
    assert!(attempts.values().all(|attempts| *attempts == 1), "{log}");
}
