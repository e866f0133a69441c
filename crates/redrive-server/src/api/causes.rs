//! `/v1/causes`.

use axum::{Extension, Json as Answer};
use redrive_ops::{parse_fingerprint, parse_past, views::CauseView};
use redrive_store::{CauseChange, CauseMark, MAX_CAUSES, UnitKind};
use serde::Deserialize;

use crate::{
    app::{App, AppState},
    extract::{Json, PathParams, QueryParams},
    guard::Caller,
    problem::ProblemDetails,
};

const DEFAULT_LIMIT: u32 = 100;

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CauseListQuery {
    /// `partition`, `run`, `item` or `sample`.
    #[cfg_attr(test, param(required = false))]
    pub(crate) kind: Option<String>,
    /// The start of the period: an instant, or how long ago, such as `2h`; by default a day ago.
    pub(crate) since: Option<String>,
    /// A text in the message or the code, in upper or lower case.
    pub(crate) search: Option<String>,
    /// The most causes, 100 if not given.
    #[cfg_attr(test, param(minimum = 1, maximum = 1000))]
    pub(crate) limit: Option<u32>,
}

/// Lists causes of failures over all kinds: the most stuck units first.
#[cfg_attr(test, utoipa::path(get, path = "/v1/causes", tag = "causes", params(CauseListQuery),
    responses((status = 200, body = Vec<CauseView>), (status = 400, body = ProblemDetails))))]
pub(crate) async fn list(
    app: AppState,
    QueryParams(query): QueryParams<CauseListQuery>,
) -> Result<Answer<Vec<CauseView>>, ProblemDetails> {
    read(&app, &query).await.map(Answer)
}

pub(crate) async fn read(
    app: &App,
    query: &CauseListQuery,
) -> Result<Vec<CauseView>, ProblemDetails> {
    let bad = |name: &str, value: &str, allowed: String| {
        ProblemDetails::bad_request(format!("{name}: invalid value {value:?}")).allowed(allowed)
    };
    let kind = query.kind.as_deref().map(|name| {
        let names = UnitKind::ALL.map(UnitKind::name).join(", ");
        UnitKind::from_name(name).ok_or_else(|| bad("kind", name, names))
    });
    let since = query
        .since
        .as_deref()
        .map(|text| parse_past(text).map_err(|allowed| bad("since", text, allowed)));
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_CAUSES).contains(&limit) {
        return Err(bad("limit", &limit.to_string(), format!("1 to {MAX_CAUSES}")));
    }
    let search = query.search.as_deref();
    Ok(app.ops.causes(kind.transpose()?, since.transpose()?, search, limit).await?)
}

/// Shows one cause.
#[cfg_attr(test, utoipa::path(get, path = "/v1/causes/{fingerprint}", tag = "causes",
    params(("fingerprint" = String, Path)),
    responses((status = 200, body = CauseView), (status = 400, body = ProblemDetails),
        (status = 404, body = ProblemDetails))))]
pub(crate) async fn show(
    app: AppState,
    PathParams(fingerprint): PathParams<String>,
) -> Result<Answer<CauseView>, ProblemDetails> {
    find(&app, &fingerprint).await.map(Answer)
}

pub(crate) async fn find(app: &App, fingerprint: &str) -> Result<CauseView, ProblemDetails> {
    let fingerprint = parse_fingerprint(fingerprint).map_err(ProblemDetails::bad_request)?;
    let unknown = || ProblemDetails::not_found(format!("there is no cause {fingerprint}"));
    app.ops.cause(&fingerprint).await?.ok_or_else(unknown)
}

/// What to write down about a cause. Fields that are not given stay; an empty text is removed.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CauseNote {
    /// `known`, `fixed` or `none`.
    pub(crate) mark: Option<String>,
    pub(crate) note: Option<String>,
    pub(crate) ticket: Option<String>,
    /// For the journal.
    pub(crate) reason: Option<String>,
}

/// Writes down what is known of a cause: a mark, a note, a ticket.
#[cfg_attr(test, utoipa::path(post, path = "/v1/causes/{fingerprint}", tag = "causes",
    params(("fingerprint" = String, Path)), request_body = CauseNote,
    responses((status = 200, body = CauseView), (status = 400, body = ProblemDetails),
        (status = 404, body = ProblemDetails))))]
pub(crate) async fn change(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(fingerprint): PathParams<String>,
    Json(body): Json<CauseNote>,
) -> Result<Answer<CauseView>, ProblemDetails> {
    change_cause(&app, &caller, &fingerprint, body).await.map(Answer)
}

pub(crate) async fn change_cause(
    app: &App,
    caller: &Caller,
    fingerprint: &str,
    note: CauseNote,
) -> Result<CauseView, ProblemDetails> {
    let cause = find(app, fingerprint).await?;
    let mark = match note.mark.as_deref() {
        None => None,
        Some("none") => Some(None),
        Some(name) => {
            let what = format!("mark: invalid value {name:?}");
            let unknown = || ProblemDetails::bad_request(what).allowed("known, fixed, none");
            Some(Some(CauseMark::from_name(name).ok_or_else(unknown)?))
        }
    };
    let by = app.operator(caller, note.reason.as_deref());
    let change = CauseChange::new(mark, note.note.as_deref(), note.ticket.as_deref())
        .map_err(|error| ProblemDetails::bad_request(error.to_string()))?;
    app.ops.change_cause(&cause.fingerprint, change, &by).await?;
    find(app, &cause.fingerprint).await
}
