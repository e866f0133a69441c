//! Runs one program and its calls: writes calls, reads replies, enforces limits, terminates.
//!
//! One task does all of it for one program, so nothing needs a lock. Calls that arrive while others are
//! written are written together.

use std::{io, time::Duration};

use rustix::{io::ioctl_fionread, process::Signal};
use tokio::{
    process::{ChildStderr, ChildStdin, ChildStdout},
    sync::mpsc,
    time::{Instant, timeout},
};

use super::{
    call_table::{CallCompletion, CallRequest, CallTable, CallTicket},
    conclusion::{ExitCause, SessionEnd, answered},
    deliveries::Deliveries,
    line_splitter::LineSplitter,
    outbox::Outbox,
    pool::SlotGuard,
    reply_line::{ReplyLine, RowLine},
    stderr_lines::{LineOwner, StderrLines},
    waits::{at, read, write},
};
use crate::handlers::{
    program::{DRAIN_LIMIT, KILL_LIMIT, Pipes, ProcessGroup, output::CHUNK_BYTES},
    reply::{MAX_REPLY_BYTES, excerpt},
};
use redrive_retry::monotonic;

/// The most commands taken from the channel at a time.
const BATCH: usize = 256;

/// A command to the session of a program.
#[derive(Debug)]
pub(super) enum ProgramCommand {
    Call(CallRequest),
    /// The reply to this call is no longer wanted.
    Stop(CallTicket),
    /// The call was dropped and must not keep running.
    Drop(CallTicket),
    /// Finish the current calls and exit.
    Finish,
}

/// How far the program is on its way out, and when the next step is due.
enum Phase {
    Serving,
    /// Its input is closed, or one of its pipes is.
    Closing(Instant),
    Terminated(Instant),
    Killed(Instant),
    Gone,
}

pub(super) struct ProgramSession {
    slot: SlotGuard,
    in_flight: usize,
    grace: Duration,
    group: ProcessGroup,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    calls: CallTable,
    outbox: Outbox,
    lines: LineSplitter,
    /// What was read and not delivered yet. Nothing more is read until it is delivered.
    deliveries: Deliveries,
    logged: StderrLines,
    /// Whether the program has read a part of its input.
    has_read: bool,
    /// The number of valid replies.
    replies: u64,
    phase: Phase,
    cause: ExitCause,
    /// Whether output is ignored, because a line was invalid.
    distrusted: bool,
}

impl ProgramSession {
    pub(super) fn new(
        slot: SlotGuard,
        (group, pipes): (ProcessGroup, Pipes),
        in_flight: usize,
        grace: Duration,
    ) -> Self {
        Self {
            slot,
            in_flight,
            grace,
            group,
            stdin: Some(pipes.stdin),
            stdout: Some(pipes.stdout),
            stderr: Some(pipes.stderr),
            calls: CallTable::default(),
            outbox: Outbox::default(),
            lines: LineSplitter::default(),
            deliveries: Deliveries::default(),
            logged: StderrLines::default(),
            has_read: false,
            replies: 0,
            phase: Phase::Serving,
            cause: ExitCause::Exited,
            distrusted: false,
        }
    }

    /// Passes calls to the program until it has ended.
    pub(super) async fn run(mut self, mut commands: mpsc::UnboundedReceiver<ProgramCommand>) {
        self.run_program(&mut commands).await;
        // New calls go to another program from now on.
        self.phase = Phase::Gone;
        self.slot.leaving();
        self.drain_output().await;
        self.deliver_all().await;
        commands.close();
        while let Ok(command) = commands.try_recv() {
            self.handle_command(command);
        }
        self.conclude();
    }

    /// Returns when the program has exited, or does not exit even after KILL.
    async fn run_program(&mut self, commands: &mut mpsc::UnboundedReceiver<ProgramCommand>) {
        let (mut batch, mut listening) = (Vec::with_capacity(BATCH), true);
        let (mut out, mut err) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
        loop {
            let alarm = self.alarm();
            // In this order, so that a flood of output cannot delay a deadline.
            tokio::select! {
                biased;
                () = self.group.exited() => return,
                () = at(alarm) => if self.on_alarm() { return },
                count = commands.recv_many(&mut batch, BATCH), if listening => {
                    listening = count > 0;
                    self.read_logged();
                    batch.drain(..).for_each(|command| self.handle_command(command));
                }
                sent = write(&mut self.stdin, self.outbox.unsent()) => self.sent(sent),
                () = self.deliveries.room() => self.deliver(),
                length = read(&mut self.stdout, &mut out), if self.deliveries.is_empty() => match length {
                    0 => self.stdout_closed(),
                    length => self.received(out.get(..length).unwrap_or_default()),
                },
                length = read(&mut self.stderr, &mut err) => match length {
                    0 => self.stderr = None,
                    length => self.logged(err.get(..length).unwrap_or_default()),
                },
            }
        }
    }

