//! What `pipeline status | list | stats | output` show.

use serde_json::{Value, json};

use super::mill::Mill;

// PIP-8, OPS-4
#[test]
fn the_status_of_a_run_is_one_flat_object() {
    for mill in Mill::both(&["fine", "skip", "bad"]) {
        let run = mill.grind(3);
        let fields = run.as_object().unwrap();
        let nested = fields.values().find(|value| value.is_object() || value.is_array());
        assert_eq!(nested, None);
        assert_eq!((&run["id"], &run["pipeline"]), (&json!(1), &json!("flour")));
        assert_eq!((&run["success_rate"], &run["budget_exceeded"]), (&json!(0.5), &json!(false)));
        for instant in ["started_at", "ended_at"] {
            run[instant].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        }
        mill.detached();
        for (arguments, id) in
            [(&[][..], 2), (&["1"], 1), (&["--pipeline", "flour"], 2), (&["2"], 2)]
        {
            let arguments = [&["pipeline", "status"], arguments].concat();
            assert_eq!(mill.told(&arguments, 0)["id"], id);
        }
        let table = mill.run(&["pipeline", "status", "1"]).ok();
        for part in
            ["\nstatus          partial_success\n", "\nSTAGE  DONE  READY", "--run 1 --group"]
        {
            assert!(table.contains(part), "{part:?} is not in {table}");
        }
    }
}

// PIP-8, OPS-4
#[test]
fn runs_are_listed_page_by_page_and_by_status() {
    for mill in Mill::both(&["fine"]) {
        mill.grind(0);
        mill.detached();
        mill.detached();
        let ids = |arguments: &[&str]| {
            let listed = mill.told(&[&["pipeline", "list"], arguments].concat(), 0);
            let ids = listed.as_array().unwrap().iter().map(|run| run["id"].as_i64().unwrap());
            ids.collect::<Vec<_>>()
        };
        assert_eq!(ids(&["--limit", "2"]), [3, 2]);
        assert_eq!(ids(&["--limit", "2", "--after", "2"]), [1]);
        assert_eq!(ids(&["--status", "completed"]), [1]);
        assert_eq!(ids(&["--status", "running", "--pipeline", "flour"]), [3, 2]);
        assert_eq!(ids(&["--pipeline", "flou%"]), [0_i64; 0]);
        let table = mill.run(&["pipeline", "list", "--limit", "1"]).ok();
        assert!(table.ends_with("\nthere may be more; continue with --after 3\n"), "{table}");
    }
}

// PIP-4
#[test]
fn every_attempt_is_a_row_of_stages_applied() {
    for mill in Mill::both(&["flaky", "skip", "bad"]) {
        mill.grind(3);
        let rows = mill.texts(
            "SELECT sample_id || ' ' || stage_name || ' ' || attempt || ' ' || status || ' ' \
             || COALESCE(error_message, '-') FROM stages_applied \
             WHERE applied_at IS NOT NULL AND length(stage_config_hash) = 16 \
             ORDER BY sample_id, applied_at",
        );
        let expected = [
            "1 grind 1 retrying the program ended with exit status: 75",
            "1 grind 2 success -",
            "1 sift 1 success -",
            "2 grind 1 skipped only stones",
            "3 grind 1 failed sack 3 is torn",
        ];
        assert_eq!(rows, expected);
    }
}

