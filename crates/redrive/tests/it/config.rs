//! Every value of the configuration that can be given wrong, given wrong.

use redrive::config::{self, Config, ConfigReport};

fn parse(text: &str) -> Result<Config, ConfigReport> {
    config::parse(text, "redrive.toml", "/folder".as_ref())
}

/// The text has exactly one problem, at that key, and says all of the parts.
#[track_caller]
pub(crate) fn wrong(text: &str, key: &str, parts: &[&str]) {
    let report = parse(text).expect_err("the text has a problem");
    let found: Vec<&str> = report.problems().iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(found, [key], "{}", report.render(false));
    let rendered = report.render(false);
    for part in parts {
        assert!(rendered.contains(part), "{part:?} is not in\n{rendered}");
    }
}

/// The text is good.
#[track_caller]
pub(crate) fn good(text: &str) -> Config {
    parse(text).unwrap_or_else(|report| panic!("{}", report.render(false)))
}

pub(crate) fn queue(line: &str) -> String {
    format!("[[queue]]\nname = \"q\"\nhandler = {{ exec = [\"x\"] }}\n{line}\n")
}

fn handler(handler: &str) -> String {
    format!("[[queue]]\nname = \"q\"\nhandler = {handler}\n")
}

pub(crate) fn source(line: &str) -> String {
    let key = line.split('=').next().unwrap_or_default().trim();
    let lines = [
        "name = \"s\"",
        "customers = [\"c\"]",
        "queries = [\"q\"]",
        "extract = { exec = [\"x\"] }",
    ];
    let others = lines.iter().filter(|other| !other.starts_with(&format!("{key} ")));
    let others: Vec<&str> = others.copied().collect();
    format!("[[source]]\n{}\n{line}\n", others.join("\n"))
}

fn upload(line: &str) -> String {
    let url = if line.starts_with("url") { "" } else { "url = \"http://h\"\n" };
    format!("[[upload]]\nname = \"u\"\n{url}{line}\n")
}

fn pipeline(line: &str) -> String {
    let source = if line.starts_with("source") { "" } else { "source = { jsonl = \"x\" }\n" };
    format!(
        "[[pipeline]]\nname = \"p\"\n{source}{line}\n\
         [[pipeline.stage]]\nname = \"s\"\nhandler = {{ exec = [\"x\"] }}\n"
    )
}

// POL-5
#[test]
fn a_wrong_setting_of_a_policy_is_refused_at_its_place() {
    #[track_caller]
    fn check(key: &str, value: &str, parts: &[&str]) {
        let named = format!("[policy.p]\n{key} = {value}\n");
        wrong(&named, &format!("policy.p.{key}"), parts);
        let in_place = queue(&format!("policy = {{ {key} = {value} }}"));
        wrong(&in_place, &format!("queue[0].policy.{key}"), parts);
    }
    check("max-attempts", "0", &["0 is not allowed", "at least 1"]);
    check("max-attempts", "-1", &["-1 is not allowed", "from 0 to 4294967295"]);
    check("max-attempts", "4294967296", &["4294967296 is not allowed"]);
    check("max-attempts", "3.0", &["must be a whole number", "this is a number"]);
    check("max-attempts", "\"many\"", &["must be a whole number", "this is text"]);
    check("max-age", "\"0s\"", &["0s is not allowed", "longer than zero"]);
    check("max-age", "\"1y\"", &["\"1y\" is not a duration", "days"]);
    check("max-age", "30", &["must be a duration in quotes", "this is a whole number"]);
    check("backoff", "\"exponentail\"", &["did you mean \"exponential\"?"]);
    check("backoff", "\"x\"", &["write \"fixed\" or \"linear\" or \"exponential\""]);
    check("base", "\"0s\"", &["0s is not allowed", "longer than zero"]);
    check("base", "\"-1s\"", &["\"-1s\" is not a duration", "negative"]);
    check("base", "\"1\"", &["the unit is missing"]);
    check("base", "\"\"", &["\"\" is not a duration"]);
    let long = queue("policy = { base = \"9h\" }");
    let parts = ["longer than the default `cap`", "set `cap` to at least this"];
    wrong(&long, "queue[0].policy.base", &parts);
    wrong("[policy.p]\nbase = \"9h\"\ncap = \"1h\"", "policy.p.cap", &["1h is not allowed"]);
    check("multiplier", "nan", &["nan is not allowed", "a finite number"]);
    check("multiplier", "inf", &["inf is not allowed", "a finite number"]);
    check("multiplier", "1e999", &["1e999 is not allowed", "a finite number"]);
    check("multiplier", "0.5", &["0.5 is not allowed", "from 1 to 1000"]);
    check("multiplier", "-2", &["-2 is not allowed", "from 1 to 1000"]);
    check("multiplier", "\"2\"", &["must be a number", "this is text"]);
    check("cap", "\"0s\"", &["0s is not allowed", "longer than zero"]);
    let low = queue("policy = { cap = \"1ms\" }");
    wrong(&low, "queue[0].policy.cap", &["1ms is not allowed", "at least the base"]);
    check("cap", "\"40000d\"", &["\"40000d\" is not a duration", "36500d"]);
    check("jitter", "\"0%\"", &["0% is not allowed", "above 0%"]);
    check("jitter", "\"101%\"", &["101% is not allowed", "up to 100%"]);
    check("jitter", "\"25\"", &["\"25\" is not a jitter", "a share such as 25%"]);
    check("jitter", "0.25", &["must be text in quotes"]);
    check("retriable", "\"by_class\"", &["did you mean \"by-class\"?"]);
    check("retriable", "[]", &["must not be empty"]);
    check("retriable", "429", &["or a list of codes"]);
    check("max-hint", "\"0s\"", &["0s is not allowed", "longer than zero"]);
    check("max-deferrals", "0", &["0 is not allowed", "at least 1"]);
    check("max-deferrals", "true", &["must be a whole number", "this is true or false"]);
    wrong("[policy.p]\nretriable = [429, -1]", "policy.p.retriable[1]", &["-1 is not allowed"]);
    wrong("[policy.p]\nretriable = [\"a b\"]", "policy.p.retriable[0]", &["is not a code"]);
    check("multiplier", "0", &["0 is not allowed", "from 1 to 1000"]);
    wrong("[policy.p]\nretriable = [2.5]", "policy.p.retriable[0]", &["must be a code"]);
}

