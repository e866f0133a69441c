//! Extracts rows over HTTP, page by page.
//!
//! The first request has a null cursor, every further request the cursor that the page before named. A
//! server that repeats a cursor or never stops would keep the extractor busy forever, so both fail.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use redrive_core::Failure;
use serde_json::{Value, value::RawValue};
use tokio::time::{Sleep, sleep};

use super::{
    HttpHandler, HttpSpec, InvalidHttp,
    conclusion::{bad_reply, excerpt, success_text},
    raw_json::{add_line, items, part},
};
use crate::{Call, Clock, Extractor, JsonPointer, Outcome, RowWriter, Stop};

/// The most pages of one partition.
pub const MAX_PAGES: u32 = 100_000;

/// How many bytes of rows are buffered before they are written.
const CHUNK_BYTES: usize = 64 * 1024;

/// Where a response has its rows and the next cursor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Paging {
    /// The list of rows; by default the whole response.
    pub rows: JsonPointer,
    /// The cursor of the next page. Absent, null, false or empty means that this page is the last one.
    /// Without this pointer there is one page.
    pub next: Option<JsonPointer>,
}

/// Extracts partitions with HTTP requests.
///
/// The call has one more field, `cursor`, which the templates of the body and the query can use. The time
/// limit covers all pages together. Every page has its own `idempotency-key`.
#[derive(Debug)]
pub struct HttpExtractor {
    handler: HttpHandler,
    paging: Paging,
}

/// Why an extraction ended before its last page.
enum PagingEnd {
    Failed(Failure),
    Ended(Outcome),
}

impl HttpExtractor {
    /// Checks a specification. Environment variables are read here, once.
    pub fn new(spec: HttpSpec, paging: Paging) -> Result<Self, InvalidHttp> {
        Ok(Self { handler: HttpHandler::new(spec)?, paging })
    }

    /// Sets the clock, for tests.
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { handler: self.handler.with_clock(clock), ..self }
    }

    /// Writes the rows of one page and returns the next cursor.
    async fn page(
        &self,
        call: &Value,
        key: &str,
        rows: &RowWriter,
        (time_limit, deadline): (Duration, Pin<&mut Sleep>),
        stop: &mut Stop,
    ) -> Result<Option<Value>, PagingEnd> {
        let request = || self.handler.request(call, key);
        let sent = self.handler.send(request, deadline, stop).await;
        let mut exchange = sent.map_err(|error| PagingEnd::Ended(error.outcome(time_limit)))?;
        let answer = self.handler.answer(&mut exchange);
        let conventions = &self.handler.spec.conventions;
        let text = success_text(answer, conventions, time_limit, self.handler.clock.now())?;
        if let Err(error) = serde_json::from_str::<&RawValue>(&text) {
            let what = format!("the response is not JSON ({error}): {}", excerpt(&text));
            return Err(bad_reply(&what).into());
        }
        let found = part(&text, &self.paging.rows).and_then(items).ok_or_else(|| {
            let pointer = &self.paging.rows;
            bad_reply(&format!("the response has no list at {pointer:?}: {}", excerpt(&text)))
        })?;
        let mut lines = Vec::new();
        for row in found {
            add_line(row, &mut lines);
            if lines.len() >= CHUNK_BYTES {
                rows.write(&lines).await?;
                lines.clear();
            }
        }
        rows.write(&lines).await?;
        Ok(self.next(&text)?)
    }

    fn next(&self, text: &str) -> Result<Option<Value>, Failure> {
        let Some(pointer) = &self.paging.next else { return Ok(None) };
        let named = part(text, pointer).and_then(|next| serde_json::from_str(next.get()).ok());
        match named {
            None | Some(Value::Null | Value::Bool(false)) => Ok(None),
            Some(Value::String(empty)) if empty.is_empty() => Ok(None),
            Some(cursor @ (Value::String(_) | Value::Number(_))) => Ok(Some(cursor)),
            Some(other) => {
                let other = excerpt(&other.to_string());
                Err(bad_reply(&format!(
                    "{pointer} of the response is neither a string nor a number: {other}"
                )))
            }
        }
    }

    async fn pages(
        &self,
        call: &Call,
        rows: &RowWriter,
        time_limit: Duration,
        mut stop: Stop,
    ) -> Result<(), PagingEnd> {
        let mut deadline = pin!(sleep(time_limit));
        let mut with_cursor = call.to_json();
        // Different for every run and page, so that a server which caches responses by key has none yet.
        let run = call.run_id.as_deref().unwrap_or_default();
        let mut cursor = Value::Null;
        for number in 1..=MAX_PAGES {
            if let Value::Object(fields) = &mut with_cursor {
                fields.insert("cursor".to_owned(), cursor.clone());
            }
            let key = format!("{run}#{number}");
            let limit = (time_limit, deadline.as_mut());
            let next = self.page(&with_cursor, &key, rows, limit, &mut stop).await?;
            match next {
                None => return Ok(()),
                Some(next) if next == cursor => {
                    return Err(
                        bad_reply(&format!("the response names the cursor {next} again")).into()
                    );
                }
                Some(next) => cursor = next,
            }
        }
        Err(bad_reply(&format!("there are more than {MAX_PAGES} pages")).into())
    }
}

impl From<Failure> for PagingEnd {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

#[async_trait]
impl Extractor for HttpExtractor {
    async fn extract(
        &self,
        call: &Call,
        rows: &RowWriter,
        time_limit: Duration,
        stop: Stop,
    ) -> Outcome {
        if stop.is_stopped() {
            return Outcome::Stopped;
        }
        match self.pages(call, rows, time_limit, stop).await {
            Ok(()) => Outcome::Answered { value: None, verdict: None },
            Err(PagingEnd::Failed(failure)) => Outcome::Failed(failure),
            Err(PagingEnd::Ended(outcome)) => outcome,
        }
    }
}
