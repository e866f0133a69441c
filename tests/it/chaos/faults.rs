//! What goes wrong, when, and for how long.

use std::time::{Duration, Instant};

use redrive::{Clock, SystemClock, jiff::Timestamp};

use super::{cast::Cast, chance::Chance, handlers::LEASE, requests::Requests, site::ServerSetup};
use crate::proxy::Way;

/// Something that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    Killed,
    Stopped,
    Frozen,
    FrozenBeyondLease,
    DiskFull,
    DatabaseCrashed,
    ConnectionsCut,
    ConnectionsHung,
    AnswersLost,
    ReadOnly,
    ClockJumped,
}

impl Fault {
    pub(super) const ALL: [Self; 11] = [
        Self::Killed,
        Self::Stopped,
        Self::Frozen,
        Self::FrozenBeyondLease,
        Self::DiskFull,
        Self::DatabaseCrashed,
        Self::ConnectionsCut,
        Self::ConnectionsHung,
        Self::AnswersLost,
        Self::ReadOnly,
        Self::ClockJumped,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Killed => "killed (-9)",
            Self::Stopped => "told to stop (TERM)",
            Self::Frozen => "frozen (STOP, CONT)",
            Self::FrozenBeyondLease => "frozen beyond the lease",
            Self::DiskFull => "disk full",
            Self::DatabaseCrashed => "database stopped (-m immediate)",
            Self::ConnectionsCut => "connections cut",
            Self::ConnectionsHung => "connections hung",
            Self::AnswersLost => "answers of the server lost",
            Self::ReadOnly => "server read-only",
            Self::ClockJumped => "clock jumped",
        }
    }

    /// How likely it is, beside the others.
    fn weight(self) -> usize {
        match self {
            Self::Killed => 6,
            Self::Stopped | Self::FrozenBeyondLease => 2,
            Self::Frozen | Self::DiskFull => 1,
            Self::DatabaseCrashed | Self::ConnectionsCut | Self::ConnectionsHung => 2,
            Self::AnswersLost | Self::ReadOnly => 2,
            Self::ClockJumped => 0,
        }
    }

    /// Why it cannot happen in a place, if it cannot.
    pub(super) fn impossible(self, site: &ServerSetup) -> Option<String> {
        let needs_server = "SQLite has no server and no connections".to_owned();
        match self {
            Self::Killed | Self::Stopped | Self::Frozen | Self::FrozenBeyondLease => None,
            Self::DiskFull => {
                site.disk.as_ref().err().map(|why| format!("no small disk can be mounted: {why}"))
            }
            Self::DatabaseCrashed
            | Self::ConnectionsCut
            | Self::ConnectionsHung
            | Self::AnswersLost
            | Self::ReadOnly => site.database.is_none().then_some(needs_server),
            Self::ClockJumped => {
                let why = "this machine's clock is everybody's; the simulator jumps clocks";
                Some(why.to_owned())
            }
        }
    }
}

/// A fault that happened.
#[derive(Debug, Clone)]
pub(super) struct Incident {
    pub(super) fault: Fault,
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
    /// Who suffered it, where it was one process.
    pub(super) on: Option<String>,
    /// The name under which that process held leases.
    pub(super) worker: Option<String>,
}

/// A fault that lasts.
struct Lasting {
    until: Instant,
    /// Its place among the incidents.
    incident: usize,
}

/// All of them.
#[derive(Default)]
pub(super) struct Faults {
    pub(super) incidents: Vec<Incident>,
    lasting: Vec<Lasting>,
}

impl Faults {
    /// Has something go wrong, and says how long nothing else should.
    pub(super) fn strike(
        &mut self,
        site: &ServerSetup,
        (cast, requests): (&mut Cast, &mut Requests),
        chance: &mut Chance,
    ) -> Duration {
        let possible: Vec<Fault> = Fault::ALL
            .into_iter()
            .filter(|fault| fault.impossible(site).is_none() && !self.lasts(*fault))
            .flat_map(|fault| std::iter::repeat_n(fault, fault.weight()))
            .collect();
        let fault = *chance.pick(&possible);
        let lasts = match fault {
            Fault::Killed | Fault::Stopped => Duration::ZERO,
            Fault::Frozen | Fault::ConnectionsCut | Fault::AnswersLost => chance.millis(50..900),
            Fault::FrozenBeyondLease => LEASE + chance.millis(300..2500),
            Fault::DiskFull | Fault::DatabaseCrashed | Fault::ReadOnly => chance.millis(200..3500),
            Fault::ConnectionsHung => chance.millis(300..4500),
            Fault::ClockJumped => return Duration::ZERO,
        };
        let on = match fault {
            Fault::Killed | Fault::Stopped | Fault::Frozen | Fault::FrozenBeyondLease => {
                let Some(victim) = choose(cast, requests, chance) else { return Duration::ZERO };
                Some(victim)
            }
            _ => None,
        };
        let worker = on.as_deref().and_then(|name| begin_on(fault, name, cast, requests));
        match (fault, &site.disk, &site.database) {
            (Fault::DiskFull, Ok(disk), _) => disk.fill(),
            (Fault::DatabaseCrashed, _, Some(database)) => database.server.crash(),
            (Fault::ConnectionsCut, _, Some(database)) => database.proxy.set(Way::Cut),
            (Fault::ConnectionsHung, _, Some(database)) => database.proxy.set(Way::Silent),
            (Fault::AnswersLost, _, Some(database)) => database.proxy.set(Way::Deaf),
            (Fault::ReadOnly, _, Some(database)) => database.server.set_read_only(true),
            _ => {}
        }
        let alone = self.lasting.is_empty();
        let from = SystemClock.now();
        self.incidents.push(Incident { fault, from, until: from, on, worker });
        if !lasts.is_zero() {
            let incident = self.incidents.len() - 1;
            self.lasting.push(Lasting { until: Instant::now() + lasts, incident });
        }
        // Many kills are left alone, so that it can be seen how long coming back takes.
        let (short, long) = (chance.millis(100..1500), LEASE + chance.millis(1200..1800));
        if fault == Fault::Killed && alone { long } else { short }
    }

