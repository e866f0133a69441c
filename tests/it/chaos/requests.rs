//! What users and operators ask for meanwhile, and whether they were told that it is done.
//!
//! What can be asked for twice is asked for until it is acknowledged, and must then be there, once.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    time::{Duration, Instant},
};

use redrive::serde_json::Value;

use super::{
    cast::bug_in,
    chance::Chance,
    handlers::{EXEC_CATEGORIES, STREAM_CATEGORIES},
    process::Process,
    site::ServerSetup,
};

/// So many at a time: the machine is small.
const AT_ONCE: usize = 3;

const RUNS_AT_ONCE: usize = 12;
const ITEMS_IN_GROUP: usize = 8;

/// How items of a group begin: what the server does with them, by the rest of their name.
const ITEMS: [&str; 6] = ["fine", "fine", "flaky", "cut", "fine", "bad"];

/// What an operator may do at any moment.
const OPERATORS: [&[&str]; 10] = [
    &["runs", "retry", "--queue", "exec", "--yes"],
    &["runs", "cancel", "--queue", "doomed", "--yes"],
    &["dlq", "reprocess", "--pipeline", "mill", "--limit", "5", "--yes"],
    &["state", "reprocess", "--source", "days", "--customer-id", "fine", "--yes"],
    &["state", "retry", "--source", "lost", "--force", "--clear-terminal"],
    &["queue", "pause", "stream"],
    &["queue", "resume", "stream"],
    &["gate", "close", "metered", "--for", "700ms"],
    &["gate", "open", "learned"],
    &["doctor", "-o", "jsonl"],
];

/// What must be there in the end.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// How each run ends, by queue and key.
    pub(super) runs: BTreeMap<(String, String), &'static str>,
    /// Partitions, as they are written.
    pub(super) partitions: BTreeSet<String>,
    /// Items by group and name.
    pub(super) items: BTreeSet<(String, String)>,
    /// Runs of the pipeline that were acknowledged, and how many were asked for.
    pub(super) mills: Vec<i64>,
    pub(super) mills_asked: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Asked for until it is acknowledged.
    Lasting,
    /// A run of the pipeline: asked for once, because each time makes one.
    Mill,
    /// An upload, or what an operator does: whatever comes of it.
    Passing,
}

#[derive(Debug, Clone)]
struct Request {
    kind: Kind,
    arguments: Vec<String>,
    not_before: Instant,
}

/// All of it.
pub(super) struct Requests {
    pub(super) asked: Asked,
    pub(super) groups: Vec<String>,
    waiting: Vec<Request>,
    under_way: Vec<(Request, Process)>,
    count: usize,
    /// How often one was not acknowledged and had to be asked for again.
    pub(super) repeated: usize,
    pub(super) complaints: Vec<String>,
}

impl Requests {
    pub(super) fn new() -> Self {
        Self {
            asked: Asked::default(),
            groups: Vec::new(),
            waiting: Vec::new(),
            under_way: Vec::new(),
            count: 0,
            repeated: 0,
            complaints: Vec::new(),
        }
    }

    /// Asks for something new.
    pub(super) fn ask(&mut self, site: &ServerSetup, chance: &mut Chance) {
        match chance.below(16) {
            0..5 => self.ask_for_runs(site, chance),
            5..8 => self.ask_for_days(chance),
            8..9 if self.asked.mills_asked < 100 => self.ask_for_a_mill(),
            9..11 => self.ask_for_items(site),
            11..14 if !self.groups.is_empty() => {
                let group = chance.pick(&self.groups).clone();
                self.upload(&group);
            }
            _ => self.operate(OPERATORS[chance.below(OPERATORS.len())]),
        }
    }

    fn add(&mut self, kind: Kind, arguments: &[&str]) {
        let arguments = arguments.iter().map(|it| (*it).to_owned()).collect();
        self.waiting.push(Request { kind, arguments, not_before: Instant::now() });
    }

    fn ask_for_runs(&mut self, site: &ServerSetup, chance: &mut Chance) {
        self.count += 1;
        let mut lines = String::new();
        for n in 0..RUNS_AT_ONCE {
            let (queue, (category, end)) = match chance.below(11) {
                0..4 => ("exec", *chance.pick(&EXEC_CATEGORIES)),
                4..7 => ("stream", *chance.pick(&STREAM_CATEGORIES)),
                7..9 => ("metered", ("fine", "passed")),
                9..10 => ("learned", ("fine", "passed")),
                _ => ("doomed", ("slow", "passed or cancelled")),
            };
            let key = format!("{}-{n}", self.count);
            writeln!(
                lines,
                r#"{{"queue":"{queue}","category":"{category}","payload":{{"n":{n}}},"idempotency_key":"{key}"}}"#
            )
            .unwrap();
            self.asked.runs.insert((queue.to_owned(), key), end);
        }
        let file = format!("asked/runs-{}.jsonl", self.count);
        site.folder.write(&file, lines);
        self.add(Kind::Lasting, &["runs", "submit", "--from", &file]);
    }