#[test]
fn a_policy_is_known_by_a_name_of_its_own() {
    wrong("[policy.run]", "policy.run", &["is the name of a preset"]);
    wrong("[policy.\"\"]", "policy.", &["must not be empty"]);
    wrong("[policy.\"a\\u0007\"]", "policy.a\u{7}", &["control characters"]);
    wrong("policy = 1", "policy", &["must be a table"]);
    wrong("policy.p = 1", "policy.p", &["must be a table"]);
    wrong("[policy.p]\nbsae = \"1s\"", "policy.p.bsae", &["did you mean `base`?"]);
    wrong(&queue("policy = \"rum\""), "queue[0].policy", &["not a policy", "did you mean `run`?"]);
    wrong(&queue("policy = 3"), "queue[0].policy", &["the name of a policy, or a table"]);
    // A use of a policy that is wrong itself is not a second problem.
    let broken = format!("[policy.p]\nbase = 1\n{}", queue("policy = \"p\""));
    wrong(&broken, "policy.p.base", &["must be a duration"]);
}

// POL-10
#[test]
fn a_policy_by_name_and_the_same_policy_inline_give_the_same_waits() {
    let settings =
        ["base = \"2s\"", "max-attempts = 4", "backoff = \"linear\"", "jitter = \"full\""];
    for settings in settings {
        let named = format!("[policy.p]\n{settings}\n");
        let by_name = |place: &str| good(&format!("{named}{place}"));
        let inline = format!("policy = {{ {settings} }}");
        let (one, other) = (by_name(&queue("policy = \"p\"")), good(&queue(&inline)));
        assert_eq!(one.queues[0].policy.policy, other.queues[0].policy.policy, "{settings}");
        let (one, other) = (by_name(&source("policy = \"p\"")), good(&source(&inline)));
        assert_eq!(one.sources[0].policy.policy, other.sources[0].policy.policy, "{settings}");
    }
    let config = good(&queue("policy = { base = \"2s\" }"));
    let inline = config.queues[0].policy.policy.spec();
    assert_eq!((inline.base.as_secs(), inline.cap.as_secs()), (2, 3600), "over the preset `run`");
    let config = good(&pipeline(""));
    let stage = &config.pipelines[0].stages[0].policy;
    assert_eq!((stage.title(), &stage.name), ("stage", &None));
    let long = format!("[policy.p]\nbase = \"2h\"\n{}", queue("policy = \"p\""));
    wrong(&long, "queue[0].policy", &["does not fit the preset run", "cap"]);
    good(&format!("[policy.p]\nbase = \"2h\"\n{}", source("policy = \"p\"")));
}

