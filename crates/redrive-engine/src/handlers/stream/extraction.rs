//! A program that stays running and prints rows: `{"row": …}` for each, then its reply.

use std::time::Duration;

use async_trait::async_trait;
use redrive_core::{Failure, HumanDuration};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{
    StreamHandler,
    call_table::{CallCompletion, RowSender},
};
use crate::{Call, Extractor, Handler, Outcome, RowWriter, Stop};

/// Batches of rows between a program and the sink. A batch is what was read at once.
const BATCHES: usize = 4;

#[async_trait]
impl Extractor for StreamHandler {
    async fn extract(
        &self,
        call: &Call,
        rows: &RowWriter,
        time_limit: Duration,
        stop: Stop,
    ) -> Outcome {
        self.handle_with(call, Some(rows), time_limit, stop).await
    }

    fn capacity(&self) -> Option<usize> {
        Handler::capacity(self)
    }

    async fn release(&self) {
        Handler::release(self).await;
    }
}

/// Takes the rows of a call.
pub(super) struct RowIntake<'a> {
    batches: mpsc::Receiver<Vec<u8>>,
    rows: &'a RowWriter,
}

impl<'a> RowIntake<'a> {
    /// One for a call that has rows, and what feeds it.
    pub(super) fn new(rows: Option<&'a RowWriter>) -> Option<(RowSender, Self)> {
        let rows = rows?;
        let (sender, batches) = mpsc::channel(BATCHES);
        Some((sender, Self { batches, rows }))
    }

    /// Writes rows until the call is over, and all of them. Rows that cannot be written, or a word to
    /// stop, make the call unwanted.
    pub(super) async fn take(
        mut self,
        mut answer: oneshot::Receiver<CallCompletion>,
        time_limit: Duration,
        stop: &mut Stop,
        mut unwanted: impl FnMut(),
    ) -> CallCompletion {
        let (mut broken, mut stopped) = (None, false);
        let ended = loop {
            tokio::select! {
                biased;
                () = stop.stopped(), if !stopped => {
                    stopped = true;
                    unwanted();
                }
                Some(lines) = self.batches.recv() => {
                    if let Err(failure) = self.rows.write(&lines).await {
                        broken = Some(failure);
                        self.batches.close();
                        unwanted();
                    }
                }
                answer = &mut answer => break answer,
            }
        };
        // The rest was said before the answer. Its program may be gone, so nobody else keeps the time.
        let rest = async {
            while broken.is_none()
                && let Some(lines) = self.batches.recv().await
            {
                broken = self.rows.write(&lines).await.err();
            }
        };
        if timeout(time_limit, rest).await.is_err() {
            let limit = HumanDuration::from(time_limit);
            let what = format!("the rows could not be written within {limit}");
            broken = Some(Failure::timeout(&what));
        }
        match (broken, ended) {
            (Some(failure), _) => CallCompletion::Done(Outcome::Failed(failure)),
            (None, Ok(ended)) => ended,
            // Without an answer its program was dropped, with all of this.
            (None, Err(_)) => CallCompletion::Done(Outcome::Stopped),
        }
    }
}
