//! Every benchmark runs and prints figures. How fast Redrive is, people judge, not a test.

use serde_json::Value;

use crate::{
    bench_folder::BenchFolder,
    bench_stores::{migrate, one_of_each, schema_version},
};

fn json_rows(folder: &BenchFolder, arguments: &[&str]) -> Vec<Value> {
    folder.run(&[arguments, &["-o", "json"]].concat()).rows()
}

#[track_caller]
fn assert_positive(rows: &[Value], fields: &[&str]) {
    for row in rows {
        for field in fields {
            assert!(row[field].as_f64().unwrap() > 0.0, "{field}: {row}");
        }
    }
}

#[test]
fn decisions_are_measured_beside_the_bare_formula() {
    let rows = json_rows(&BenchFolder::new(), &["decide", "--seconds", "0.05"]);
    assert_eq!(rows.len(), 2);
    assert_positive(&rows, &["per_second", "bare_per_second", "ratio"]);
}

#[test]
fn retrying_is_measured_beside_a_loop_written_by_hand() {
    let rows = json_rows(&BenchFolder::new(), &["retry", "--seconds", "0.05"]);
    assert_eq!(rows.len(), 2);
    assert_positive(&rows, &["ns_per_call", "bare_ns_per_call", "ratio"]);
}

#[test]
fn results_are_a_table_for_people_and_an_object_a_line_for_programs() {
    let folder = BenchFolder::new();
    let table = folder.run(&["decide", "--seconds", "0.05"]).text();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 3, "{table}");
    assert!(lines[0].starts_with("OPERATION ") && lines[0].ends_with(" RATIO"), "{table}");
    assert!(lines[2].starts_with("decide with jitter "), "{table}");

    let lines = folder.run(&["decide", "--seconds", "0.05", "-o", "jsonl"]).text();
    let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 2, "{lines}");
}

#[test]
fn both_stores_are_measured_beside_a_bare_loop_and_left_as_they_were() {
    let folder = BenchFolder::new();
    for store in one_of_each(&folder) {
        let rows = json_rows(&folder, &["store", "--scale", "0.001", "--store", &store]);
        assert_positive(&rows, &["per_second", "bare_per_second", "ratio"]);
        for operation in ["insert", "claim", "finish"] {
            let rows = rows.iter().filter(|row| row["operation"] == operation);
            let batches: Vec<u64> = rows.map(|row| row["batch"].as_u64().unwrap()).collect();
            assert_eq!(batches, [1, 32, 256, 1_000]);
        }
        assert_eq!(schema_version(&store), 0);
    }
    folder.assert_empty();
}

#[test]
fn requests_are_measured_beside_a_bare_client_and_a_bare_store() {
    let rows = json_rows(&BenchFolder::new(), &["runs", "--handler", "http", "--scale", "0.002"]);
    let measures = [
        "requests",
        "requests, bare store included",
        "requests that take 5 ms",
        "processor time of a request",
        "the same, bare store included",
    ];
    for (row, measure) in rows.iter().zip(measures) {
        assert_eq!(row["measure"], measure);
    }
    assert_positive(&rows[..measures.len()], &["ratio"]);
}

#[test]
fn partitions_are_measured_beside_bare_loops_on_both_stores() {
    let folder = BenchFolder::new();
    for store in one_of_each(&folder) {
        let rows = json_rows(&folder, &["partitions", "--scale", "0.001", "--store", &store]);
        let compared = rows.iter().filter(|row| row["ratio"].as_f64().is_some_and(|it| it > 0.0));
        assert_eq!(compared.count(), 2, "{rows:#?}");
        assert_positive(&rows, &["value"]);
    }
    folder.assert_empty();
}

#[test]
fn uploads_are_measured_beside_a_bare_client_on_both_stores() {
    let folder = BenchFolder::new();
    for store in one_of_each(&folder) {
        let rows = json_rows(&folder, &["uploads", "--scale", "0.01", "--store", &store]);
        assert_eq!(rows.len(), 8);
        assert_positive(&rows[4..], &["ratio"]);
    }
}

#[test]
fn samples_are_measured_beside_a_bare_loop_on_both_stores() {
    let folder = BenchFolder::new();
    for store in one_of_each(&folder) {
        let rows = json_rows(&folder, &["pipeline", "--scale", "0.001", "--store", &store]);
        assert_eq!(rows[0]["measure"], "stage attempts");
        assert_positive(&rows, &["value"]);
    }
    folder.assert_empty();
}

#[test]
fn the_server_is_measured_on_both_stores() {
    let folder = BenchFolder::new();
    for store in one_of_each(&folder) {
        let sizes = ["--scale", "0.002", "--pages", "20", "--seconds", "0.1"];
        let rows = json_rows(&folder, &[&["server", "--store", &store], &sizes[..]].concat());
        for (name, unit) in [
            ("overview page, p50", "ms"),
            ("overview page, p99", "ms"),
            ("age of its figures, most", "s"),
            ("runs submitted over HTTP, by 100", "per second"),
            ("a core for open pages, idle", "%"),
        ] {
            let row = rows.iter().find(|row| row["measure"] == name);
            let row = row.unwrap_or_else(|| panic!("{name}: {rows:#?}"));
            assert!(row["unit"] == unit && row["value"].as_f64().unwrap() > 0.0, "{row}");
        }
    }
    folder.assert_empty();
}