// POL-10
#[test]
fn another_backoff_does_not_inherit_the_jitter_of_the_preset() {
    let jitter = |policy: &str| {
        let config = good(&source(&format!("policy = {{ {policy} }}")));
        config.sources[0].policy.policy.spec().jitter
    };
    assert_eq!(jitter("base = \"1m\"").to_string(), "30s");
    assert_eq!(jitter("backoff = \"exponential\"").to_string(), "30s");
    assert_eq!(jitter("backoff = \"fixed\"").to_string(), "none");
    assert_eq!(jitter("backoff = \"linear\"").to_string(), "none");
    assert_eq!(jitter("backoff = \"linear\", jitter = \"5s\"").to_string(), "5s");
}

// CLS-8
#[test]
fn a_name_that_no_failure_can_have_is_refused_in_a_list_of_codes() {
    let listed = |code: &str| queue(&format!("policy = {{ retriable = [429, {code:?}] }}"));
    wrong(&listed(":timeout"), "queue[0].policy", &["\":timeout\"", "did you mean `timeout`?"]);
    let usual = "did you mean `connection_refused`?";
    wrong(&listed("econnrefused"), "queue[0].policy", &["no failure here", usual]);
    let several = parse(&queue("policy = { retriable = [\"ECONNRESET\", 429, \"Timeot\"] }"));
    let several = several.unwrap_err().render(false);
    for part in ["\"ECONNRESET\"", "`connection_reset`", "\"Timeot\"", "`timeout`"] {
        assert!(several.contains(part), "{several}");
    }
    wrong(&listed("quota"), "queue[0].policy", &["\"quota\"", "codes ="]);
    good(&listed("timeout"));
    good(&listed("signal_9"));
    let named = format!("[policy.p]\nretriable = [\"quota\"]\n{}", queue("policy = \"p\""));
    wrong(&named, "queue[0].policy", &["\"quota\""]);
    let unused = |code: &str| format!("[policy.p]\nretriable = [429, {code:?}]");
    wrong(&unused("econnrefused"), "policy.p", &["no failure here", usual]);
    good(&unused("timeout"));
    let declared = "[[queue]]\nname = \"q\"\nhandler = { exec = [\"x\"], codes = [\"quota\"] }\n";
    good(&format!("{}\n{declared}", unused("quota")));
    let declared = "[[queue]]\nname = \"q\"\nhandler = { exec = [\"x\"], codes = [\"quota\"] }\n\
                    policy = { retriable = [\"quota\"] }";
    good(declared);
    let number = "[[queue]]\nname = \"q\"\nhandler = { exec = [\"x\"], codes = [\"429\"] }";
    wrong(number, "queue[0].handler.codes[0]", &["429 is a number"]);
}

// CLS-7
#[test]
fn the_conventions_of_a_service_are_statuses_with_classes_and_a_pointer() {
    let handler = |fields: &str| {
        format!(
            "[[queue]]\nname = \"q\"\nhandler = {{ http = {{ url = \"http://h/\", {fields} }} }}"
        )
    };
    let config = good(&handler("classes = { 409 = \"retryable\" }, error-code = \"/error/code\""));
    let redrive::config::HandlerConfig::Http(http) = &config.queues[0].handler else {
        panic!("an http handler");
    };
    assert_eq!(http.request.conventions.classes, [(409, redrive::Class::Retryable)]);
    assert!(http.request.conventions.error_code.is_some());
    let at = "queue[0].handler.http.classes";
    wrong(&handler("classes = { 200 = \"final\" }"), &format!("{at}.200"), &["300 to 599"]);
    wrong(&handler("classes = { x = \"final\" }"), &format!("{at}.x"), &["not the status"]);
    wrong(&handler("classes = { 409 = \"fatal\" }"), &format!("{at}.409"), &["final"]);
}

// POL-11, PAR-7
#[test]
fn a_limit_that_has_no_effect_is_refused() {
    good(&queue("policy = { max-lost = 3 }"));
    good(&source("policy = { max-logical-age = \"30d\" }"));
    wrong(&source("policy = { max-lost = 3 }"), "source[0].policy", &["`max-lost` has no effect"]);
    let age = queue("policy = { max-logical-age = \"30d\" }");
    wrong(&age, "queue[0].policy", &["`max-logical-age` has no effect"]);
    wrong(&queue("policy = { max-lost = 0 }"), "queue[0].policy.max-lost", &["at least 1"]);
}

// PIP-6
#[test]
fn a_budget_is_checked_after_its_least_number_of_samples_where_that_is_smaller() {
    let every = |budget: &str| {
        let config = good(&pipeline(&format!("failure-budget = {{ {budget} }}")));
        config.pipelines[0].rules.budget.every
    };
    assert_eq!(every("rate = 0.2"), 1000);
    assert_eq!(every("min-samples = 100"), 100);
    assert_eq!(every("min-samples = 5000"), 1000);
    assert_eq!(every("min-samples = 100, every = 500"), 500);
}

