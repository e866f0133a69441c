//! Stages whose programs answer anything but what they should.

use serde_json::json;

use super::mill::{Mill, counts};

/// What a sample says is done to the call: at its first attempt if it ends in `once`, else always.
const STREAM: &str = r#"
while IFS= read -r call; do
    id=${call#'{"id":"'}; id=${id%%'"'*}
    case "$call" in
    *'"attempt":1,'*'garbageonce"'* | *'garbage"'*) echo 'Segmentation fault' ;;
    *'"attempt":1,'*'halfonce"'* | *'half"'*) printf '{"id":"%s","ok":{"gro' "$id"; exit 0 ;;
    *'"attempt":1,'*'wrongonce"'* | *'wrong"'*) echo '{"id":"sample:999/grind#7","ok":{}}' ;;
    *'"attempt":1,'*'logonce"'* | *'log"'*) echo '{"level":"info","message":"loading"}' ;;
    *) echo "{\"id\":\"$id\",\"ok\":{\"ground\":1}}" ;;
    esac
done
"#;

/// The same, started for every call. An id means nothing there.
const EXEC: &str = r#"
read -r call
case "$REDRIVE_ATTEMPT:$call" in
1:*'garbageonce"'* | *'garbage"'*) echo 'Segmentation fault' ;;
1:*'halfonce"'* | *'half"'*) printf '{"ok":{"gro' ;;
1:*'wrongonce"'* | *'wrong"'*) echo '["ok", 1]' ;;
1:*'logonce"'* | *'log"'*) echo '{"level":"info","message":"loading"}' ;;
*) echo '{"ok":{"ground":1}}' ;;
esac
"#;

/// Every kind of rudeness, once and always, among samples that are fine.
const SAMPLES: [&str; 12] = [
    "fine",
    "garbageonce",
    "garbage",
    "fine",
    "halfonce",
    "half",
    "fine",
    "wrongonce",
    "wrong",
    "logonce",
    "log",
    "fine",
];

fn config(handler: &str) -> String {
    format!(
        "[[pipeline]]\nname = \"flour\"\nsource = {{ jsonl = \"in.jsonl\" }}\n\
         failure-budget = {{ rate = 1.0 }}\n\n\
         [[pipeline.stage]]\nname = \"grind\"\nhandler = {{ {handler} }}\ntimeout = \"60s\"\n\
         policy = {{ max-attempts = 2, base = \"10ms\", cap = \"10ms\", jitter = \"none\" }}\n"
    )
}

/// The line of the sample that always gets half an answer.
const HALF: u64 = 6;

/// Rude answers are retried, and in the end dead letters that say why; the others go through.
#[track_caller]
fn check(handler: &str, program: &str, half: &str) {
    for mill in Mill::both_of(&config(handler), &[]) {
        mill.shop.folder.write("rude.sh", program);
        mill.deliver(&SAMPLES);
        let run = mill.grind(3);
        assert_eq!(counts(&run), [12, 8, 0, 4, 0], "{run}");
        let dead = mill.told(&["dlq", "list"], 0);
        for letter in dead.as_array().unwrap() {
            let reason = &letter["dlq_reason"];
            assert_eq!((&reason["stage"], &reason["attempts"]), (&json!("grind"), &json!(2)));
            let code = if letter["line"] == HALF { half } else { "bad_reply" };
            assert_eq!(letter["error_code"], code, "{letter}");
            assert!(!reason["error"].as_str().unwrap().is_empty(), "{letter}");
        }
        let attempts = "SELECT unit_id || ' ' || attempt || ' ' || outcome FROM attempts
                        WHERE kind = 'sample' ORDER BY unit_id, attempt";
        let told = mill.texts(attempts);
        for (sample, what) in (1..).zip(SAMPLES) {
            let of_sample = |row: &&String| row.starts_with(&format!("{sample} "));
            let outcomes: Vec<&str> =
                told.iter().filter(of_sample).map(|row| row.rsplit(' ').next().unwrap()).collect();
            let expected: &[&str] = match what {
                "fine" => &["success"],
                once if once.ends_with("once") => &["retrying", "success"],
                _ => &["retrying", "failed"],
            };
            assert_eq!(outcomes, expected, "{what}");
        }
        mill.doctor();
    }
}

// PIP-1, PIP-3, HANDLERS-3, HANDLERS-5
#[test]
fn a_stream_that_answers_garbage_costs_only_the_sample_it_was_about() {
    check(r#"stream = ["/bin/sh", "rude.sh"], processes = 2"#, STREAM, "stream_ended");
}

// PIP-1, PIP-3, HANDLERS-2, HANDLERS-5
#[test]
fn a_program_that_prints_garbage_costs_only_the_sample_it_was_about() {
    check(r#"exec = ["/bin/sh", "rude.sh"]"#, EXEC, "bad_reply");
}
