//! The programs that do the work, and the ledger they keep of it themselves.
//!
//! Every execution adds a line when it begins and one before it answers: what, unit, attempt, run. A line is
//! one write to a file that is only appended to, so lines are whole and in their order.

use std::time::Duration;

/// How long every lease is.
pub(super) const LEASE: Duration = Duration::from_secs(2);

/// What the configuration says. `URL` is where items go, and `SERVICE` what limits the rate. What is lost is tried again for as long as it
/// takes: how often somebody is killed must not decide how a unit ends.
pub(super) const CONFIG: &str = r#"
[raw]
url = "file:disk/raw"

[[queue]]
name = "exec"
handler = { exec = ["/bin/sh", "work.sh"] }
lease = "2s"
concurrency = 6
policy = { max-attempts = 1000, base = "50ms", cap = "400ms", jitter = "25%" }

[[queue]]
name = "stream"
handler = { stream = ["/bin/sh", "stay.sh"], processes = 2 }
lease = "2s"
concurrency = 4
policy = { max-attempts = 1000, base = "50ms", cap = "400ms", jitter = "25%" }

# Operators cancel what is in it, at any moment.
[[queue]]
name = "doomed"
handler = { exec = ["/bin/sh", "work.sh"] }
lease = "2s"
concurrency = 2
policy = { max-attempts = 1000, base = "50ms", cap = "400ms" }

# Services limit the rate of both: one gate knows it, the other one learns from refusals. Waiting behind them costs no attempt, so
# three are enough.
[[gate]]
name = "metered"
rate = "3/s"
base = "500ms"
cap = "2s"

[[gate]]
name = "learned"
base = "500ms"
cap = "2s"

[[queue]]
name = "metered"
handler = { http = { url = "SERVICE" } }
lease = "2s"
concurrency = 4
gates = ["metered"]
policy = { max-attempts = 3, max-deferrals = 20, max-lost = 1000, base = "50ms", cap = "400ms" }

[[queue]]
name = "learned"
handler = { http = { url = "SERVICE" } }
lease = "2s"
concurrency = 4
gates = ["learned"]
policy = { max-attempts = 3, max-deferrals = 20, max-lost = 1000, base = "50ms", cap = "400ms" }

[[source]]
name = "days"
customers = ["fine", "flaky", "bulky"]
queries = ["q"]
extract = { exec = ["/bin/sh", "extract.sh"] }
validate = { min-rows = 2 }
lease = "2s"
concurrency = 4
policy = { base = "100ms", cap = "500ms", jitter = "none" }

[[source]]
name = "flow"
customers = ["fine", "flaky"]
queries = ["q"]
extract = { stream = ["/bin/sh", "flow.sh"], processes = 2 }
lease = "2s"
policy = { base = "100ms", cap = "500ms", jitter = "none" }

[[source]]
name = "lost"
customers = ["bad"]
queries = ["q"]
extract = { exec = ["/bin/sh", "extract.sh"] }
lease = "2s"
policy = { max-attempts = 3, base = "100ms", cap = "500ms", jitter = "none" }

[[pipeline]]
name = "mill"
source = { jsonl = "corn.jsonl" }
failure-budget = { rate = 1.0 }
read-ahead = 12

[[pipeline.stage]]
name = "grind"
handler = { exec = ["/bin/sh", "work.sh"] }
lease = "2s"
concurrency = 4
policy = { max-attempts = 1000, base = "50ms", cap = "400ms", retriable = "by-class" }

[[pipeline.stage]]
name = "sift"
handler = { stream = ["/bin/sh", "stay.sh"], processes = 1, in-flight = 4 }
lease = "2s"
concurrency = 4
policy = { max-attempts = 1000, base = "50ms", cap = "400ms", retriable = "by-class" }

[[upload]]
name = "tiles"
url = "URL"
lease = "2s"
timeout = "5s"
backoff-base = "20ms"
backoff-cap = "100ms"
max-item-attempts = 3
giveup-file = "giveups.jsonl"
"#;

/// How runs of the queues can be, by their category; each says how it ends.
pub(super) const EXEC_CATEGORIES: [(&str, &str); 7] = [
    ("fine", "passed"),
    ("slow", "passed"),
    ("long", "passed"),
    ("flaky", "passed"),
    ("limited", "passed"),
    ("review", "needs_review"),
    ("bad", "error"),
];
pub(super) const STREAM_CATEGORIES: [(&str, &str); 6] = [
    ("fine", "passed"),
    ("slow", "passed"),
    ("flaky", "passed"),
    ("crash", "passed"),
    ("garble", "passed"),
    ("bad", "error"),
];

/// Queues behind gates. Their handler is a service that limits the rate.
pub(super) const GATED_QUEUES: [&str; 2] = ["metered", "learned"];