#[test]
fn only_known_keys_of_the_right_type_stand_at_the_top() {
    wrong("jitter-seed = -1", "jitter-seed", &["from 0 to 18446744073709551615"]);
    wrong("jitter-seed = 18446744073709551616", "jitter-seed", &["is not allowed"]);
    wrong("jitter-seed = \"x\"", "jitter-seed", &["must be a whole number"]);
    wrong("jitter_seed = 1", "jitter_seed", &["did you mean `jitter-seed`?"]);
    wrong("queues = []", "queues", &["did you mean `queue`?"]);
    wrong("[queue]\nname = \"x\"", "queue", &["write [[queue]], with two brackets"]);
    wrong("queue = 1", "queue", &["must be a list"]);
    wrong("queue = [1]", "queue[0]", &["must be a table"]);
    wrong("store = 1", "store", &["must be a table"]);
    wrong("server = \"x\"", "server", &["must be a table"]);
    good("jitter-seed = 18446744073709551615");
    good("jitter-seed = 0xff");
}

// OPS-1
#[test]
fn a_wrong_store_is_refused_at_its_place() {
    wrong("[store]\nurl = \"x.db\"", "store.url", &["write sqlite:x.db"]);
    wrong("[store]\nurl = \"\"", "store.url", &["\"\" is not a store"]);
    wrong("[store]\nurl = 1", "store.url", &["must be text"]);
    wrong(
        "[store]\nurl = { env = \"A-B\" }",
        "store.url.env",
        &["is not the name of an environment"],
    );
    wrong("[store]\nurl = { enf = \"AB\" }", "store.url.enf", &["did you mean `env`?"]);
    wrong("[store]\nurl = {}", "store.url.env", &["missing key `env` in `store.url`"]);
    wrong("[store]\nsynchronous = \"off\"", "store.synchronous", &["\"full\" or \"normal\""]);
    let secret = "[store]\nurl = \"postgres://ann:secret@h/db\"";
    wrong(secret, "store.url", &["a password must not be in the file", "url = { env ="]);
}

#[test]
fn a_wrong_place_for_raw_partitions_is_refused() {
    #[track_caller]
    fn check(url: &str, part: &str) {
        wrong(&format!("[raw]\nurl = \"{url}\""), "raw.url", &[part]);
    }
    check("", "write file:FOLDER");
    check("raw", "write file:FOLDER");
    check("file:", "the folder is missing");
    check("file:///raw", "without //");
    check("s4://bucket", "did you mean s3:?");
    check("s3:bucket", "write file:FOLDER");
    check("s3://", "write file:FOLDER");
    check("s3:///prefix", "write file:FOLDER");
    check("gs://bu cket", "write file:FOLDER");
    check("az://c/prefix?sig=x", "write file:FOLDER");
    for url in ["file:raw", "file:/abs", "s3://b", "gs://b/p/q", "az://c/"] {
        good(&format!("[raw]\nurl = \"{url}\""));
    }
}

#[test]
fn what_is_wrong_in_up_is_refused() {
    let none = "[up]\npipelines = [\"score\"]";
    wrong(
        none,
        "up.pipelines[0]",
        &["there is no pipeline \"score\"", "the file declares no pipelines"],
    );
    let pipeline = "[[pipeline]]\nname = \"score\"\nsource = { jsonl = \"x\" }\n\
                    [[pipeline.stage]]\nname = \"s\"\nhandler = { exec = [\"x\"] }\n";
    let near = format!("[up]\npipelines = [\"scores\"]\n{pipeline}");
    wrong(&near, "up.pipelines[0]", &["did you mean `score`?"]);
    good(&format!("[up]\npipelines = [\"score\"]\nsubmit = [\"a\", \"b\"]\n{pipeline}"));
    wrong("[up]\nsubmit = \"a\"", "up.submit", &["must be a list"]);
    wrong("[up]\nsubmit = [\"\"]", "up.submit[0]", &["is not a path"]);
    wrong("[up]\nsubmit = [\"a\", \"a\"]", "up.submit[1]", &["twice"]);
    wrong("[up]\nqueues = []", "up.queues", &["known names: submit, pipelines"]);
}

#[test]
fn a_wrong_address_to_listen_on_is_refused() {
    for address in ["", "7878", "localhost:7878", "127.0.0.1", "127.0.0.1:99999", "::1:80"] {
        let text = format!("[server]\nlisten = \"{address}\"");
        wrong(&text, "server.listen", &["write an IP address and a port"]);
    }
    wrong("[server]\nlisten = 7878", "server.listen", &["must be text"]);
    wrong("[server]\nport = 1", "server.port", &["known names: listen"]);
}

