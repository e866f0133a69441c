//! Chaos: everything at once, on real processes and real stores, while everything goes wrong.
//!
//! Workers, daemons and `up` share a store. Users submit, operators interfere, and by chance from a seed
//! processes are killed and frozen, the database crashes, connections break and hang, the disk fills up.
//! Handlers keep a ledger of their own. Then it gets calm, everything comes to its end, and the
//! two ledgers must tell the same story.
//!
//! `scripts/chaos` does it for as long as wanted; here it lasts a few seconds.

mod case;
mod cast;
mod chance;
mod disk;
mod driver;
mod evidence;
mod faults;
mod handlers;
mod item_rules;
mod limited_server;
mod planted;
mod process;
mod report;
mod requests;
mod rules;
mod site;

use std::{env, fs, path::Path, str::FromStr, time::Duration};

use self::{
    case::Case,
    driver::live,
    evidence::gather,
    item_rules::ITEM_RULES,
    report::{RECOVERY, Report},
    rules::RULES,
    site::{ServerSetup, StoreKind},
};

/// How long faults go on, unless the environment says otherwise.
const SECONDS: u64 = 10;

fn from_environment<T: FromStr>(name: &str) -> Option<T> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

// RUN-7, OPS-6, DMN-2, PAR-6, PAR-10, UPL-7, PIP-1, GAT-3
#[test]
fn nothing_is_lost_and_nothing_ends_twice_in_chaos_on_sqlite() {
    println!("{}", chaos(StoreKind::Sqlite));
}

// RUN-7, OPS-6, DMN-2, PAR-6, PAR-10, UPL-7, PIP-1, GAT-3
#[test]
fn nothing_is_lost_and_nothing_ends_twice_in_chaos_on_postgres() {
    println!("{}", chaos(StoreKind::Postgres));
}

/// A page about it, if nothing is violated.
fn chaos(kind: StoreKind) -> String {
    let seed = from_environment("REDRIVE_CHAOS_SEED").unwrap_or(1);
    let seconds = from_environment("REDRIVE_CHAOS_SECONDS").unwrap_or(SECONDS);
    // On a machine that does other things as well, nobody can say how long anything takes.
    let timed = from_environment::<u8>("REDRIVE_CHAOS_TIMED") == Some(1);
    let site = match ServerSetup::new(kind) {
        Ok(site) => site,
        Err(why) => return format!("skipped: {why}"),
    };
    let lived = live(&site, seed, Duration::from_secs(seconds));
    let evidence = gather(&site);
    let case = Case::new(&evidence, &lived.asked, &lived.incidents);

    let head = format!("chaos on {kind}: seed {seed}, {seconds} s of faults");
    let mut report = Report::new(&site, &lived, &case, &head);
    for (rule, against) in RULES.iter().chain(&ITEM_RULES) {
        report.violated(rule, against(&case));
    }
    for sound in [&["doctor", "-o", "jsonl"][..], &["state", "verify", "-o", "jsonl"]] {
        let ended = site.ask(sound);
        let wrong = (ended.code != Some(0)).then(|| format!("{}{}", ended.stdout, ended.stderr));
        report.violated(&format!("redrive {} is content", sound[0]), wrong.into_iter().collect());
    }
    report
        .violated("processes end when they are told to, and nobody meets a bug", lived.complaints);
    let slow = report.slowest_recovery().filter(|took| timed && *took > RECOVERY);
    let slow = slow.map(|took| format!("it took {:.2} s", took.as_secs_f64()));
    report.violated("what a killed worker held is back in time", slow.into_iter().collect());

    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("chaos-{kind}.txt"));
    fs::write(&file, report.to_string()).unwrap();
    if !report.is_clean() {
        let kept = site.keep();
        let minutes = seconds.div_ceil(60);
        panic!(
            "{report}\neverything is left in {kept}\n\
             again: scripts/chaos --store {kind} --seed {seed} --minutes {minutes}"
        );
    }
    report.to_string()
}
