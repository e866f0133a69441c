//! One page about what happened.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    time::Duration,
};

use redrive::store::UnitKind;

use super::{
    case::Case,
    driver::Lived,
    evidence::Noted,
    faults::{Fault, Incident},
    handlers::LEASE,
    site::ServerSetup,
};

/// How long after a kill whatever was held is to be back.
pub(super) const RECOVERY: Duration = LEASE.saturating_add(Duration::from_secs(1));

/// Violations that are shown of a rule.
const SHOWN: usize = 5;

/// How long it took after a kill until the last unit that was held was back.
#[derive(Debug, Clone, Copy)]
struct Recovery {
    took: Duration,
    /// Something else went wrong meanwhile.
    disturbed: bool,
}

/// What is reported.
pub(super) struct Report {
    text: String,
    recoveries: Vec<Recovery>,
    violations: Vec<(String, Vec<String>)>,
}

impl Report {
    pub(super) fn new(site: &ServerSetup, lived: &Lived, case: &Case<'_>, head: &str) -> Self {
        let recoveries = recoveries(case);
        let mut report = Self { text: format!("{head}\n\n"), recoveries, violations: Vec::new() };
        report.tell_faults(site, lived);
        report.tell_units(case);
        report.tell_attempts(case);
        report.tell_recoveries();
        report.tell_gates(site, case);
        report
    }

    /// Adds what speaks against a rule.
    pub(super) fn violated(&mut self, rule: &str, against: Vec<String>) {
        if !against.is_empty() {
            self.violations.push((rule.to_owned(), against));
        }
    }

    /// The longest time that coming back took where nothing else went wrong.
    pub(super) fn slowest_recovery(&self) -> Option<Duration> {
        let undisturbed = self.recoveries.iter().filter(|it| !it.disturbed);
        undisturbed.map(|it| it.took).max()
    }