#[test]
fn a_wrong_limit_of_the_server_is_refused_with_what_is_allowed() {
    for (key, value, allowed) in [
        ("max-connections", "0", "from 1 to 100000"),
        ("max-connections", "100001", "from 1 to 100000"),
        ("max-connections", "\"many\"", "must be a whole number"),
        ("max-requests-per-second", "-1", "from 1 to 1000000"),
        ("max-requests-per-second", "1.5", "must be a whole number"),
        ("patience", "\"0s\"", "from 1s to 1h"),
        ("patience", "\"2h\"", "from 1s to 1h"),
        ("patience", "30", "must be a duration"),
        ("max-item-bytes", "0", "from 1 to 1073741824"),
        ("max-item-bytes", "99999999999999999999", "from 1 to 1073741824"),
    ] {
        let text = format!("[server]\n{key} = {value}");
        wrong(&text, &format!("server.{key}"), &[allowed]);
    }
}

#[test]
fn a_wrong_queue_is_refused_at_its_place() {
    wrong("[[queue]]\nname = \"q\"", "queue[0].handler", &["missing key `handler` in `queue`"]);
    wrong("[[queue]]\nhandler = { exec = [\"x\"] }", "queue[0].name", &["missing key `name`"]);
    let named = |name: &str| format!("[[queue]]\nname = {name}\nhandler = {{ exec = [\"x\"] }}\n");
    wrong(&named("\"\""), "queue[0].name", &["must not be empty"]);
    wrong(&named("\" a\""), "queue[0].name", &["begin or end with a space"]);
    wrong(&named("\"a\\u0000\""), "queue[0].name", &["control characters"]);
    wrong(&named(&format!("\"{}\"", "a".repeat(513))), "queue[0].name", &["512 bytes"]);
    wrong(&named("1"), "queue[0].name", &["must be text"]);
    let twice = queue("") + &queue("");
    wrong(&twice, "queue[1].name", &["two queues have the name \"q\"", "first used here"]);
    wrong(&queue("categories = \"a\""), "queue[0].categories", &["must be a list"]);
    wrong(&queue("categories = [\"a\", \"a\"]"), "queue[0].categories[1]", &["twice"]);
    wrong(&queue("categories = [1]"), "queue[0].categories[0]", &["must be text"]);
    wrong(&queue("concurrency = 0"), "queue[0].concurrency", &["from 1 to 10000"]);
    wrong(&queue("concurrency = 10001"), "queue[0].concurrency", &["from 1 to 10000"]);
    wrong(&queue("timeout = \"0s\""), "queue[0].timeout", &["from 1ms to 36500d"]);
    wrong(&queue("timeout = \"soon\""), "queue[0].timeout", &["is not a duration"]);
    wrong(&queue("lease = \"10ms\""), "queue[0].lease", &["from 1s to 1d"]);
    wrong(&queue("lease = \"2d\""), "queue[0].lease", &["from 1s to 1d"]);
    wrong(&queue("timout = \"1s\""), "queue[0].timout", &["did you mean `timeout`?"]);
}

#[test]
fn a_wrong_program_is_refused_at_its_place() {
    let exec = "queue[0].handler.exec";
    wrong(&handler("\"./x\""), "queue[0].handler", &["must be a table"]);
    wrong(&handler("{}"), "queue[0].handler", &["no kind of handler", "`exec`, `stream`, `http`"]);
    wrong(&handler("{ exec = [\"a\"], stream = [\"b\"] }"), "queue[0].handler", &["several kinds"]);
    wrong(&handler("{ exce = [\"a\"], exec = [\"a\"] }"), "queue[0].handler.exce", &["`exec`?"]);
    wrong(&handler("{ exec = \"./x -a\" }"), exec, &["must be a list"]);
    wrong(&handler("{ exec = [] }"), exec, &["must not be empty"]);
    wrong(&handler("{ exec = [\"\"] }"), exec, &["the program has no name"]);
    wrong(&handler("{ exec = [\"x\", 1] }"), "queue[0].handler.exec[1]", &["must be text"]);
    wrong(&handler("{ exec = [\"x\\u0000\"] }"), "queue[0].handler.exec[0]", &["NUL"]);
    let env = |env: &str| handler(&format!("{{ exec = [\"x\"], env = {env} }}"));
    wrong(&env("\"A\""), "queue[0].handler.env", &["must be a list"]);
    wrong(&env("[\"A=1\"]"), "queue[0].handler.env[0]", &["the value stays in the environment"]);
    wrong(&env("[\"1A\"]"), "queue[0].handler.env[0]", &["is not the name"]);
    wrong(&env("[\"A\", \"A\"]"), "queue[0].handler.env[1]", &["twice"]);
    let processes = "queue[0].handler.processes";
    wrong(&handler("{ exec = [\"x\"], processes = 2 }"), processes, &["only for stream handlers"]);
    wrong(&handler("{ stream = [\"x\"], processes = 0 }"), processes, &["from 1 to 1024"]);
    let in_flight = handler("{ stream = [\"x\"], in-flight = 10001 }");
    wrong(&in_flight, "queue[0].handler.in-flight", &["from 1 to 10000"]);
    let grace = |grace: &str| handler(&format!("{{ exec = [\"x\"], grace = {grace} }}"));
    for short_or_long in ["\"0s\"", "\"2h\""] {
        wrong(&grace(short_or_long), "queue[0].handler.grace", &["from 1ms to 1h"]);
    }
    wrong(&grace("5"), "queue[0].handler.grace", &["a duration in quotes"]);
    let http = handler("{ http = { url = \"http://h\" }, grace = \"5s\" }");
    wrong(&http, "queue[0].handler.grace", &["does not start a program"]);
}

