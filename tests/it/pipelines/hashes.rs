//! `stage_config_hash` stands for what a stage does, and for nothing else.

use super::mill::Mill;

/// A configuration of one stage.
fn config(handler: &str, rest: &str) -> String {
    format!(
        "[[pipeline]]\nname = \"flour\"\nsource = {{ jsonl = \"in.jsonl\" }}\n\
         [[pipeline.stage]]\nname = \"grind\"\nhandler = {handler}\n{rest}\n"
    )
}

// PIP-4
#[test]
fn the_hash_of_a_stage_changes_when_and_only_when_what_it_does_changes() {
    let exec = "{ exec = [\"/bin/sh\", \"work.sh\"] }";
    let mill = Mill::on_sqlite(&config(exec, ""), &["fine"]);
    let hash = |handler: &str, rest: &str| {
        mill.shop.folder.write("redrive.toml", config(handler, rest));
        let ended = mill.run(&["pipeline", "run", "flour", "-q", "-q", "-o", "json"]);
        assert!(matches!(ended.code, Some(0 | 1)), "{ended:#?}");
        let newest = "SELECT stage_config_hash FROM stages_applied ORDER BY sample_id DESC LIMIT 1";
        mill.texts(newest).pop().unwrap()
    };
    let plain = hash(exec, "");
    let same = [
        (exec, "concurrency = 3"),
        (exec, "timeout = \"7s\""),
        (exec, "lease = \"7s\""),
        (exec, "policy = { max-attempts = 1 }"),
        ("{ exec = [\"/bin/sh\", \"work.sh\"], grace = \"7s\" }", ""),
        ("{ grace = \"1s\", exec = [\"/bin/sh\", \"work.sh\"], env = [] }", ""),
    ];
    for (handler, rest) in same {
        assert_eq!(hash(handler, rest), plain, "{handler} {rest}");
    }
    let stream = "{ stream = [\"/bin/sh\", \"work.sh\"] }";
    let streamed = hash(stream, "");
    assert_eq!(hash("{ stream = [\"/bin/sh\", \"work.sh\"], processes = 2 }", ""), streamed);
    let once = "policy = { max-attempts = 1 }";
    let http = "{ http = { url = \"http://127.0.0.1:1/a\" } }";
    let others = [
        plain,
        streamed,
        hash("{ exec = [\"/bin/sh\", \"work.sh\", \"-x\"] }", ""),
        hash("{ exec = [\"/bin/sh\", \"work.sh\"], env = [\"MODEL\"] }", ""),
        hash(http, once),
        hash("{ http = { url = \"http://127.0.0.1:1/b\" } }", once),
        hash("{ http = { url = \"http://127.0.0.1:1/a\", body = { model = \"x\" } } }", once),
        hash("{ http = { url = \"http://127.0.0.1:1/a\", body = { model = \"y\" } } }", once),
        hash("{ http = { url = \"http://127.0.0.1:1/a\", into = \"/answer\" } }", once),
        hash("{ http = { url = \"http://127.0.0.1:1/a\", headers = { x-model = \"x\" } } }", once),
    ];
    let mut distinct = others.to_vec();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), others.len(), "{others:?}");
}