// PIP-8
#[test]
fn the_statistics_count_retries_errors_and_reliability_per_stage() {
    for mill in Mill::both(&["fine", "fine", "flaky", "down", "bad", "skip"]) {
        mill.grind(3);
        let stats = mill.told(&["pipeline", "stats", "1"], 0);
        let grind = &stats["stages"][0];
        assert_eq!(
            grind["retry_histogram"],
            json!([
                { "retries": 0, "samples": 4 },
                { "retries": 1, "samples": 1 },
                { "retries": 2, "samples": 1 },
            ])
        );
        assert_eq!(
            grind["errors"],
            json!([{ "code": "75", "count": 4 }, { "code": "65", "count": 1 }])
        );
        let numbers = [
            "samples",
            "attempts",
            "success_attempts",
            "retrying_attempts",
            "failed_attempts",
            "skipped_attempts",
            "done",
            "skipped",
            "dlq",
        ];
        let numbers = numbers.map(|name| grind[name].as_u64().unwrap());
        assert_eq!(numbers, [6, 9, 3, 3, 2, 1, 3, 1, 2]);
        let share = |name| (grind[name].as_f64().unwrap() * 1e6).round();
        assert_eq!((share("reliability"), share("retry_rate")), (444_444.0, 333_333.0));
        assert_eq!(
            (&stats["stages"][1]["stage"], &stats["stages"][1]["reliability"]),
            (&json!("sift"), &json!(1.0))
        );
        assert_eq!(stats["errors"], grind["errors"]);
        let table = mill.run(&["pipeline", "stats"]).ok();
        let bar = "█".repeat(40);
        for part in
            [format!("grind        0        4  {bar}\n"), format!("grind  75           4  {bar}\n")]
        {
            assert!(table.contains(&part), "{part:?} is not in {table}");
        }
    }
}

// PIP-8
#[test]
fn the_output_has_every_succeeded_sample_once_by_id() {
    for mill in Mill::both(&["fine", "bad", "flaky", "skip", "fine"]) {
        mill.grind(3);
        let expected = "{\"sifted\":1}\n{\"sifted\":3}\n{\"sifted\":5}\n";
        assert_eq!(mill.run(&["pipeline", "output", "1"]).ok(), expected);
        assert_eq!(mill.run(&["pipeline", "output", "-o", "jsonl"]).ok(), expected);
        let array = mill.run(&["pipeline", "output", "-o", "json"]).json();
        assert_eq!(array, json!([{ "sifted": 1 }, { "sifted": 3 }, { "sifted": 5 }]));
        let with_ids = mill.run(&["pipeline", "output", "--with-ids"]).ok();
        let first: Value = serde_json::from_str(with_ids.lines().next().unwrap()).unwrap();
        assert_eq!(first, json!({ "id": 1, "line": 1, "data": { "sifted": 1 } }));
        mill.deliver(&["skip"]);
        mill.grind(0);
        assert_eq!(mill.run(&["pipeline", "output"]).ok(), "");
        assert_eq!(mill.run(&["pipeline", "output", "-o", "json"]).json(), json!([]));
        assert_eq!(mill.run(&["pipeline", "output", "1"]).ok(), expected, "a run has its own");
    }
}

// PIP-8
#[test]
fn the_output_has_every_page_and_every_digit() {
    let samples: Vec<String> =
        (1..=700).map(|n| format!("{{\"n\": {n}.10000000000000000001}}")).collect();
    let samples: Vec<&str> = samples.iter().map(String::as_str).collect();
    let config = "[[pipeline]]\nname = \"flour\"\nsource = { jsonl = \"in.jsonl\" }\n\
                  [[pipeline.stage]]\nname = \"copy\"\n\
                  handler = { stream = [\"/bin/sh\", \"copy.sh\"] }\n";
    let mill = Mill::on_sqlite(config, &samples);
    let copying = r#"
while read -r call; do
    data=${call#*'"data":'}
    echo "{\"ok\": ${data%',"pipeline"'*}}"
done
"#;
    mill.shop.folder.write("copy.sh", copying);
    mill.grind(0);
    let output = mill.run(&["pipeline", "output"]).ok();
    let expected = samples.iter().map(|sample| format!("{}\n", sample.replace(' ', "")));
    assert_eq!(output, expected.collect::<String>());
    let failing = "while read -r call; do echo '{\"error\": {\"class\": \"final\", \"message\": \"no\"}}'; done";
    mill.shop.folder.write("copy.sh", failing);
    mill.run(&["pipeline", "run", "flour", "-q", "-q"]);
    let exported = mill.run(&["dlq", "export", "--limit", "600", "-q"]).ok();
    assert_eq!(exported.lines().count(), 600);
    assert!(exported.contains("\"data\":{\"n\": 1.10000000000000000001}"), "{}", &exported[..400]);
}