#[test]
fn a_wrong_http_handler_is_refused_at_its_place() {
    #[track_caller]
    fn check(fields: &str, key: &str, parts: &[&str]) {
        let url = if fields.contains("url =") { "" } else { "url = \"http://h\", " };
        let text = handler(&format!("{{ http = {{ {url}{fields} }} }}"));
        wrong(&text, &format!("queue[0].handler.http.{key}"), parts);
    }
    wrong(&handler("{ http = \"http://h\" }"), "queue[0].handler.http", &["must be a table"]);
    wrong(&handler("{ http = {} }"), "queue[0].handler.http.url", &["missing key `url`"]);
    let env = handler("{ http = { url = \"http://h\" }, env = [\"A\"] }");
    wrong(&env, "queue[0].handler.env", &["an http handler does not start a program"]);
    for url in ["", "h", "/path", "ftp://h", "http://", "http:///x", "http://h h", "http:h"] {
        check(&format!("url = \"{url}\""), "url", &["is not a URL", "http://HOST/PATH"]);
    }
    check("url = \"http://h:0\"", "url", &["the port is not from 1 to 65535"]);
    check("url = \"http://h:65536\"", "url", &["the port is not from 1 to 65535"]);
    check("url = \"http://h/#top\"", "url", &["the fragment after # is never sent"]);
    check("url = \"http://ann:pw@h\"", "url", &["must not carry a user name or a password"]);
    check("method = \"FETCH\"", "method", &["write \"POST\""]);
    check("method = \"post\"", "method", &["did you mean \"POST\"?"]);
    check("method = \"GET\", body = {}", "body", &["a GET request has no body"]);
    check("method = \"DELETE\", body = {}", "body", &["a DELETE request has no body"]);
    check("headers = []", "headers", &["must be a table"]);
    check("headers = { \"a b\" = \"x\" }", "headers.a b", &["is not a header name"]);
    check("headers = { accept = \"a\\nb\" }", "headers.accept", &["is not a header value"]);
    check("headers = { accept = 1 }", "headers.accept", &["must be text"]);
    check("headers = { accept = { env = \"\" } }", "headers.accept.env", &["is not the name"]);
    let prefix = "headers = { accept = { env = \"A\", prefix = \"a\\nb\" } }";
    check(prefix, "headers.accept.prefix", &["is not a header value"]);
    let prefix = "headers = { accept = { prefix = \"a\" } }";
    check(prefix, "headers.accept.env", &["missing key `env`"]);
    let twice = "headers = { accept = \"a\", Accept = \"b\" }";
    check(twice, "headers.Accept", &["is given twice"]);
    for name in ["content-length", "Transfer-Encoding", "connection"] {
        let fields = format!("headers = {{ {name} = \"1\" }}");
        check(&fields, &format!("headers.{name}"), &["cannot be set"]);
    }
    check("private-addresses = \"no\"", "private-addresses", &["must be true or false"]);
    for name in ["authorization", "Authorization", "x-api-key", "cookie", "proxy-authorization"] {
        let key = format!("headers.{name}");
        let fields = format!("headers = {{ {name} = \"secret\" }}");
        check(&fields, &key, &["a secret must not be in the file", "{ env = \"NAME\" }"]);
    }
    check("body = \"{\"", "body", &["not JSON"]);
    check("body = { a = nan }", "body", &["use finite numbers"]);
    check("body = { a = { \"$\" = \"x\" } }", "body", &["does not select a value of the call"]);
    check("body = { a = [{ \"$\" = 1 }] }", "body", &["does not select a value of the call"]);
    check(
        "body = { a = { \"$\" = \"/x\", b = 1 } }",
        "body",
        &["does not select a value of the call"],
    );
    check("reply = \"choices\"", "reply", &["is not a JSON pointer"]);
    check("reply = \"/a~2\"", "reply", &["is not a JSON pointer"]);
    check("into = \"/x\"", "into", &["only a stage of a pipeline has a sample"]);
}

