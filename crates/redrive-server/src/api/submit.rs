//! `POST /v1/runs`.

use axum::{
    Json as Answer,
    extract::Request,
    http::{HeaderMap, HeaderName, StatusCode},
    response::{IntoResponse, Response},
};
use redrive_ops::{RunRefusal, read_run};
use redrive_store::{NewRun, SubmittedRun};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    app::AppState, extract::json_bytes, problem::ProblemDetails, problem_kind::ProblemKind,
};

const MAX_RUNS: usize = 1_000;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The outcome of submitting a run.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct SubmittedView {
    /// The id of the run; for a conflict, the id of the run that has the key.
    id: Option<i64>,
    /// `accepted`, `duplicate` or `refused`.
    outcome: &'static str,
    /// The reason for a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// The outcome of submitting an array of runs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct SubmissionView {
    /// Number of new runs.
    accepted: usize,
    /// Number of runs that were submitted before.
    duplicate: usize,
    /// Number of invalid or conflicting runs.
    refused: usize,
    /// In the order of the request.
    runs: Vec<SubmittedView>,
}

enum Bodies {
    One(Box<RawValue>),
    Many(Vec<Box<RawValue>>),
}

impl Bodies {
    fn read(bytes: &[u8]) -> Result<Self, ProblemDetails> {
        let problem = |error| ProblemDetails::bad_request(format!("the body is invalid: {error}"));
        if bytes.trim_ascii_start().starts_with(b"[") {
            return serde_json::from_slice(bytes).map(Self::Many).map_err(problem);
        }
        serde_json::from_slice(bytes).map(Self::One).map_err(problem)
    }

    fn all(&self) -> &[Box<RawValue>] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

/// Submits a run, or an array of up to 1000. A run without `idempotency_key` uses the `Idempotency-Key` header, so that a
/// repeated request is a no-op.
#[cfg_attr(test, utoipa::path(post, path = "/v1/runs", tag = "runs", request_body = super::openapi::RunSubmission,
    params(("idempotency-key" = Option<String>, Header, description = "makes a repeated request a no-op")),
    responses((status = 200, description = "an array, or a run that was submitted before",
                  body = super::openapi::SubmissionOutcome),
              (status = 201, description = "a new run", body = SubmittedView),
              (status = 400, body = ProblemDetails), (status = 409, body = ProblemDetails),
              (status = 413, body = ProblemDetails), (status = 415, body = ProblemDetails))))]
pub(crate) async fn submit(app: AppState, request: Request) -> Result<Response, ProblemDetails> {
    let key = header_key(request.headers())?;
    let bytes = json_bytes(request, &()).await?;
    let bodies = Bodies::read(&bytes)?;
    let count = bodies.all().len();
    if count > MAX_RUNS {
        return Err(ProblemDetails::bad_request(format!("the request has {count} runs"))
            .allowed(format!("up to {MAX_RUNS}")));
    }
    let now = app.ops.now();
    let read = bodies.all().iter().enumerate().map(|(index, body)| {
        let run = read_run(body.get().as_bytes(), None, app.ops.declared(), now)?;
        let key = match &bodies {
            Bodies::One(_) => key.clone(),
            Bodies::Many(_) => key.as_ref().map(|key| format!("{key}#{index}")),
        };
        Ok(with_key(run, key.as_deref())?)
    });
    let read: Vec<Result<NewRun, RunRefusal>> = read.collect();
    if let (Bodies::One(_), [Err(refusal)]) = (&bodies, read.as_slice()) {
        return Err(refusal.into());
    }
    let good: Vec<NewRun> = read.iter().filter_map(|run| run.as_ref().ok().cloned()).collect();
    let submitted = match good.as_slice() {
        [] => Vec::new(),
        good => app.ops.store().submit_runs(good, now).await?,
    };
    let mut submitted = submitted.into_iter();
    let runs = read.into_iter().map(|run| SubmittedView::new(run.map(|_| submitted.next())));
    let runs: Vec<SubmittedView> = runs.collect();
    Ok(match (bodies, runs.as_slice()) {
        (Bodies::One(_), [one]) => one.clone().into_single()?,
        _ => Answer(SubmissionView::new(runs)).into_response(),
    })
}

impl From<&RunRefusal> for ProblemDetails {
    fn from(refusal: &RunRefusal) -> Self {
        let problem = Self::bad_request(refusal.to_string());
        if refusal.is_undeclared { problem.kind(ProblemKind::UndeclaredName) } else { problem }
    }
}

fn header_key(headers: &HeaderMap) -> Result<Option<String>, ProblemDetails> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let text =
        value.to_str().map_err(|_| ProblemDetails::bad_request("Idempotency-Key is not text"))?;
    Ok(Some(text.trim_matches('"').to_owned()))
}

fn with_key(run: NewRun, key: Option<&str>) -> Result<NewRun, String> {
    match key.filter(|_| run.idempotency_key().is_none()) {
        Some(key) => run.with_idempotency_key(key).map_err(|error| error.to_string()),
        None => Ok(run),
    }
}

impl SubmittedView {
    fn new(run: Result<Option<SubmittedRun>, RunRefusal>) -> Self {
        match run {
            Ok(Some(SubmittedRun::Accepted(id))) => {
                Self { id: Some(id.0), outcome: "accepted", reason: None }
            }
            Ok(Some(SubmittedRun::Duplicate(id))) => {
                Self { id: Some(id.0), outcome: "duplicate", reason: None }
            }
            Ok(Some(SubmittedRun::Conflict(id))) => {
                let reason = format!("run {id} has the same idempotency_key and other content");
                Self { id: Some(id.0), outcome: "refused", reason: Some(reason) }
            }
            Ok(None) => {
                let reason = "the store returned no result for the run".to_owned();
                Self { id: None, outcome: "refused", reason: Some(reason) }
            }
            Err(refusal) => {
                Self { id: None, outcome: "refused", reason: Some(refusal.to_string()) }
            }
        }
    }

    /// The response to a single run.
    fn into_single(self) -> Result<Response, ProblemDetails> {
        match (&self.reason, self.id, self.outcome) {
            (Some(reason), Some(_), _) => {
                Err(ProblemDetails::new(StatusCode::CONFLICT, reason.as_str())
                    .kind(ProblemKind::KeyConflict))
            }
            (Some(reason), None, _) => Err(ProblemDetails::bad_request(reason.as_str())),
            (None, _, "accepted") => Ok((StatusCode::CREATED, Answer(self)).into_response()),
            (None, ..) => Ok(Answer(self).into_response()),
        }
    }
}

impl SubmissionView {
    fn new(runs: Vec<SubmittedView>) -> Self {
        let count = |outcome| runs.iter().filter(|run| run.outcome == outcome).count();
        Self {
            accepted: count("accepted"),
            duplicate: count("duplicate"),
            refused: count("refused"),
            runs,
        }
    }
}
