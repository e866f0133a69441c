//! A database that goes away in the middle, and comes back; one whose answers are lost, and one that takes no writes.

use std::{thread, time::Duration};

use serde_json::json;

use crate::{
    faults::{all_passed, no_attempt_was_executed_twice, submit_many},
    folder::Folder,
    own_postgres::OwnPostgres,
    proxy::{Proxy, Way},
    serve,
    shop::{Shop, Worker},
    web::ask,
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

/// Every run may be tried once: a run that was claimed without an answer, and charged as lost, would be given up.
// RUN-7
#[test]
fn a_claim_whose_answer_is_lost_costs_no_run_its_attempt() {
    const RUNS: usize = 1_200;
    const TIMES: usize = 12;
    const CONFIG: &str = r#"
[[queue]]
name = "work"
handler = { stream = ["/bin/sh", "work.sh"], in-flight = 8 }
lease = "3s"
concurrency = 8
policy = { max-attempts = 1 }
"#;
    const HANDLER: &str = r#"while read -r call; do
    id=${call#*\"id\":\"}
    sleep 0.01
    echo "{\"id\":\"${id%%\"*}\",\"ok\":true}"
done
"#;
    let server = match OwnPostgres::start() {
        Ok(server) => server,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let proxy = Proxy::to(server.port());
    let shop = Shop::selling(Folder::new(), &server.url_by(proxy.port()), CONFIG, HANDLER);
    let worker = Worker::start(shop.command(&["worker"]));
    for _ in 0..TIMES {
        submit_many(&shop, RUNS / TIMES);
        proxy.set(Way::Deaf);
        thread::sleep(Duration::from_millis(250));
        proxy.set(Way::Cut);
        thread::sleep(Duration::from_millis(20));
        proxy.set(Way::Open);
    }
    worker.signal("-TERM");
    assert_eq!(worker.end().0, Some(143));
    let (code, log) = shop.start_worker(&["--drain"]).end();
    assert_eq!(code, Some(0), "{log}");
    let attempts = all_passed(&shop, RUNS / TIMES * TIMES);
    assert!(attempts.values().all(|attempts| *attempts == 1), "{log}");
}

// RUN-7
#[test]
fn a_database_that_is_read_only_for_longer_than_a_lease_costs_no_run_its_attempt() {
    const RUNS: usize = 40;
    const CONFIG: &str = r#"
[[queue]]
name = "work"
handler = { exec = ["/bin/sh", "work.sh"] }
lease = "2s"
concurrency = 8
policy = { max-attempts = 1 }
"#;
    const HANDLER: &str = "echo \"$REDRIVE_UNIT\" >> executions\nsleep 1\n";
    let server = match OwnPostgres::start() {
        Ok(server) => server,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let shop = Shop::selling(Folder::new(), &server.url(), CONFIG, HANDLER);
    submit_many(&shop, RUNS);
    let (mut api, address) = serve::start(&shop.folder, &server.url());
    let address = address.parse().unwrap();
    let mut workers = [shop.start_worker(&["--drain"]), shop.start_worker(&["--drain"])];
    workers.iter_mut().for_each(|worker| drop(worker.wait_for("attempt")));
    server.set_read_only(true);
    thread::sleep(Duration::from_secs(5));
    let refused = shop.run(&["runs", "submit", "--queue", "work"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("the database is read-only"), "{}", refused.stderr);
    let run = json!({ "queue": "work" });
    for (method, path, body) in [("POST", "/v1/runs", Some(&run)), ("GET", "/readyz", None)] {
        let (status, answer) = ask(address, method, path, body);
        assert_eq!(status, 503, "{path}: {answer}");
    }
    server.set_read_only(false);
    for worker in workers {
        let (code, log) = worker.end();
        assert_eq!(code, Some(0), "{log}");
        assert!(!log.contains("refused a result"), "{log}");
    }
    let attempts = all_passed(&shop, RUNS);
    assert!(attempts.values().all(|attempts| *attempts == 1), "{attempts:?}");
    assert_eq!(ask(address, "GET", "/readyz", None).0, 200);
    api.kill().unwrap();
    api.wait().unwrap();
}
