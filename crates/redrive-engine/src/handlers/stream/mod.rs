//! Programs that stay running and take one call per line (HANDLERS-3).
//!
//! A program loads a model or opens a connection once and serves many calls. Calls that share a program
//! also share its failures: a program that hangs, dies or prints an invalid line is terminated, and its calls
//! fail. Calls that the program had not read yet go to another program.
//!
//! [`pool`] assigns a call to a program, or decides when a program may be started again
//! ([`restart_backoff`]). [`session`] runs one program from start to end, with its [`call_table`] and the
//! [`outbox`] of lines to write. [`line_splitter`] and [`reply_line`] parse its output, [`stderr_lines`] assigns
//! what it logs to its calls, [`deliveries`] passes on rows and completions in order, and [`conclusion`] completes
//! the calls when the program ends. [`extraction`] writes the rows of extractors.

mod spec;

mod pool;
mod restart_backoff;

mod call_table;
mod deliveries;
mod outbox;
mod session;
mod waits;

mod line_splitter;
mod reply_line;
mod stderr_lines;

mod conclusion;
mod extraction;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

pub use self::spec::StreamSpec;
use self::{
    call_table::{CallCompletion, CallRequest, CallTicket},
    extraction::RowIntake,
    pool::{Assignment, ProgramPool, SlotGuard},
    session::{ProgramCommand, ProgramSession},
};
use crate::{
    Call, Handler, InvalidProgram, Outcome, RowWriter, Stop,
    handlers::program::{ProcessGroup, ProgramLauncher},
};

/// Tells a program how many calls it may have at once.
const IN_FLIGHT: &str = "REDRIVE_IN_FLIGHT";

/// Passes calls to programs that stay running. Needs a tokio runtime with I/O and time enabled.
///
/// Programs are started on demand, up to `processes`. The time limit of a call starts when a program has
/// the call; the wait for a program that may not be restarted yet does not count. With `in_flight` 1, a
/// stopped call terminates its program; otherwise the reply to a stopped call is ignored. Dropping a call has
/// the same effect, without grace. Dropping the handler kills every program; [`Handler::release`] lets them
/// finish.
pub struct StreamHandler {
    program: ProgramLauncher,
    grace: Duration,
    in_flight: usize,
    capacity: usize,
    pool: Arc<ProgramPool>,
    /// One permit per call that the programs can hold, given out in order of arrival.
    permits: Arc<Semaphore>,
    tickets: AtomicU64,
}

impl StreamHandler {
    /// Checks a specification. Environment variables are read here, once. No program is started yet.
    pub fn new(spec: StreamSpec) -> Result<Self, InvalidProgram> {
        let StreamSpec { argv, folder, env, grace, processes, in_flight } = spec;
        for (count, name) in [(processes, "processes"), (in_flight, "in-flight")] {
            if count == 0 {
                return Err(InvalidProgram::Zero(name));
            }
        }
        let program = ProgramLauncher::new(argv, &folder, &env)?;
        let capacity = processes.saturating_mul(in_flight).min(Semaphore::MAX_PERMITS);
        let pool = Arc::new(ProgramPool::new(program.name(), processes, in_flight));
        let permits = Arc::new(Semaphore::new(capacity));
        let tickets = AtomicU64::new(0);
        Ok(Self { program, grace, in_flight, capacity, pool, permits, tickets })
    }

    /// Starts a program in a slot, for its first call.
    fn start(&self, at: usize, id: &str) -> Result<mpsc::UnboundedSender<ProgramCommand>, Outcome> {
        let mut command = self.program.command();
        command.env(IN_FLIGHT, self.in_flight.to_string());
        let started = ProcessGroup::start(command).map_err(|error| {
            let failure = self.program.start_failure(&error);
            self.pool.slot_emptied(at, Some(failure.message().as_str()));
            Outcome::Failed(failure)
        })?;
        tracing::debug!(program = self.program.name(), place = at, "started");
        let (calls, commands) = mpsc::unbounded_channel();
        let slot = SlotGuard::new(self.pool.clone(), at);
        let session = ProgramSession::new(slot, started, self.in_flight, self.grace);
        self.pool
            .started(at, calls.clone(), id, || tokio::spawn(session.run(commands)).abort_handle());
        Ok(calls)
    }