    /// Whether it, or what excludes it, is going on. A server that nothing reaches cannot be stopped: it waits
    /// for those who connected and said nothing.
    fn lasts(&self, fault: Fault) -> bool {
        let of_server = |it| {
            matches!(
                it,
                Fault::DatabaseCrashed
                    | Fault::ConnectionsCut
                    | Fault::ConnectionsHung
                    | Fault::AnswersLost
                    | Fault::ReadOnly
            )
        };
        let of_one = |it| matches!(it, Fault::Frozen | Fault::FrozenBeyondLease);
        let mut others = self.lasting.iter().map(|it| self.incidents[it.incident].fault);
        others.any(|other| {
            (other == fault && !of_one(other)) || (of_server(other) && of_server(fault))
        })
    }

    /// Mends what has lasted long enough; all of it, if it is to be calm.
    pub(super) fn mend(
        &mut self,
        site: &ServerSetup,
        (cast, requests): (&mut Cast, &mut Requests),
        chance: &mut Chance,
        calm: bool,
    ) {
        for lasting in std::mem::take(&mut self.lasting) {
            if !calm && lasting.until > Instant::now() {
                self.lasting.push(lasting);
                continue;
            }
            let incident = &mut self.incidents[lasting.incident];
            match (incident.fault, &site.disk, &site.database) {
                (Fault::DiskFull, Ok(disk), _) => disk.free(),
                (Fault::DatabaseCrashed, _, Some(database)) => database.server.up(),
                (Fault::ConnectionsCut, _, Some(database)) => database.proxy.set(Way::Open),
                (Fault::ConnectionsHung, _, Some(database)) => {
                    // What was held back gets through, or is lost.
                    if chance.one_in(2) {
                        database.proxy.set(Way::Cut);
                        std::thread::sleep(Duration::from_millis(20));
                    }
                    database.proxy.set(Way::Open);
                }
                (Fault::AnswersLost, _, Some(database)) => {
                    database.proxy.set(Way::Cut);
                    std::thread::sleep(Duration::from_millis(20));
                    database.proxy.set(Way::Open);
                }
                (Fault::ReadOnly, _, Some(database)) => database.server.set_read_only(false),
                _ => {
                    let name = incident.on.as_deref().unwrap_or_default();
                    let process = match cast.staying(name) {
                        Some(process) => Some(process),
                        None => requests.process(name),
                    };
                    if let Some(process) = process {
                        process.thaw();
                    }
                }
            }
            incident.until = SystemClock.now();
        }
    }
}

/// Mostly one of those who work.
fn choose(cast: &Cast, requests: &Requests, chance: &mut Chance) -> Option<String> {
    let workers = |name: &String| !name.starts_with("daemon");
    let mut candidates: Vec<String> = match chance.below(10) {
        0..6 => cast.awake().into_iter().filter(workers).collect(),
        6..8 => cast.awake(),
        _ => requests.awake(),
    };
    // Drawn in any case, so that who happens to be there does not decide what happens next.
    let at = chance.below(1000);
    (!candidates.is_empty()).then(|| candidates.swap_remove(at % candidates.len()))
}

/// Does it to a process, and says under which name that held leases.
fn begin_on(fault: Fault, name: &str, cast: &mut Cast, requests: &mut Requests) -> Option<String> {
    let stays = matches!(fault, Fault::Frozen | Fault::FrozenBeyondLease);
    let process = match if stays { cast.staying(name) } else { cast.leaving(name) } {
        Some(process) => process,
        None => requests.process(name)?,
    };
    match fault {
        Fault::Killed => process.kill(),
        Fault::Stopped => process.terminate(),
        _ => process.freeze(),
    }
    process.worker()
}