#[test]
fn a_wrong_source_is_refused_at_its_place() {
    wrong(&source("name = \"\""), "source[0].name", &["must not be empty"]);
    wrong(&source("customers = []"), "source[0].customers", &["must not be empty"]);
    wrong(&source("customers = [\"\"]"), "source[0].customers[0]", &["must not be empty"]);
    wrong(&source("customers = [\"\\u0000\"]"), "source[0].customers[0]", &["NUL"]);
    let long = format!("queries = [\"{}\"]", "x".repeat(513));
    wrong(&source(&long), "source[0].queries[0]", &["512 bytes"]);
    wrong(&source("queries = [\"q\", \"q\"]"), "source[0].queries[1]", &["twice"]);
    wrong(&source("extract = \"x\""), "source[0].extract", &["must be a table"]);
    wrong(&source("backfill-share = 0"), "source[0].backfill-share", &["from 0.01 to 0.99"]);
    wrong(&source("backfill-share = 1.0"), "source[0].backfill-share", &["from 0.01 to 0.99"]);
    wrong(&source("backfill-share = nan"), "source[0].backfill-share", &["a finite number"]);
    wrong(&source("backfill-share = \"30%\""), "source[0].backfill-share", &["must be a number"]);
    let validate = |fields: &str| source(&format!("validate = {{ {fields} }}"));
    let key = |key: &str| format!("source[0].validate.{key}");
    wrong(&validate("min-rows = -1"), &key("min-rows"), &["-1 is not allowed"]);
    wrong(&validate("min-rows = 2, max-rows = 1"), &key("max-rows"), &["at least `min-rows`, 2"]);
    wrong(&validate("schema = \"\""), &key("schema"), &["is not a path"]);
    wrong(&validate("handler = {}"), &key("handler"), &["no kind of handler"]);
    let bare = "[[source]]\nname = \"s\"\ncustomers = [\"c\"]\nqueries = [\"q\"]\n";
    wrong(bare, "source[0].extract", &["missing key `extract`"]);
    good(&source("customers = [\"../..\", \".\", \"%\", \"é\"]"));
}

#[test]
fn a_wrong_day_or_time_is_refused() {
    let schedule = |fields: &str| source(&format!("schedule = {{ {fields} }}"));
    let key = |key: &str| format!("source[0].schedule.{key}");
    let daily = |start: &str| schedule(&format!("every = \"day\", start = {start}"));
    for day in ["2023-02-29", "2026-13-01", "2026-1-1", "26-01-01", "0000-01-01", "tomorrow", ""] {
        wrong(
            &daily(&format!("\"{day}\"")),
            &key("start"),
            &["write a calendar day as YYYY-MM-DD"],
        );
    }
    wrong(&daily("\"2026-01-01T00:00:00Z\""), &key("start"), &["YYYY-MM-DD"]);
    wrong(&daily("2026-01-01T00:00:00Z"), &key("start"), &["YYYY-MM-DD"]);
    wrong(&daily("20260101"), &key("start"), &["must be a day"]);
    let start = "every = \"day\", start = \"2024-02-29\"";
    for time in ["25:00", "24:00", "4:00", "04:60", "04", "04:00:30", "noon", ""] {
        let text = schedule(&format!("{start}, at = \"{time}\""));
        wrong(&text, &key("at"), &["from 00:00 to 23:59"]);
    }
    wrong(&schedule(&format!("{start}, at = 4")), &key("at"), &["must be a time of day"]);
    wrong(&schedule(&format!("{start}, lag-days = -1")), &key("lag-days"), &["from 0 to 3650"]);
    wrong(&schedule(&format!("{start}, lag-days = 3651")), &key("lag-days"), &["from 0 to 3650"]);
    wrong(&schedule("every = \"hour\", start = 2026-01-01"), &key("every"), &["write \"day\""]);
    wrong(&schedule("every = \"day\""), &key("start"), &["missing key `start`"]);
    wrong(&schedule("start = 2026-01-01"), &key("every"), &["missing key `every`"]);
    let config = good(&schedule("every = \"day\", start = 2024-02-29, at = 04:30"));
    let read = config.sources[0].schedule.unwrap();
    assert_eq!(
        (read.start.to_string(), read.at.to_string()),
        ("2024-02-29".into(), "04:30:00".into())
    );
}

