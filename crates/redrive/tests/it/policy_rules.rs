//! `[[policy.NAME.rule]]`.

use crate::config::{good, queue, source, wrong};

// POL-10
#[test]
fn a_rule_is_read_by_name_and_inline() {
    let named = "[policy.p]\nbase = \"2s\"\n[[policy.p.rule]]\ncode = [529, \"timeout\"]\nbase = \"5m\"\n\
                 [[policy.p.rule]]\nclass = [\"rate_limited\"]\norigin = [\"handler\"]\nmax-attempts = 20\n";
    let rules = "rule = [{ code = [529, \"timeout\"], base = \"5m\" }, \
                 { class = [\"rate-limited\"], origin = [\"handler\"], max-attempts = 20 }]";
    let by_name = good(&format!("{named}{}", queue("policy = \"p\"")));
    let inline = good(&queue(&format!("policy = {{ base = \"2s\", {rules} }}")));
    let policy = &by_name.queues[0].policy.policy;
    assert_eq!(policy, &inline.queues[0].policy.policy);
    let wait =
        |status| policy.for_failure(&redrive::Failure::http(status, None, "")).spec().clone();
    assert_eq!((wait(529).base.as_secs(), wait(503).base.as_secs()), (300, 2));
    assert_eq!((wait(429).max_attempts, wait(503).max_attempts), (Some(20), Some(9)));
}

// POL-10, CLS-8
#[test]
fn a_wrong_rule_is_refused_at_its_place() {
    #[track_caller]
    fn check(rule: &str, key: &str, parts: &[&str]) {
        wrong(&format!("[[policy.p.rule]]\n{rule}"), &format!("policy.p.rule[0]{key}"), parts);
        let rule = rule.replace('\n', ", ");
        let inline = queue(&format!("policy = {{ rule = [{{ {rule} }}] }}"));
        wrong(&inline, &format!("queue[0].policy.rule[0]{key}"), parts);
    }
    check("base = \"1s\"", "", &["matches nothing in particular", "`code`"]);
    check("code = [503]", "", &["changes nothing", "`max-attempts`"]);
    check("code = 503\nbase = \"1s\"", ".code", &["must be a list"]);
    check("code = []\nbase = \"1s\"", ".code", &["must not be empty"]);
    check("class = [\"fatal\"]\nbase = \"1s\"", ".class[0]", &["write \"final\""]);
    check("origin = [\"worker\"]\nbase = \"1s\"", ".origin[0]", &["\"lost_worker\""]);
    check("fingerprint = [\"12\"]\nbase = \"1s\"", ".fingerprint[0]", &["16 hexadecimal digits"]);
    check("code = [503]\nmax-age = \"1h\"\nbase = \"1s\"", ".max-age", &["unknown key"]);
    check("code = [503]\nmax-attempts = 0", ".max-attempts", &["at least 1"]);
    check("code = [503]\nbase = \"9h\"\ncap = \"1h\"", ".cap", &["at least the base"]);
    wrong("[policy.p]\nrule = { code = [1] }", "policy.p.rule", &["a list of tables"]);
    let unknown = |place: fn(&str) -> String| {
        place("policy = { rule = [{ code = [\"econnrefused\"], base = \"1s\" }] }")
    };
    let usual = "did you mean `connection_refused`?";
    wrong(&unknown(queue), "queue[0].policy", &["no failure here", usual]);
    wrong(&unknown(source), "source[0].policy", &["no failure here", usual]);
    good(&source("policy = { rule = [{ code = [\"too_few_rows\"], base = \"1h\" }] }"));
    let origin = source("policy = { rule = [{ origin = [\"timeout\"], base = \"1h\" }] }");
    wrong(&origin, "source[0].policy", &["`origin` of a rule has no effect"]);
    let all = source("policy = { rule = [{ code = [503], retriable = \"none\" }] }");
    wrong(&all, "source[0].policy", &["`retriable` of a rule has no effect"]);
    let long = "[[policy.p.rule]]\ncode = [503]\nbase = \"2h\"\n";
    wrong(&format!("{long}{}", queue("policy = \"p\"")), "queue[0].policy", &["does not fit"]);
    good(&format!("{long}{}", source("policy = \"p\"")));
}