    pub(super) fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }

    fn line(&mut self, name: &str, value: impl fmt::Display) {
        writeln!(self.text, "  {name:<34} {value}").unwrap();
    }

    fn tell_faults(&mut self, site: &ServerSetup, lived: &Lived) {
        self.text.push_str("faults\n");
        for fault in Fault::ALL {
            match fault.impossible(site) {
                Some(why) => self.line(fault.name(), format_args!("left out: {why}")),
                None => {
                    let times = lived.incidents.iter().filter(|it| it.fault == fault).count();
                    self.line(fault.name(), times);
                }
            }
        }
        self.line("starts that found no store", lived.not_begun);
        self.line("requests that had to be repeated", lived.repeated);
        self.line(
            "all at its end after the last",
            format_args!("{:.1} s", lived.calm.as_secs_f64()),
        );
    }

    fn tell_units(&mut self, case: &Case<'_>) {
        let evidence = case.evidence;
        let runs = evidence.runs.iter().map(|(_, run)| run.status.as_str());
        let items = evidence.items.iter().map(|(_, item)| item.status.as_str());
        let partitions = evidence.partitions.iter().map(|it| it.status.as_str());
        self.text.push_str("\nunits, as they ended\n");
        self.line("runs", tally(runs));
        self.line("partitions", tally(partitions));
        self.line("items", tally(items));
        let mut samples = [0; 4];
        for (_, _, counts) in &evidence.mills {
            (0..4).for_each(|at| samples[at] += counts[at]);
        }
        let [succeeded, skipped, dead, total] = samples;
        let of = format!("{total}: {succeeded} succeeded, {skipped} skipped, {dead} dlq");
        self.line("samples", format_args!("{of}, in {} runs", evidence.mills.len()));
    }

    fn tell_attempts(&mut self, case: &Case<'_>) {
        self.text.push_str("\nattempts, by the ledger of the store\n");
        for kind in UnitKind::ALL {
            let rows = case.evidence.attempts.iter().filter(|row| row.kind == kind);
            let outcomes = rows.map(|row| match row.is_lost() {
                true => "lost",
                false => row.outcome.name(),
            });
            self.line(kind.name(), tally(outcomes));
        }
        let journal = case.evidence.journal.iter();
        let handed_back = journal.filter(|told| told.action.ends_with(".handback"));
        self.line("handed back", handed_back.count());
        self.text.push_str("\nexecutions, by the ledger of the handlers\n");
        let noted =
            |wanted| case.evidence.notes.iter().filter(|(noted, _)| *noted == wanted).count();
        let (begun, ok, failed) = (noted(Noted::Begin), noted(Noted::Ok), noted(Noted::Fail));
        self.line("begun", format_args!("{begun}: {ok} ok, {failed} failed, the rest cut off"));
        let lost = case.ok.iter().filter(|it| case.rows.get(**it).is_some_and(|row| row.is_lost()));
        self.line("done and lost with their worker", lost.count());
        let receipts = &case.evidence.receipts;
        let mut acknowledged: BTreeMap<&str, usize> = BTreeMap::new();
        for receipt in receipts.iter().filter(|it| it.acknowledged) {
            *acknowledged.entry(&receipt.name).or_default() += 1;
        }
        let twice = acknowledged.values().filter(|times| **times > 1).count();
        let received = format!("{}, {twice} acknowledged more than once", receipts.len());
        self.line("items received", received);
    }

    fn tell_gates(&mut self, site: &ServerSetup, case: &Case<'_>) {
        self.text.push_str("\ngates, by the service behind them\n");
        for (queue, bucket) in site.limited.buckets() {
            self.line(&queue, bucket);
        }
        let told = |action| case.evidence.journal.iter().filter(|it| it.action == action).count();
        let (closed, opened) = (told("gate.closed"), told("gate.opened"));
        self.line("by the journal", format_args!("{closed} closed, {opened} opened"));
    }

    fn tell_recoveries(&mut self) {
        self.text.push_str("\ntime from a kill until all it held was back\n");
        for (name, disturbed) in [("nothing else went wrong", false), ("something else did", true)]
        {
            let all = self.recoveries.iter().filter(|it| it.disturbed == disturbed);
            let mut all: Vec<f64> = all.map(|it| it.took.as_secs_f64()).collect();
            all.sort_by(f64::total_cmp);
            let line = match all.as_slice() {
                [] => "none was seen".to_owned(),
                [.., worst] => {
                    let median = all[all.len() / 2];
                    format!("{} kills: median {median:.2} s, worst {worst:.2} s", all.len())
                }
            };
            self.line(name, line);
        }
        self.line("meant", format_args!("{:.0} s: a lease and a second", RECOVERY.as_secs_f64()));
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        if self.is_clean() {
            return f.write_str("\nviolations: none\n");
        }
        f.write_str("\nviolations\n")?;
        for (rule, against) in &self.violations {
            writeln!(f, "  not so: {rule} ({})", against.len())?;
            for one in against.iter().take(SHOWN) {
                writeln!(f, "    {one}")?;
            }
        }
        Ok(())
    }
}

/// How many there are of each word, and in all.
fn tally<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    words.for_each(|word| *counts.entry(word).or_default() += 1);
    let total: usize = counts.values().sum();
    let each: Vec<String> = counts.iter().map(|(word, count)| format!("{count} {word}")).collect();
    format!("{total}: {}", each.join(", "))
}

/// For every kill of somebody who held something.
fn recoveries(case: &Case<'_>) -> Vec<Recovery> {
    let kills = case.incidents.iter().filter(|it| it.fault == Fault::Killed);
    kills.filter_map(|kill| recovery(kill, case)).collect()
}

fn recovery(kill: &Incident, case: &Case<'_>) -> Option<Recovery> {
    let worker = kill.worker.as_ref()?;
    let lost = case.evidence.attempts.iter().filter(|row| row.is_lost() && row.worker == *worker);
    let back = lost.map(|row| row.ended_at).max()?;
    let took = Duration::try_from(back.duration_since(kill.from)).ok()?;
    let end = kill.from.checked_add(RECOVERY).unwrap();
    let disturbed = case
        .incidents
        .iter()
        .any(|other| !std::ptr::eq(other, kill) && other.from <= end && other.until >= kill.from);
    Some(Recovery { took, disturbed })
}