    /// Reads what the program printed before its exit and what its children still print. Only the reads
    /// have a limit here; the extraction limits the time that the sink may take.
    async fn drain_output(&mut self) {
        let (mut out, mut err) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
        let mut left = DRAIN_LIMIT;
        while self.stdout.is_some() || self.stderr.is_some() {
            self.deliver_all().await;
            let started = monotonic();
            let read = async {
                tokio::select! {
                    length = read(&mut self.stdout, &mut out) => (length, true),
                    length = read(&mut self.stderr, &mut err) => (length, false),
                }
            };
            match timeout(left, read).await {
                Err(_) => return,
                Ok((0, true)) => self.stdout = None,
                Ok((0, false)) => self.stderr = None,
                Ok((length, true)) => self.received(out.get(..length).unwrap_or_default()),
                Ok((length, false)) => self.logged(err.get(..length).unwrap_or_default()),
            }
            left = left.saturating_sub(started.elapsed());
        }
    }

    fn handle_command(&mut self, command: ProgramCommand) {
        match command {
            ProgramCommand::Call(request) if self.is_serving() => {
                let line = self.calls.add(request, self.outbox.end(), monotonic());
                self.outbox.push(&line);
            }
            ProgramCommand::Call(CallRequest { reply_to, permit, .. }) => {
                // The send fails only if the caller was dropped.
                _ = reply_to.send(CallCompletion::Unread(permit));
            }
            ProgramCommand::Stop(ticket) => self.stop(ticket),
            ProgramCommand::Drop(ticket) => {
                self.stop(ticket);
                if self.in_flight == 1 && self.calls.has(ticket) {
                    self.kill();
                }
            }
            ProgramCommand::Finish if self.is_serving() => {
                // The end of its input tells a program to finish its calls and exit.
                self.stdin = None;
                self.cause = ExitCause::Retired;
                self.expect_exit();
            }
            ProgramCommand::Finish => {}
        }
    }

    /// Terminates the program if the stopped call is its only one. Otherwise the other calls go on, and the
    /// reply to the stopped call will be ignored.
    fn stop(&mut self, ticket: CallTicket) {
        if !self.calls.stop(ticket) {
            return;
        }
        match (self.in_flight, self.is_serving()) {
            (1, true) => {
                self.cause = ExitCause::Stopped;
                self.terminate();
            }
            (1, false) => {}
            _ => self.calls.abandon(ticket),
        }
    }

    /// A write error means that the program closed its input.
    fn sent(&mut self, sent: io::Result<usize>) {
        match sent {
            Ok(length) => self.outbox.sent(length),
            Err(_) => self.expect_exit(),
        }
    }

    /// No reply can come any more.
    fn stdout_closed(&mut self) {
        self.stdout = None;
        self.expect_exit();
    }

    /// A program that closes a pipe is about to exit. Its input stays open, because the unread bytes are
    /// counted after the exit.
    fn expect_exit(&mut self) {
        if self.is_serving() {
            self.refuse_calls();
            self.phase = Phase::Closing(monotonic() + self.grace);
        }
    }

    /// Reads what is in the pipe of stderr now. The program wrote it before what happens next: a line belongs
    /// to the calls in flight when it was written, so it is assigned before a reply ends one or a new one begins.
    fn read_logged(&mut self) {
        let ready = self.stderr.as_ref().and_then(|stderr| ioctl_fionread(stderr).ok());
        let mut left = ready.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or_default();
        let mut buffer = vec![0; left.min(CHUNK_BYTES)];
        while left > 0
            && let Some(stderr) = &self.stderr
            && let Ok(length @ 1..) = rustix::io::read(stderr, &mut buffer)
        {
            self.logged(buffer.get(..length).unwrap_or_default());
            left = left.saturating_sub(length);
        }
    }

    fn logged(&mut self, chunk: &[u8]) {
        self.has_read = self.has_read || self.read_bytes() > 0;
        let owner = match self.calls.only_written(self.outbox.written()) {
            _ if !self.has_read => LineOwner::Startup,
            Some(ticket) => LineOwner::Call(ticket),
            None => LineOwner::Process,
        };
        self.logged.push(chunk, &mut self.calls, owner);
    }

    /// How many bytes of its input the program has read.
    fn read_bytes(&self) -> u64 {
        let unread = self.stdin.as_ref().and_then(|stdin| ioctl_fionread(stdin).ok());
        self.outbox.written().saturating_sub(unread.unwrap_or_default())
    }

