//! Which workers are present, what they hold, and what nobody serves: real processes on both stores.

use serde_json::{Value, json};

use crate::{
    databases::one_of_each,
    fair::{Fair, Serving},
    folder::Folder,
    shop::Shop,
};

/// Waits until it may end.
const HANDLER: &str = "until [ -e calm ]; do kill -0 \"$PPID\" || exit; sleep 0.1; done\n";

const CONFIG: &str = "[[queue]]\nname = \"work\"\nhandler = { exec = [\"/bin/sh\", \"work.sh\"] }\n\
                      concurrency = 2\nlease = \"2s\"\ntimeout = \"60s\"\n\n\
                      [[queue]]\nname = \"idle\"\nhandler = { exec = [\"/bin/sh\", \"work.sh\"] }\nlease = \"2s\"\n";

fn workers(shop: &Shop) -> Vec<Value> {
    let workers = shop.run(&["workers", "-o", "json"]).json();
    workers.as_array().unwrap().clone()
}

/// Looks until the workers are as expected.
fn wait_for(shop: &Shop, is_so: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    loop {
        let found = workers(shop);
        if is_so(&found) {
            return found;
        }
    }
}

fn states(workers: &[Value]) -> Vec<&str> {
    workers.iter().map(|worker| worker["state"].as_str().unwrap()).collect()
}

// HA-4
#[test]
fn a_killed_worker_is_not_heard_from_and_a_stopped_one_is_gone() {
    let folders = [Folder::new(), Folder::new()];
    let [_, postgres] = one_of_each(&folders[0]);
    std::thread::scope(|scope| {
        for (folder, store) in folders.into_iter().zip(["sqlite:store.db".to_owned(), postgres]) {
            scope.spawn(move || check_workers(&Shop::selling(folder, &store, CONFIG, HANDLER)));
        }
    });
}

fn check_workers(shop: &Shop) {
    let mut stopped = shop.start_worker(&["--queues", "work", "--grace", "60s"]);
    stopped.wait_for("working");
    wait_for(shop, |workers| workers.len() == 1);
    let killed = shop.start_worker(&["--queues", "idle"]);
    let both = wait_for(shop, |workers| workers.len() == 2);
    assert_eq!(states(&both), ["present", "present"]);
    assert_eq!((&both[0]["version"], &both[1]["version"]), (&both[1]["version"], &json!("0.1.0")));
    assert_eq!(both[1]["places"][0]["place"], "idle");

    // Each reports what it holds.
    (0..3).for_each(|_| _ = shop.submit("any"));
    let busy = wait_for(shop, |workers| workers[0]["in_flight"] == 2);
    let place = &busy[0]["places"][0];
    assert_eq!((&place["kind"], &place["place"]), (&json!("queue"), &json!("work")));
    assert_eq!((&place["concurrency"], &place["restarts"]), (&json!(2), &json!(0)));

    killed.signal("-KILL");
    killed.end();
    let lost = wait_for(shop, |workers| states(workers) == ["present", "not_heard_from"]);
    assert_eq!(lost[1]["worker"], both[1]["worker"]);

    // A worker that was told to stop says so until its work has ended, and leaves no row.
    stopped.signal("-TERM");
    wait_for(shop, |workers| states(workers) == ["draining", "not_heard_from"]);
    shop.folder.write("calm", "");
    assert_eq!(stopped.end().0, Some(143));
    let left = workers(shop);
    assert_eq!(states(&left), ["not_heard_from"]);

    let server = Serving::start(shop, "127.0.0.1:0", &[]);
    let unattended = &server.get("/v1/overview")["unattended"];
    let queue = &unattended[0];
    assert_eq!((&queue["kind"], &queue["name"]), (&json!("queue"), &json!("work")), "{unattended}");
    for path in ["/", "/workers", "/queues/work"] {
        let page = server.text(path);
        assert!(page.contains("No worker serves what waits here:"), "{path}");
        assert!(page.contains("1 run in queue &quot;work&quot;"), "{path}: {page}");
    }
    assert!(server.text("/workers").contains("not heard from"));
}

/// Dies at its first call.
const FRAGILE: &str = "[ -e died ] || { touch died; read -r call; exit 1; }\n\
    while IFS= read -r call; do id=${call#'{\"id\":\"'}; echo \"{\\\"id\\\":\\\"${id%%'\"'*}\\\",\\\"ok\\\":1}\"; done\n";

// HA-4
#[test]
fn a_worker_reports_programs_that_it_started_again() {
    let config = "[[queue]]\nname = \"work\"\nhandler = { stream = [\"/bin/sh\", \"work.sh\"] }\n\
                  lease = \"1s\"\npolicy = { max-attempts = 3, base = \"10ms\" }\n";
    let shop = Shop::selling(Folder::new(), "sqlite:store.db", config, FRAGILE);
    let worker = shop.start_worker(&[]);
    shop.submit("any");
    let restarts =
        |workers: &[Value]| workers.first().map(|it| it["places"][0]["restarts"].clone());
    wait_for(&shop, |workers| restarts(workers) == Some(json!(1)));
    worker.signal("-TERM");
    worker.end();
}

/// What the counts of a place have.
fn counted(server: &Serving, place: &str, range: &str) -> [u64; 3] {
    let activity = server.get(&format!("/v1/activity?range={range}&place={place}"));
    ["good", "retrying", "failed"].map(|name| activity[name].as_u64().unwrap())
}

// HA-4
#[test]
fn attempts_of_all_kinds_are_counted_as_the_ledger_has_them() {
    for fair in Fair::both() {
        let server = fair.serve(&[]);
        let overview = server.get("/v1/overview");
        let minutes = overview["activity"].as_array().unwrap();
        let of_kind = |kind: &str| {
            let minutes = minutes.iter().filter(|minute| minute["kind"] == kind);
            minutes.fold([0; 3], |sums, minute| {
                let add = |at: usize, name: &str| sums[at] + minute[name].as_u64().unwrap();
                [add(0, "good"), add(1, "retrying"), add(2, "failed")]
            })
        };
        for (kind, place) in
            [("run", "queue:work"), ("partition", "source:ads"), ("item", "upload:tiles")]
        {
            let ledger = of_kind(kind);
            assert!(ledger.iter().sum::<u64>() > 0, "{kind}: {ledger:?}");
            for range in ["1h", "24h", "7d", "30d"] {
                assert_eq!(counted(&server, place, range), ledger, "{place} in {range}");
            }
        }
        let samples = of_kind("sample");
        let pipeline = overview["pipeline_runs"][0]["pipeline"].as_str().unwrap();
        assert_eq!(counted(&server, &format!("pipeline:{pipeline}"), "30d"), samples);
        let all = [0, 1, 2].map(|at| {
            ["run", "partition", "item", "sample"].iter().map(|kind| of_kind(kind)[at]).sum::<u64>()
        });
        assert_eq!(counted(&server, "", "30d"), all);
    }
}
