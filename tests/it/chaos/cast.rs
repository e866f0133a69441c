//! Who works: workers, one process with everything, and daemons. Whoever ends is started again.

use std::{
    process::ExitStatus,
    time::{Duration, Instant},
};

use super::{process::Process, site::ServerSetup};

/// All of them, by name and arguments.
const PLAYERS: [(&str, &[&str]); 6] = [
    ("worker-1", &["worker", "--grace", "500ms"]),
    ("worker-2", &["worker", "--grace", "500ms"]),
    ("worker-3", &["worker", "--grace", "500ms", "--queues", "exec,stream,doomed"]),
    ("up", &["up", "--listen", "127.0.0.1:0", "--interval", "300ms", "--grace", "500ms"]),
    ("daemon-1", &["daemon", "--interval", "200ms"]),
    ("daemon-2", &["daemon", "--interval", "300ms"]),
];

/// How long somebody who was told to stop may take: handlers have five seconds after a TERM, twice.
const STOP_PATIENCE: Duration = Duration::from_secs(30);

/// One of them.
struct Player {
    name: &'static str,
    arguments: &'static [&'static str],
    process: Option<Process>,
    lives: u32,
    back_at: Instant,
    /// It was told to stop, or killed: its end is meant.
    leaving: bool,
}

/// Everybody who works.
pub(super) struct Cast {
    players: Vec<Player>,
    /// What they did that nobody had told them to.
    pub(super) complaints: Vec<String>,
    /// How often somebody could not begin, because the store was away.
    pub(super) not_begun: usize,
}

impl Cast {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        let players = PLAYERS.map(|(name, arguments)| Player {
            name,
            arguments,
            process: None,
            lives: 0,
            back_at: now,
            leaving: false,
        });
        Self { players: players.into(), complaints: Vec::new(), not_begun: 0 }
    }

    /// Starts whoever is to be there, and looks who has ended.
    pub(super) fn look(&mut self, site: &ServerSetup, rest: Duration) {
        for player in &mut self.players {
            if let Some(process) = &mut player.process {
                let Some(status) = process.ended() else { continue };
                let log = process.log();
                if !player.leaving && begun(&log) {
                    let complaint = format!("{} ended by itself, {status}: {log}", process.name);
                    self.complaints.push(complaint);
                } else if !player.leaving {
                    self.not_begun += 1;
                }
                self.complaints.extend(bug_in(&process.name, &log));
                player.process = None;
                player.back_at = Instant::now() + rest;
            } else if player.back_at <= Instant::now() {
                player.lives += 1;
                player.leaving = false;
                let name = format!("{}.{}", player.name, player.lives);
                let command = site.command(player.arguments);
                player.process = Some(Process::start(command, name, &site.path().join("logs")));
            }
        }
    }

    /// Those who live and are not frozen.
    pub(super) fn awake(&self) -> Vec<String> {
        let processes = self.players.iter().filter_map(|player| player.process.as_ref());
        processes.filter(|it| !it.is_frozen()).map(|it| it.name.clone()).collect()
    }

    /// One of them, who is about to be told to stop, or killed.
    pub(super) fn leaving(&mut self, name: &str) -> Option<&mut Process> {
        let is_it =
            |player: &&mut Player| player.process.as_ref().is_some_and(|it| it.name == name);
        let player = self.players.iter_mut().find(is_it)?;
        player.leaving = true;
        player.process.as_mut()
    }

    /// One of them, who stays.
    pub(super) fn staying(&mut self, name: &str) -> Option<&mut Process> {
        self.players.iter_mut().filter_map(|it| it.process.as_mut()).find(|it| it.name == name)
    }

    /// Tells everybody to stop, and waits for it.
    pub(super) fn stop(&mut self) {
        for process in self.players.iter().filter_map(|player| player.process.as_ref()) {
            process.terminate();
        }
        let over = Instant::now() + STOP_PATIENCE;
        for player in &mut self.players {
            let Some(mut process) = player.process.take() else { continue };
            let status = loop {
                match process.ended() {
                    Some(status) => break Some(status),
                    None if Instant::now() > over => break None,
                    None => std::thread::sleep(Duration::from_millis(20)),
                }
            };
            if !status.is_some_and(is_stopped) {
                let complaint = format!("{} was told to stop: {status:?}", process.name);
                self.complaints.push(complaint);
            }
            self.complaints.extend(bug_in(&process.name, &process.log()));
        }
    }
}

/// As the program ends after a TERM. One that had not come to listen for it is ended by it.
fn is_stopped(status: ExitStatus) -> bool {
    matches!(status.code(), Some(143) | None)
}

/// Whether a process had begun to work.
fn begun(log: &str) -> bool {
    [" working ", " up ", "watching failed partitions"].iter().any(|words| log.contains(words))
}

/// What nobody may ever see.
pub(super) fn bug_in(name: &str, log: &str) -> Option<String> {
    let line = log.lines().find(|line| line.contains("bug in Redrive"))?;
    Some(format!("{name} met a bug: {line}"))
}