/// What a run of the pipeline reads, by what is done to each.
pub(super) const CORN: [(&str, Grain); 7] = [
    ("fine", Grain::Flour),
    ("fine", Grain::Flour),
    ("slow", Grain::Flour),
    ("flaky", Grain::Flour),
    ("limited", Grain::Flour),
    ("skip", Grain::Skipped),
    ("bad", Grain::Dead),
];

/// How often that comes in a source.
pub(super) const CORN_TIMES: usize = 4;

/// How a sample ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grain {
    Flour,
    Skipped,
    Dead,
}

/// A program for each unit: runs by their category, samples by what they say is to be done.
pub(super) const WORK: &str = r#"
note() { echo "$1 $REDRIVE_UNIT $REDRIVE_ATTEMPT -" >> ledger; }
IFS= read -r call
what=$REDRIVE_CATEGORY
case "$call" in *'"do":"'*) what=${call#*'"do":"'}; what=${what%%'"'*} ;; esac
n=${call#*'"n":'}; n=${n%%[,\}]*}
note begin
case "$what:$REDRIVE_ATTEMPT" in
slow:*) sleep 0.4 ;;
long:*) sleep 3 ;;
flaky:1) note fail; exit 75 ;;
limited:1)
    note fail
    echo '{"error": {"class": "rate_limited", "code": 429, "retry_after": 1}}'
    exit 0
    ;;
review:*) note ok; echo '{"ok": null, "verdict": "needs_review"}'; exit 0 ;;
skip:*) note ok; echo '{"skip": "not wanted"}'; exit 0 ;;
bad:*) note fail; exit 65 ;;
esac
note ok
echo "{\"ok\": {\"n\": $n, \"do\": \"sift\"}}"
"#;

/// A program that stays. A crash and a garbled line cost their own call an attempt.
pub(super) const STAY: &str = r#"
while IFS= read -r call; do
    id=${call#'{"id":"'}; id=${id%%'"'*}
    unit=${id%#*}; attempt=${id##*#}
    case "$call" in
    *'"do":"'*) what=${call#*'"do":"'} ;;
    *) what=${call#*'"category":"'} ;;
    esac
    what=${what%%'"'*}
    n=${call#*'"n":'}; n=${n%%[,\}]*}
    echo "begin $unit $attempt -" >> ledger
    case "$what:$attempt" in
    slow:*) sleep 0.3 ;;
    flaky:1)
        echo "fail $unit $attempt -" >> ledger
        echo "{\"id\":\"$id\",\"error\":{\"class\":\"retryable\",\"code\":503}}"
        continue
        ;;
    crash:1) echo "fail $unit $attempt -" >> ledger; exit 1 ;;
    garble:1) echo "fail $unit $attempt -" >> ledger; echo 'Segmentation fault'; continue ;;
    bad:*)
        echo "fail $unit $attempt -" >> ledger
        echo "{\"id\":\"$id\",\"error\":{\"class\":\"final\",\"code\":422}}"
        continue
        ;;
    esac
    echo "ok $unit $attempt -" >> ledger
    echo "{\"id\":\"$id\",\"ok\":{\"n\":$n}}"
done
"#;

/// An extractor for each partition.
pub(super) const EXTRACT: &str = r#"
note() { echo "$1 $REDRIVE_UNIT $REDRIVE_ATTEMPT $REDRIVE_RUN_ID" >> ledger; }
note begin
case "$REDRIVE_CUSTOMER_ID:$REDRIVE_ATTEMPT" in
flaky:1 | bad:*) note fail; echo 'no luck' >&2; exit 1 ;;
bulky:*) i=0; while [ $i -lt 300 ]; do echo "{\"n\": $i}"; i=$((i + 1)); done ;;
esac
echo '{"n": 1}'
echo '{"n": 2}'
note ok
"#;

/// An extractor that stays.
pub(super) const FLOW: &str = r#"
while IFS= read -r call; do
    id=${call#'{"id":"'}; id=${id%%'"'*}
    unit=${id%#*}; attempt=${id##*#}
    run=${call#*'"run_id":"'}; run=${run%%'"'*}
    echo "begin $unit $attempt $run" >> ledger
    case "$unit:$attempt" in
    */flaky/*:1)
        echo "fail $unit $attempt $run" >> ledger
        echo "{\"id\":\"$id\",\"error\":{\"code\":503}}"
        continue
        ;;
    esac
    echo "{\"id\":\"$id\",\"row\":{\"n\":1}}"
    echo "{\"id\":\"$id\",\"row\":{\"n\":2}}"
    echo "ok $unit $attempt $run" >> ledger
    echo "{\"id\":\"$id\",\"ok\":null}"
done
"#;