    /// Passes a call to a program and waits for its completion.
    async fn send_call(
        &self,
        call: &Call,
        rows: Option<&RowWriter>,
        time_limit: Duration,
        permit: OwnedSemaphorePermit,
        stop: &mut Stop,
    ) -> CallCompletion {
        let id = call.id();
        let assigned = tokio::select! {
            biased;
            () = stop.stopped() => return CallCompletion::Done(Outcome::Stopped),
            assigned = self.pool.assign(&id) => assigned,
        };
        let program = match assigned {
            Assignment::Running(program) => program,
            Assignment::Start(at) => match self.start(at, &id) {
                Ok(program) => program,
                Err(outcome) => return CallCompletion::Done(outcome),
            },
        };
        let ticket = CallTicket(self.tickets.fetch_add(1, Ordering::Relaxed));
        let (reply_to, answer) = oneshot::channel();
        let (rows, intake) = RowIntake::new(rows).unzip();
        let (kind, line) = (call.kind(), call.to_line());
        let log = call.log.clone();
        log.keep_secret(&self.program.secrets);
        let request =
            CallRequest { ticket, id, kind, line, time_limit, reply_to, rows, log, permit };
        if let Err(mpsc::error::SendError(ProgramCommand::Call(request))) =
            program.send(ProgramCommand::Call(request))
        {
            return CallCompletion::Unread(request.permit);
        }
        let mut waiting = CancelOnDrop { program: &program, ticket: Some(ticket) };
        // The session of a program that has ended has completed the call already.
        let stopping = || _ = program.send(ProgramCommand::Stop(ticket));
        let answer = match intake {
            Some(intake) => intake.take(answer, time_limit, stop, stopping).await,
            None => completion(answer, stop, stopping).await,
        };
        waiting.ticket = None;
        answer
    }

    async fn handle_with(
        &self,
        call: &Call,
        rows: Option<&RowWriter>,
        time_limit: Duration,
        mut stop: Stop,
    ) -> Outcome {
        let mut permit = tokio::select! {
            biased;
            () = stop.stopped() => return Outcome::Stopped,
            permit = self.permits.clone().acquire_owned() => match permit {
                Ok(permit) => permit,
                // The semaphore is never closed.
                Err(_) => return Outcome::Stopped,
            },
        };
        loop {
            match self.send_call(call, rows, time_limit, permit, &mut stop).await {
                CallCompletion::Done(outcome) => return self.program.with_hint(outcome),
                CallCompletion::Reset(_) if stop.is_stopped() => return Outcome::Stopped,
                CallCompletion::Reset(failure) => return Outcome::Failed(failure),
                CallCompletion::Unread(again) => permit = again,
            }
        }
    }
}

/// Waits for the completion of a call. A stop is passed on once; the program may still reply.
async fn completion(
    mut answer: oneshot::Receiver<CallCompletion>,
    stop: &mut Stop,
    stopping: impl FnOnce(),
) -> CallCompletion {
    let answer = tokio::select! {
        biased;
        answer = &mut answer => answer,
        () = stop.stopped() => {
            stopping();
            answer.await
        }
    };
    // The sender is dropped only when the handler is.
    answer.unwrap_or(CallCompletion::Done(Outcome::Stopped))
}

#[async_trait]
impl Handler for StreamHandler {
    async fn handle(&self, call: &Call, time_limit: Duration, stop: Stop) -> Outcome {
        self.handle_with(call, None, time_limit, stop).await
    }

    fn capacity(&self) -> Option<usize> {
        Some(self.capacity)
    }

    fn restarts(&self) -> u64 {
        self.pool.restarts()
    }

    async fn release(&self) {
        self.pool.empty().await;
    }
}

impl Drop for StreamHandler {
    fn drop(&mut self) {
        self.pool.abort();
    }
}

/// Cancels a call whose future is dropped before its completion.
struct CancelOnDrop<'a> {
    program: &'a mpsc::UnboundedSender<ProgramCommand>,
    ticket: Option<CallTicket>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            // A program that has ended has no calls.
            _ = self.program.send(ProgramCommand::Drop(ticket));
        }
    }
}
