//! A long run that is killed again and again.

use std::{
    collections::BTreeSet,
    fs,
    process::{Child, Stdio},
    thread,
};

use serde_json::Value;

use super::mill::{Mill, counts};

/// Long-lived stages that fail every tenth sample at first.
const CONFIG: &str = r#"
[[pipeline]]
name = "flour"
source = { jsonl = "in.jsonl" }

[[pipeline.stage]]
name = "grind"
handler = { stream = ["/bin/sh", "mill.sh"], processes = 4 }
policy = { max-attempts = 30, base = "10ms", cap = "20ms" }
concurrency = 4
lease = "2s"

[[pipeline.stage]]
name = "sift"
handler = { stream = ["/bin/sh", "mill.sh"], processes = 4 }
policy = { max-attempts = 30, base = "10ms", cap = "20ms" }
concurrency = 4
lease = "2s"
"#;

/// Every call leaves a line before it is answered.
const STAGE: &str = r#"
while read -r call; do
    unit=${call#*'"unit":"'}; unit=${unit%%'"'*}
    attempt=${call#*'"attempt":'}; attempt=${attempt%%[,\}]*}
    n=${call#*'"n":'}; n=${n%%[,\}]*}
    echo "$unit $attempt" >> executions
    case "$n:$attempt" in
    *0:1) echo '{"error": {"class": "retryable", "code": 503, "message": "busy"}}' ;;
    *) echo "{\"ok\": {\"n\": $n}}" ;;
    esac
done
"#;

const SAMPLES: usize = 20_000;
const KILLS: usize = 10;

/// Where each kill comes, in calls since the one before: anywhere, and nowhere twice.
fn pauses() -> impl Iterator<Item = usize> {
    let mut state = 20_261_115_u64;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        1 + (state >> 33) as usize % 3_500
    })
    .take(KILLS)
}

fn start(mill: &Mill, arguments: &[&str]) -> Child {
    let mut command = mill.shop.command(&[arguments, &["-q", "-q"]].concat());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// How many calls there were. Lines are as long as they are, and none is shorter than this.
fn calls(mill: &Mill) -> usize {
    const SHORTEST_LINE: u64 = 18;
    let file = fs::metadata(mill.shop.folder.path().join("executions"));
    (file.map_or(0, |file| file.len()) / SHORTEST_LINE) as usize
}

// PIP-1, PIP-2, PIP-5, PIP-8, OPS-6
#[test]
fn a_long_run_that_is_killed_ten_times_does_every_stage_of_every_sample_once() {
    let lines: Vec<String> = (0..SAMPLES).map(|n| format!("{{\"n\":{n}}}")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    thread::scope(|scope| {
        for mill in Mill::both_of(CONFIG, &lines) {
            scope.spawn(move || kill_and_resume(&mill));
        }
    });
}

fn kill_and_resume(mill: &Mill) {
    mill.shop.folder.write("mill.sh", STAGE);
    let id = mill.detached();
    for pause in pauses() {
        let before = calls(mill);
        let mut process = start(mill, &["pipeline", "resume", &id]);
        while calls(mill) < before + pause {
            assert_eq!(process.try_wait().unwrap(), None, "it ended before it was killed");
            thread::yield_now();
        }
        process.kill().unwrap();
        process.wait().unwrap();
    }
    let run = mill.told(&["pipeline", "resume", &id], 0);
    let all = SAMPLES as u64;
    assert_eq!(counts(&run), [all, all, 0, 0, 0]);
    mill.doctor();

    let output = mill.run(&["pipeline", "output", &id]).ok();
    let numbers: BTreeSet<u64> = output
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["n"].as_u64().unwrap())
        .collect();
    assert_eq!((output.lines().count(), numbers.len()), (SAMPLES, SAMPLES), "each once");

    let executions = mill.shop.folder.read("executions");
    let executed: BTreeSet<&str> = executions.lines().collect();
    assert_eq!(executions.lines().count(), executed.len(), "no attempt was executed twice");
    let ledger = |which: &str| -> BTreeSet<String> {
        let rows = "SELECT 'sample:' || unit_id || '/' || stage || ' ' || attempt FROM attempts
                    WHERE kind = 'sample'";
        mill.texts(&format!("{rows} AND {which}")).into_iter().collect()
    };
    let written = ledger("coalesce(cause, '') <> 'lost_worker'");
    let lost = ledger("cause = 'lost_worker'");
    let unheard = written.iter().find(|row| !executed.contains(row.as_str()));
    assert_eq!(unheard, None, "what is in the ledger was executed");
    let extra = executed.iter().find(|e| !written.contains(**e) && !lost.contains(**e));
    assert_eq!(extra, None, "nothing was done again but what a kill had left unwritten");
    assert!(!lost.is_empty(), "the kills were felt");
}
