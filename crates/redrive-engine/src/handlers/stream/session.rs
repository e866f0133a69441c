//! A program that runs, and the calls it has: feeding, hearing, timing, ending.
//!
//! One task does all of it for one program, so that nothing has to be locked. Calls that come while
//! others are written go out together.

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
    waits::{at, read, write},
};
use crate::handlers::{
    program::{
        DRAIN_LIMIT, KILL_LIMIT, Pipes, ProcessGroup,
        output::{CHUNK_BYTES, Tail},
        report::printable,
    },
    reply::{MAX_REPLY_BYTES, excerpt},
};
use redrive_retry::monotonic;

/// Calls taken up at a time.
const BATCH: usize = 256;

/// What a program's task is told.
#[derive(Debug)]
pub(super) enum ProgramCommand {
    /// A call to hand to the program.
    Call(CallRequest),
    /// A call that is no longer wanted.
    Stop(CallTicket),
    /// A call that must not go on.
    Drop(CallTicket),
    /// No more calls: finish what there is and go.
    Finish,
}

/// How far a program is on its way out, and when the next step is.
enum Phase {
    Serving,
    /// Its input is closed.
    Closing(Instant),
    /// It was sent TERM.
    Terminated(Instant),
    Killed(Instant),
    Gone,
}

/// A program that runs.
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
    /// What was heard and not told yet. Until it is, nothing more is read.
    deliveries: Deliveries,
    tail: Tail,
    /// Replies as they should be.
    replies: u64,
    phase: Phase,
    why: ExitCause,
    /// Whether nothing that it prints is believed any more.
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
            tail: Tail::default(),
            replies: 0,
            phase: Phase::Serving,
            why: ExitCause::Exited,
            distrusted: false,
        }
    }

    /// Hands calls to the program until it is gone.
    pub(super) async fn run(mut self, mut commands: mpsc::UnboundedReceiver<ProgramCommand>) {
        self.run_program(&mut commands).await;
        // Whoever asks from now on asks another.
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

    /// Until the program has exited, or does not even after KILL.
    async fn run_program(&mut self, commands: &mut mpsc::UnboundedReceiver<ProgramCommand>) {
        let (mut batch, mut listening) = (Vec::with_capacity(BATCH), true);
        let (mut out, mut err) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
        loop {
            let alarm = self.alarm();
            // In this order, so that no flood keeps an alarm from being heard.
            tokio::select! {
                biased;
                () = self.group.exited() => return,
                () = at(alarm) => if self.on_alarm() { return },
                count = commands.recv_many(&mut batch, BATCH), if listening => {
                    listening = count > 0;
                    batch.drain(..).for_each(|command| self.handle_command(command));
                }
                sent = write(&mut self.stdin, self.outbox.unsent()) => self.sent(sent),
                () = self.deliveries.room() => self.tell(),
                length = read(&mut self.stdout, &mut out), if self.deliveries.is_empty() => match length {
                    0 => self.stdout_closed(),
                    length => self.received(out.get(..length).unwrap_or_default()),
                },
                length = read(&mut self.stderr, &mut err) => match length {
                    0 => self.stderr = None,
                    length => self.tail.push(err.get(..length).unwrap_or_default()),
                },
            }
        }
    }

    /// What the program printed before it exited, and what its children still print. Only the reading
    /// has a limit: who takes rows may be slow, and keeps a limit of its own.
    async fn drain_output(&mut self) {
        let (mut out, mut err) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
        let mut left = DRAIN_LIMIT;
        while self.stdout.is_some() || self.stderr.is_some() {
            self.deliver_all().await;
            let begun = monotonic();
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
                Ok((length, false)) => self.tail.push(err.get(..length).unwrap_or_default()),
            }
            left = left.saturating_sub(begun.elapsed());
        }
    }

    fn handle_command(&mut self, command: ProgramCommand) {
        match command {
            ProgramCommand::Call(request) if self.is_serving() => {
                let line = self.calls.add(request, self.outbox.end(), monotonic());
                self.outbox.push(&line);
            }
            ProgramCommand::Call(CallRequest { reply_to, permit, .. }) => {
                // Whoever went away does not want to know.
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
                // The end of its input tells a program to finish what it has and exit.
                self.stdin = None;
                self.why = ExitCause::Retired;
                self.expect_exit();
            }
            ProgramCommand::Finish => {}
        }
    }

    /// A call that is not wanted any more ends its program if it has that for itself. Otherwise its
    /// neighbours go on, and its reply will be ignored.
    fn stop(&mut self, ticket: CallTicket) {
        if !self.calls.stop(ticket) {
            return;
        }
        match (self.in_flight, self.is_serving()) {
            (1, true) => {
                self.why = ExitCause::Stopped;
                self.terminate();
            }
            (1, false) => {}
            _ => self.calls.abandon(ticket),
        }
    }

    /// Notes what was written. A program that closed its input gets nothing more.
    fn sent(&mut self, sent: io::Result<usize>) {
        match sent {
            Ok(length) => self.outbox.sent(length),
            Err(_) => self.expect_exit(),
        }
    }

    /// The program closed its output: no reply can come any more.
    fn stdout_closed(&mut self) {
        self.stdout = None;
        self.expect_exit();
    }

    /// A program that closes a pipe is about to exit. Its input stays as it is: how much of it was
    /// read will be seen then.
    fn expect_exit(&mut self) {
        if self.is_serving() {
            self.refuse_calls();
            self.phase = Phase::Closing(monotonic() + self.grace);
        }
    }

    fn received(&mut self, chunk: &[u8]) {
        if self.distrusted {
            return;
        }
        let Self { lines, calls, in_flight, outbox, replies, why, deliveries, .. } = self;
        let (in_flight, written, offender) = (*in_flight, outbox.written(), why.offender());
        let mut wrong = None;
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
                Ok(answer) if calls.have_rows() && RowLine::is_in(line) => {
                    (answer.id, format!("a row ends no call: {}", excerpt(line)))
                }
                Ok(answer) => {
                    let ticket = calls.addressed(answer.id.as_deref(), in_flight, written);
                    if ticket.is_some() && ticket == offender {
                        // Too late: its time is over.
                        return true;
                    }
                    if let Some(call) = ticket.and_then(|ticket| calls.remove(ticket)) {
                        let well = answer.reply.is_ok();
                        *replies += u64::from(well);
                        let outcome = answered(call.kind, answer.reply, call.stopped);
                        deliveries.add_end(call, CallCompletion::Done(outcome), well);
                        return true;
                    }
                    let names_none = answer.id.is_none() && in_flight > 1;
                    let problem =
                        if names_none { "it has no id" } else { "it answers no call there is" };
                    (None, format!("{problem}: {}", excerpt(line)))
                }
                Err(invalid) => (invalid.id, invalid.why),
            };
            let named = id.and_then(|id| calls.addressed(Some(&id), in_flight, written));
            wrong = Some((named.or_else(|| calls.only_written(written)), problem));
            false
        });
        if pushed.is_err() {
            wrong = Some((
                calls.only_written(written),
                format!("it is longer than {MAX_REPLY_BYTES} bytes"),
            ));
        }
        self.tell();
        if let Some((offender, problem)) = wrong {
            self.distrust_output(offender, problem);
        }
    }

    /// Tells what can be told now.
    fn tell(&mut self) {
        let delivered = self.deliveries.tell();
        if !delivered.ended.is_empty() {
            // The place is free before anybody can be told so.
            self.slot
                .left(delivered.ended.iter().map(|(call, _)| call.id.as_str()), delivered.well);
            delivered.ended.into_iter().for_each(|(call, outcome)| call.end(outcome));
        }
    }

    /// Tells everything, however long that takes.
    async fn deliver_all(&mut self) {
        while !self.deliveries.is_empty() {
            self.deliveries.room().await;
            self.tell();
        }
    }

    /// What comes after a line that is no reply cannot be trusted. Whose fault it is stays with
    /// whoever was the first.
    fn distrust_output(&mut self, offender: Option<CallTicket>, problem: String) {
        self.distrusted = true;
        if matches!(self.phase, Phase::Serving | Phase::Closing(_)) {
            self.terminate();
        }
        if matches!(self.why, ExitCause::Exited | ExitCause::Retired) {
            self.why = ExitCause::InvalidOutput(offender, problem);
        }
    }

    /// When something is to be done unasked.
    fn alarm(&self) -> Option<Instant> {
        match self.phase {
            Phase::Serving => self.calls.next_deadline().map(|(at, _)| at),
            Phase::Closing(at) | Phase::Terminated(at) | Phase::Killed(at) => Some(at),
            Phase::Gone => None,
        }
    }

    /// Does it; says whether nothing more can be done.
    fn on_alarm(&mut self) -> bool {
        match self.phase {
            Phase::Serving => {
                if let Some((_, ticket)) = self.calls.next_deadline() {
                    self.why = ExitCause::TimedOut(ticket);
                    self.terminate();
                }
            }
            Phase::Closing(_) => {
                if matches!(self.why, ExitCause::Exited) {
                    self.why = ExitCause::ClosedPipes;
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

    /// What was not written yet need not be: another program can have it.
    fn refuse_calls(&mut self) {
        self.outbox.clear();
        self.slot.leaving();
    }

    fn is_serving(&self) -> bool {
        matches!(self.phase, Phase::Serving)
    }

    /// The program is gone: leaves its place, and tells whoever still waits.
    fn conclude(mut self) {
        let unread = self.stdin.as_ref().and_then(|stdin| ioctl_fionread(stdin).ok());
        let read = self.outbox.written().saturating_sub(unread.unwrap_or_default());
        let end = SessionEnd {
            status: self.group.end().ok().flatten(),
            why: self.why,
            read,
            replies: self.replies,
            stderr: printable(&self.tail.to_bytes()),
        };
        let calls = self.calls.take_all();
        // The place is free before anybody can be told so.
        self.slot.release(end.failure(&calls));
        end.tell(calls);
    }
}