    fn received(&mut self, chunk: &[u8]) {
        self.read_logged();
        if self.distrusted {
            return;
        }
        let Self { lines, calls, in_flight, outbox, replies, cause, deliveries, .. } = self;
        let (in_flight, written, offender) = (*in_flight, outbox.written(), cause.offender());
        let (mut wrong, unanswered) = (None, *replies == 0);
        let pushed = lines.push(chunk, |line| {
            if calls.have_rows()
                && let Some(RowLine { id, row }) = RowLine::parse(line)
                && let Some(ticket) = calls.addressed(id.as_deref(), in_flight, written)
                && let Some(rows) = calls.rows_of(ticket)
            {
                deliveries.add_row(ticket, rows, row);
                return true;
            }
            let (id, problem) = match ReplyLine::parse(line) {
                Ok(answer) if calls.have_rows() && RowLine::is_in(line) => (
                    answer.id,
                    format!("a line has either a row or a reply, not both: {}", excerpt(line)),
                ),
                Ok(answer) => {
                    let ticket = calls.addressed(answer.id.as_deref(), in_flight, written);
                    if ticket.is_some() && ticket == offender {
                        // The call has timed out already.
                        return true;
                    }
                    if let Some(call) = ticket.and_then(|ticket| calls.remove(ticket)) {
                        let well = answer.reply.is_ok();
                        *replies += u64::from(well);
                        let outcome = answered(&call, answer.reply);
                        deliveries.add_completion(call, CallCompletion::Done(outcome), well);
                        return true;
                    }
                    let names_none = answer.id.is_none() && in_flight > 1;
                    let problem = if names_none {
                        "the line has no id"
                    } else {
                        "the line answers no current call"
                    };
                    (None, format!("{problem}: {}", excerpt(line)))
                }
                Err(invalid) => (invalid.id, invalid.problem),
            };
            let named = id.and_then(|id| calls.addressed(Some(&id), in_flight, written));
            wrong = Some((named.or_else(|| calls.only_written(written)), problem));
            false
        });
        if pushed.is_err() {
            wrong = Some((
                calls.only_written(written),
                format!("the line is longer than {MAX_REPLY_BYTES} bytes"),
            ));
        }
        if unanswered && self.replies > 0 {
            // A failure before the first reply shows them instead.
            self.slot.log_lines(&self.logged.startup, "the program wrote this when it started");
        }
        self.deliver();
        if let Some((offender, problem)) = wrong {
            self.distrust_output(offender, problem);
        }
    }

    /// Delivers what can be delivered without waiting.
    fn deliver(&mut self) {
        let delivered = self.deliveries.deliver();
        if !delivered.calls.is_empty() {
            // The room is free before a caller can learn of it.
            self.slot.calls_ended(
                delivered.calls.iter().map(|(call, _)| call.id.as_str()),
                delivered.any_valid,
            );
            delivered.calls.into_iter().for_each(|(call, completion)| call.complete(completion));
        }
    }

    /// Delivers everything, and waits for slow receivers.
    async fn deliver_all(&mut self) {
        while !self.deliveries.is_empty() {
            self.deliveries.room().await;
            self.deliver();
        }
    }

    /// Output after an invalid line cannot be trusted. The first cause of the end is kept.
    fn distrust_output(&mut self, offender: Option<CallTicket>, problem: String) {
        self.distrusted = true;
        if matches!(self.phase, Phase::Serving | Phase::Closing(_)) {
            self.terminate();
        }
        if matches!(self.cause, ExitCause::Exited | ExitCause::Retired) {
            self.cause = ExitCause::InvalidOutput(offender, problem);
        }
    }

    /// The next deadline.
    fn alarm(&self) -> Option<Instant> {
        match self.phase {
            Phase::Serving => self.calls.next_deadline().map(|(at, _)| at),
            Phase::Closing(at) | Phase::Terminated(at) | Phase::Killed(at) => Some(at),
            Phase::Gone => None,
        }
    }

    /// Acts on the deadline. Returns whether the session must end although the program has not exited.
    fn on_alarm(&mut self) -> bool {
        match self.phase {
            Phase::Serving => {
                if let Some((_, ticket)) = self.calls.next_deadline() {
                    self.cause = ExitCause::TimedOut(ticket);
                    self.terminate();
                }
            }
            Phase::Closing(_) => {
                if matches!(self.cause, ExitCause::Exited) {
                    self.cause = ExitCause::ClosedPipes;
                }
                self.terminate();
            }
            Phase::Terminated(_) => self.kill(),
            Phase::Killed(_) | Phase::Gone => return true,
        }
        false
    }

    fn terminate(&mut self) {
        self.refuse_calls();
        self.group.signal(Signal::TERM);
        self.phase = Phase::Terminated(monotonic() + self.grace);
    }

    fn kill(&mut self) {
        if !matches!(self.phase, Phase::Killed(_) | Phase::Gone) {
            self.group.signal(Signal::KILL);
            self.phase = Phase::Killed(monotonic() + KILL_LIMIT);
        }
    }

    /// Calls that were not written yet go to another program.
    fn refuse_calls(&mut self) {
        self.outbox.clear();
        self.slot.leaving();
    }

    fn is_serving(&self) -> bool {
        matches!(self.phase, Phase::Serving)
    }

    /// Frees the slot and completes the calls that are left.
    fn conclude(mut self) {
        let end = SessionEnd {
            read: self.read_bytes(),
            status: self.group.end().ok().flatten(),
            cause: self.cause,
            replies: self.replies,
            stderr: self.logged,
        };
        let calls = self.calls.take_all();
        let failure = end.failure(&calls);
        self.slot.log_lines(&end.stderr.process, "the program wrote this for no call");
        // The slot is free before a caller can learn of it.
        self.slot.release(failure);
        end.complete(calls);
    }
}