#[test]
fn a_wrong_upload_is_refused_at_its_place() {
    #[track_caller]
    fn check(line: &str, parts: &[&str]) {
        let key = line.split(' ').next().unwrap();
        wrong(&upload(line), &format!("upload[0].{key}"), parts);
    }
    check("url = \"tiles\"", &["is not a URL"]);
    check("ready = {}", &["no kind of handler"]);
    check("concurrency = 0", &["from 1 to 10000"]);
    check("timeout = \"0s\"", &["from 1ms to 36500d"]);
    check("lease = \"0s\"", &["from 1s to 1d"]);
    check("giveup-file = \"\"", &["is not a path"]);
    check("private-addresses = 1", &["must be true or false"]);
    check("disable-retry = \"no\"", &["must be true or false"]);
    check("max-in-call-retries = 101", &["from 0 to 100"]);
    check("max-in-call-retries = -1", &["from 0 to 100"]);
    check("max-item-attempts = 0", &["at least 1"]);
    check("backoff-base = \"0s\"", &["longer than zero"]);
    check("backoff-base = \"2m\"", &["longer than the default `backoff-cap`, 1m"]);
    check("backoff-multiplier = 0", &["from 1 to 1000"]);
    check("backoff-cap = \"1s\"", &["at least the base, 2s"]);
    let secret = upload("headers = { authorization = \"Bearer hunter2\" }");
    wrong(&secret, "upload[0].headers.authorization", &["a secret must not be in the file"]);
    wrong("[[upload]]\nname = \"u\"", "upload[0].url", &["missing key `url`"]);
    let config = good(&upload("max-in-call-retries = 0"));
    assert_eq!(config.uploads[0].policy.policy, redrive::Preset::Upload.policy());
}

#[test]
fn a_wrong_pipeline_is_refused_at_its_place() {
    #[track_caller]
    fn check(line: &str, key: &str, parts: &[&str]) {
        wrong(&pipeline(line), &format!("pipeline[0].{key}"), parts);
    }
    check("source = {}", "source", &["give either `jsonl` or `exec`"]);
    check(
        "source = { jsonl = \"a\", exec = [\"b\"] }",
        "source",
        &["must have exactly one origin"],
    );
    check("source = { jsonl = \"\" }", "source.jsonl", &["is not a path"]);
    check(
        "source = { jsonl = \"a\", env = [] }",
        "source.env",
        &["a jsonl source does not start a program"],
    );
    check("source = { exec = [] }", "source.exec", &["must not be empty"]);
    check("completed-at = 1.1", "completed-at", &["from 0 to 1"]);
    check("completed-at = 95", "completed-at", &["from 0 to 1"]);
    check("partial-at = -0.1", "partial-at", &["from 0 to 1"]);
    check("partial-at = 0.96", "partial-at", &["at most `completed-at`, 0.95"]);
    check("failure-budget = 0.1", "failure-budget", &["must be a table"]);
    check("failure-budget = { rate = 1.5 }", "failure-budget.rate", &["from 0 to 1"]);
    check("failure-budget = { every = 0 }", "failure-budget.every", &["0 is not allowed"]);
    check("failure-budget = { min-samples = -1 }", "failure-budget.min-samples", &["-1 is not"]);
    check(
        "failure-budget = { exclude = [\"rate-limited\"] }",
        "failure-budget.exclude[0]",
        &["did you mean \"rate_limited\"?"],
    );
    check("read-ahead = 0", "read-ahead", &["from 1 to 1000000"]);
    let bare = "[[pipeline]]\nname = \"p\"\nsource = { jsonl = \"x\" }\n";
    wrong(bare, "pipeline[0].stage", &["missing key `stage`"]);
    wrong(&format!("{bare}stage = []"), "pipeline[0].stage", &["give at least one [[stage]]"]);
    let stage = "[[pipeline.stage]]\nname = \"s\"\nhandler = { exec = [\"x\"] }\n";
    let twice = format!("{bare}{stage}{stage}");
    wrong(&twice, "pipeline[0].stage[1].name", &["two stages of this pipeline have the name"]);
    let unknown = format!("{bare}{stage}retries = 3");
    wrong(&unknown, "pipeline[0].stage[0].retries", &["unknown key `retries` in `pipeline.stage`"]);
    let other = bare.replace("\"p\"", "\"other\"");
    good(&format!("{bare}{stage}{other}{stage}"));
}
