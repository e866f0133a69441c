//! Programs that stay running, one call per line (HANDLERS-3).
//!
//! A model or a connection is loaded once and serves many calls. The price is that calls share a
//! program, and so a program's troubles: one that hangs, dies or prints what is no reply is ended,
//! and fails the calls it has. What it had not read yet goes to another program, unharmed.
//!
//! The way of a call: [`pool`] finds the program that gets it or says when one may be started
//! ([`restart`]); [`conversation`] is one program from start to end, with its [`calls`] and the
//! [`outbox`] they go through; [`lines`] and [`answer`] read what it prints; [`conclusion`] says what
//! becomes of each call. An extractor's rows go to [`extraction`] as they come.

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

/// Hands calls to programs that stay running. It needs a runtime with I/O and time enabled.
///
/// Programs are started when calls need them, up to `processes`. A call's time limit begins when a
/// program has it; waiting for a program that may not be started again yet does not count. A call
/// told to stop ends its program if it is the only one that this may have; otherwise its reply is
/// ignored. A call that is dropped does the same, but without grace. Dropping the handler kills every program; [`Handler::release`] lets them finish.
pub struct StreamHandler {
    program: ProgramLauncher,
    grace: Duration,
    in_flight: usize,
    capacity: usize,
    pool: Arc<ProgramPool>,
    /// First come, first served: as many calls as the programs have room for.
    room: Arc<Semaphore>,
    tickets: AtomicU64,
}

impl StreamHandler {
    /// Checks a specification. The environment is read here, once; nothing is started.
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
        let room = Arc::new(Semaphore::new(capacity));
        let tickets = AtomicU64::new(0);
        Ok(Self { program, grace, in_flight, capacity, pool, room, tickets })
    }

    /// Starts a program at a place, with its first call.
    fn start(&self, at: usize, id: &str) -> Result<mpsc::UnboundedSender<ProgramCommand>, Outcome> {
        let started = ProcessGroup::start(self.program.command()).map_err(|error| {
            let failure = self.program.cannot_start(&error);
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

    /// Hands a call to a program and waits for what becomes of it.
    async fn ask(
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
        let request = CallRequest { ticket, id, kind, line, time_limit, reply_to, rows, permit };
        if let Err(mpsc::error::SendError(ProgramCommand::Call(request))) =
            program.send(ProgramCommand::Call(request))
        {
            return CallCompletion::Unread(request.permit);
        }
        let mut waiting = CancelOnDrop { program: &program, ticket: Some(ticket) };
        // A program that is gone has told already.
        let stopping = || _ = program.send(ProgramCommand::Stop(ticket));
        let answer = match intake {
            Some(intake) => intake.take(answer, time_limit, stop, stopping).await,
            None => received(answer, stop, stopping).await,
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
            permit = self.room.clone().acquire_owned() => match permit {
                Ok(permit) => permit,
                // It is never closed.
                Err(_) => return Outcome::Stopped,
            },
        };
        loop {
            match self.ask(call, rows, time_limit, permit, &mut stop).await {
                CallCompletion::Done(outcome) => return outcome,
                CallCompletion::Reset(_) if stop.is_stopped() => return Outcome::Stopped,
                CallCompletion::Reset(failure) => return Outcome::Failed(failure),
                CallCompletion::Unread(again) => permit = again,
            }
        }
    }
}

/// Waits for an answer. Told to stop, it says so and goes on waiting: a program may still answer.
async fn received(
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
    // Without an answer its program was dropped, with all of this.
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

    async fn release(&self) {
        self.pool.empty().await;
    }
}

impl Drop for StreamHandler {
    fn drop(&mut self) {
        self.pool.abort();
    }
}

/// Tells a program that a call is dropped, unless it is over.
struct CancelOnDrop<'a> {
    program: &'a mpsc::UnboundedSender<ProgramCommand>,
    ticket: Option<CallTicket>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            // A program that is gone has no call any more.
            _ = self.program.send(ProgramCommand::Drop(ticket));
        }
    }
}
