//! `redrive bench`: that it measures. How fast things are is for people to judge, not for a test.

use crate::{databases::one_of_each, folder::Folder};

fn figures(folder: &Folder, arguments: &[&str]) -> Vec<serde_json::Value> {
    let printed = folder.run(&[arguments, &["-o", "json"]].concat()).json();
    let figures = printed.as_array().unwrap().clone();
    for figure in &figures {
        for field in ["per_second", "bare_per_second", "ratio"] {
            assert!(figure[field].as_f64().unwrap() > 0.0, "{figure}");
        }
    }
    figures
}

#[test]
fn decisions_are_measured_beside_the_bare_formula() {
    assert_eq!(figures(&Folder::new(), &["bench", "decide", "--seconds", "0.05"]).len(), 2);
}

#[test]
fn retrying_is_measured_beside_a_loop_written_by_hand() {
    let printed = Folder::new().run(&["bench", "retry", "--seconds", "0.05", "-o", "json"]).json();
    let costs = printed.as_array().unwrap();
    assert_eq!(costs.len(), 2);
    for cost in costs {
        for field in ["ns_per_call", "bare_ns_per_call", "ratio"] {
            assert!(cost[field].as_f64().unwrap() > 0.0, "{cost}");
        }
    }
}

#[test]
fn both_stores_are_measured_beside_a_bare_loop_and_left_as_they_were() {
    let folder = Folder::new();
    for store in one_of_each(&folder) {
        let arguments = ["bench", "store", "--scale", "0.001", "--store", &store];
        let figures = figures(&folder, &arguments);
        let of = |operation: &str| -> Vec<u64> {
            let rows = figures.iter().filter(|figure| figure["operation"] == operation);
            rows.map(|figure| figure["batch"].as_u64().unwrap()).collect()
        };
        for operation in ["insert", "claim", "finish"] {
            assert_eq!(of(operation), [1, 32, 256, 1_000]);
        }
        let status = folder.run(&["db", "status", "--store", &store, "-o", "json"]).json();
        assert!(status.as_array().unwrap().iter().all(|row| row["applied_at"].is_null()));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn requests_are_measured_beside_a_bare_client_and_a_bare_store() {
    let arguments = ["bench", "runs", "--handler", "http", "--scale", "0.002", "-o", "json"];
    let printed = Folder::new().run(&arguments).json();
    let measures = [
        "requests",
        "requests, bare store included",
        "requests that take 5 ms",
        "processor time of a request",
        "the same, bare store included",
    ];
    for (index, measure) in measures.into_iter().enumerate() {
        assert_eq!(printed[index]["measure"], measure);
        assert!(printed[index]["ratio"].as_f64().unwrap() > 0.0, "{printed}");
    }
}

#[test]
fn partitions_are_measured_beside_bare_loops_on_both_stores() {
    let folder = Folder::new();
    for store in one_of_each(&folder) {
        let arguments =
            ["bench", "partitions", "--scale", "0.001", "--store", &store, "-o", "json"];
        let printed = folder.run(&arguments).json();
        let measures: Vec<_> = printed.as_array().unwrap().iter().collect();
        let beside = measures.iter().filter(|row| row["ratio"].as_f64().is_some_and(|it| it > 0.0));
        assert_eq!(beside.count(), 2, "{printed}");
        assert!(measures.iter().all(|row| row["value"].as_f64().unwrap() > 0.0), "{printed}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn uploads_are_measured_beside_a_bare_client_on_both_stores() {
    let folder = Folder::new();
    for store in one_of_each(&folder) {
        let arguments =
            ["bench", "uploads", "--scale", "0.01", "--store", &store, "-q", "-o", "json"];
        let printed = folder.run(&arguments).json();
        let measures: Vec<_> = printed.as_array().unwrap().iter().collect();
        assert_eq!(measures.len(), 8);
        for beside in &measures[4..] {
            assert!(beside["ratio"].as_f64().unwrap() > 0.0, "{printed}");
        }
    }
}

#[test]
fn the_server_is_measured_on_both_stores() {
    let folder = Folder::new();
    for store in one_of_each(&folder) {
        let sizes = ["--scale", "0.002", "--pages", "20", "--seconds", "0.1"];
        let arguments =
            [&["bench", "server", "--store", &store, "-o", "json"], &sizes[..]].concat();
        let printed = folder.run(&arguments).json();
        let measures: Vec<_> = printed.as_array().unwrap().iter().collect();
        for (name, unit) in [
            ("overview page, p50", "ms"),
            ("overview page, p99", "ms"),
            ("age of its figures, most", "s"),
            ("runs submitted over HTTP, by 100", "per second"),
            ("a core for open pages, idle", "%"),
        ] {
            let row = measures.iter().find(|row| row["measure"] == name);
            let row = row.unwrap_or_else(|| panic!("{name}: {printed}"));
            assert!(row["unit"] == unit && row["value"].as_f64().unwrap() > 0.0, "{row}");
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn a_workload_is_done_and_counted_on_both_stores() {
    let folder = Folder::new();
    for store in one_of_each(&folder) {
        for (work, attempts) in [("runs", 50.0), ("failing-runs", 60.0), ("partitions", 50.0)] {
            let arguments =
                ["bench", "workload", work, "--count", "50", "--store", &store, "-o", "json"];
            let printed = folder.run(&arguments).json();
            let value = |row: usize| printed[row]["value"].as_f64().unwrap();
            assert_eq!((value(0), value(1)), (50.0, attempts), "{work}: {printed}");
            assert!(value(2) > 0.0 && value(3) > 0.0, "{work}: {printed}");
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn a_store_in_use_is_not_measured() {
    let folder = Folder::new();
    for store in one_of_each(&folder) {
        folder.run(&["db", "migrate", "--store", &store]).ok();
        let complaint = folder.run(&["bench", "store", "--store", &store]).failed(4);
        assert!(complaint.contains("a store of its own"), "{complaint}");
    }
}

#[test]
fn wrong_numbers_are_refused() {
    let folder = Folder::new();
    let cases = [
        (["decide", "--seconds=0"], "from 0.01 to 600"),
        (["decide", "--seconds=nan"], "from 0.01 to 600"),
        (["decide", "--seconds=fast"], "from 0.01 to 600"),
        (["retry", "--seconds=-1"], "from 0.01 to 600"),
        (["store", "--scale=-1"], "from 0.001 to 100"),
        (["store", "--scale=inf"], "from 0.001 to 100"),
        (["store", "--connections=0"], "1..=64"),
        (["store", "--connections=65"], "1..=64"),
        (["server", "--pages=0"], "1..=300"),
        (["server", "--seconds=0"], "from 0.01 to 600"),
        (["workload", "--count=0"], "1..=10000000"),
    ];
    for ([what, flag], allowed) in cases {
        let complaint = folder.run(&["bench", what, flag]).failed(2);
        assert!(complaint.contains(allowed), "{complaint}");
    }
}

#[test]
fn calls_to_a_program_that_stays_running_are_measured_beside_bare_pipes() {
    let folder = Folder::new();
    let arguments = ["bench", "runs", "--handler", "stream", "--scale", "0.001", "-o", "json"];
    let printed = folder.run(&arguments).json();
    let measures = printed.as_array().unwrap();
    let calls: Vec<_> = measures
        .iter()
        .filter(|row| row["measure"].as_str().unwrap().starts_with("calls"))
        .collect();
    assert_eq!(calls.len(), 2);
    for row in calls {
        assert!(
            row["value"].as_f64().unwrap() > 0.0 && row["bare"].as_f64().unwrap() > 0.0,
            "{row}"
        );
    }
    assert!(measures.iter().any(|row| row["measure"] == "runs drained"));
}