// CAU-5
#[test]
fn causes_and_lists_are_measured_on_both_stores() {
    let folder = BenchFolder::new();
    for store in one_of_each(&folder) {
        let rows = json_rows(&folder, &["causes", "--scale", "0.002", "--store", &store]);
        assert_eq!(rows[0]["measure"], "causes of a day");
        assert!(rows.len() > 10, "{rows:#?}");
        assert_positive(&rows, &["value", "bare", "ratio"]);
    }
    folder.assert_empty();
}

// PLN-1
#[test]
fn plans_are_measured_on_both_stores() {
    let folder = BenchFolder::new();
    for store in one_of_each(&folder) {
        let rows = json_rows(&folder, &["plans", "--scale", "0.002", "--store", &store]);
        assert_eq!(rows[0]["measure"], "a plan over all runs is made");
        assert_eq!(rows[1]["measure"], "runs changed by plans");
        assert_positive(&rows[1..2], &["value", "bare", "ratio"]);
        assert_positive(&rows, &["value"]);
    }
    folder.assert_empty();
}

// GAT-1, GAT-5
#[test]
fn gates_are_measured_on_both_stores() {
    let folder = BenchFolder::new();
    for store in one_of_each(&folder) {
        let sizes = ["--scale", "0.01", "--rounds", "1", "--request-rounds", "1"];
        let rows = json_rows(&folder, &[&["gates", "--store", &store], &sizes[..]].concat());
        for gate in ["no gate", "a gate", "a gate with the rate"] {
            let measure = format!("allowance used, {gate}");
            let row = rows.iter().find(|row| row["measure"] == measure.as_str());
            assert!(row.unwrap()["median"].as_f64().unwrap() > 0.0, "{rows:#?}");
        }
        let compared = rows.iter().filter(|row| row["unit"] == "of no gate").count();
        assert!(compared >= 6, "{rows:#?}");
    }
    folder.assert_empty();
}

// LOG-3
#[test]
fn the_cost_of_logs_is_measured_on_both_stores() {
    let folder = BenchFolder::new();
    for store in one_of_each(&folder) {
        let sizes = ["--scale", "0.01", "--rounds", "1"];
        let rows = json_rows(&folder, &[&["logs", "--store", &store], &sizes[..]].concat());
        let compared = rows.iter().filter(|row| row["unit"] == "of no logs");
        let shares: Vec<f64> = compared.map(|row| row["median"].as_f64().unwrap()).collect();
        assert!(shares.len() == 4 && shares.iter().all(|share| *share > 0.0), "{rows:#?}");
    }
    folder.assert_empty();
}

#[test]
fn a_workload_is_done_and_counted_on_both_stores() {
    let folder = BenchFolder::new();
    for store in one_of_each(&folder) {
        for (work, attempts) in [("runs", 50.0), ("failing-runs", 60.0), ("partitions", 50.0)] {
            let rows = json_rows(&folder, &["workload", work, "--count", "50", "--store", &store]);
            let value = |row: usize| rows[row]["value"].as_f64().unwrap();
            assert_eq!((value(0), value(1)), (50.0, attempts), "{work}: {rows:#?}");
            assert!(value(2) > 0.0 && value(3) > 0.0, "{work}: {rows:#?}");
        }
    }
    folder.assert_empty();
}

#[test]
fn a_store_in_use_is_not_measured() {
    let folder = BenchFolder::new();
    for store in one_of_each(&folder) {
        migrate(&store);
        let message = folder.run(&["store", "--store", &store]).error(4);
        assert!(message.contains("a store of its own"), "{message}");
    }
}

#[test]
fn a_store_url_that_cannot_be_read_is_refused_without_its_password() {
    let message =
        BenchFolder::new().run(&["store", "--store", "mysql://me:secret@host/db"]).error(2);
    assert!(message.contains("--store: ") && message.contains("  help: "), "{message}");
    assert!(!message.contains("secret"), "{message}");
}

#[test]
fn wrong_numbers_are_refused() {
    let folder = BenchFolder::new();
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
    for ([command, flag], allowed) in cases {
        let message = folder.run(&[command, flag]).error(2);
        assert!(message.contains(allowed), "{message}");
    }
}

#[test]
fn calls_to_a_program_that_stays_running_are_measured_beside_bare_pipes() {
    let folder = BenchFolder::new();
    let rows = json_rows(&folder, &["runs", "--handler", "stream", "--scale", "0.001"]);
    let is_calls = |row: &&Value| row["measure"].as_str().unwrap().starts_with("calls");
    let calls: Vec<Value> = rows.iter().filter(is_calls).cloned().collect();
    assert_eq!(calls.len(), 2);
    assert_positive(&calls, &["value", "bare"]);
    assert!(rows.iter().any(|row| row["measure"] == "runs drained"));
}