    /// Each day is asked for once.
    fn ask_for_days(&mut self, chance: &mut Chance) {
        self.count += 1;
        let (source, customers) = *chance.pick(&[
            ("days", &["fine", "flaky", "bulky"][..]),
            ("flow", &["fine", "flaky"]),
            ("lost", &["bad"]),
        ]);
        let (year, month, day) =
            (2000 + self.count / 336, 1 + self.count / 28 % 12, 1 + self.count % 28);
        let day = format!("{year}-{month:02}-{day:02}");
        for customer in customers {
            self.asked.partitions.insert(format!("partition:{source}/{customer}/q/{day}"));
        }
        let range = ["--since", &day, "--until", &day];
        self.add(Kind::Lasting, &[&["state", "backfill", "--source", source][..], &range].concat());
    }

    fn ask_for_a_mill(&mut self) {
        self.asked.mills_asked += 1;
        self.add(Kind::Mill, &["pipeline", "run", "mill", "--detach", "-o", "json"]);
    }

    fn ask_for_items(&mut self, site: &ServerSetup) {
        self.count += 1;
        let group = format!("g{}", self.count);
        let mut names = Vec::new();
        for (n, what) in ITEMS.iter().cycle().take(ITEMS_IN_GROUP).enumerate() {
            let name = format!("asked/{what}-{}-{n}", self.count);
            site.folder.write(&name, format!("{name}\n"));
            self.asked.items.insert((group.clone(), name.clone()));
            names.push(name);
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let command = ["uploads", "add", "--upload", "tiles", "--group", &group];
        self.add(Kind::Lasting, &[&command[..], &names].concat());
        self.groups.push(group);
    }

    pub(super) fn upload(&mut self, group: &str) {
        self.add(Kind::Passing, &["uploads", "run", "--upload", "tiles", "--group", group]);
    }

    pub(super) fn operate(&mut self, arguments: &[&str]) {
        self.add(Kind::Passing, arguments);
    }

    /// Starts what waits, and looks what has ended.
    pub(super) fn look(&mut self, site: &ServerSetup) {
        for (mut request, mut process) in std::mem::take(&mut self.under_way) {
            match process.ended() {
                None => self.under_way.push((request, process)),
                Some(status) => {
                    let log = process.log();
                    self.complaints.extend(bug_in(&process.name, &log));
                    if request.arguments[0] == "doctor" {
                        self.complaints.extend(findings_of(&process));
                    }
                    // Anything else is an answer: done, there already, or refused for a reason.
                    let in_vain = log.lines().any(|line| line.starts_with("error: "));
                    let answered = status.code().is_some() && !in_vain;
                    match request.kind {
                        Kind::Lasting if !answered => {
                            self.repeated += 1;
                            request.not_before = Instant::now() + Duration::from_millis(300);
                            self.waiting.push(request);
                        }
                        Kind::Mill if status.success() => {
                            let run: Value =
                                redrive::serde_json::from_str(&process.printed()).unwrap();
                            self.asked.mills.push(run["id"].as_i64().unwrap());
                        }
                        _ => {}
                    }
                }
            }
        }
        while self.under_way.len() < AT_ONCE {
            let due = |request: &Request| request.not_before <= Instant::now();
            let Some(next) = self.waiting.iter().position(due) else { return };
            let request = self.waiting.remove(next);
            self.count += 1;
            let arguments: Vec<&str> = request.arguments.iter().map(String::as_str).collect();
            let name = format!(
                "{}-{}.{}",
                arguments[0],
                arguments[1..].first().unwrap_or(&""),
                self.count
            );
            let process = Process::start(site.command(&arguments), name, &site.path().join("logs"));
            self.under_way.push((request, process));
        }
    }

    /// Whether nothing is to be asked for any more.
    pub(super) fn are_done(&self) -> bool {
        self.waiting.is_empty() && self.under_way.is_empty()
    }

    /// Those under way that are not frozen.
    pub(super) fn awake(&self) -> Vec<String> {
        let processes = self.under_way.iter().map(|(_, process)| process);
        processes.filter(|it| !it.is_frozen()).map(|it| it.name.clone()).collect()
    }

    pub(super) fn process(&mut self, name: &str) -> Option<&mut Process> {
        self.under_way.iter_mut().map(|(_, process)| process).find(|it| it.name == name)
    }
}

/// What a doctor finds wrong with units, while they are worked on. That it cannot look is no finding.
fn findings_of(doctor: &Process) -> Vec<String> {
    let printed = doctor.printed();
    let checkups = printed.lines().filter_map(|line| redrive::serde_json::from_str(line).ok());
    let details = checkups.filter_map(|checkup: Value| {
        let wrong = checkup["check"] == "invariants" && checkup["ok"] == false;
        wrong.then(|| checkup["detail"].as_str().unwrap().to_owned())
    });
    let of_unit = |detail: &String| {
        ["run:", "partition:", "item:", "sample:", "pipeline"]
            .iter()
            .any(|it| detail.starts_with(it))
    };
    details.filter(of_unit).map(|detail| format!("{} finds {detail}", doctor.name)).collect()
}
