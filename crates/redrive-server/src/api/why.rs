//! `/v1/why`.

use axum::Json as Answer;
use redrive_core::Unit;
use redrive_ops::{ExplainTarget, Explanation};
use serde::Deserialize;

use crate::{app::AppState, extract::QueryParams, problem::ProblemDetails};

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub(crate) struct WhyQuery {
    /// `run:ID`, `item:ID`, `sample:ID` or `partition:SOURCE/CUSTOMER/QUERY/DATE`.
    unit: String,
}

/// Explains a unit: its record, each attempt, the rule behind each decision in words, and what happens next.
#[cfg_attr(test, utoipa::path(get, path = "/v1/why", tag = "why", params(WhyQuery),
    responses((status = 200, body = Explanation), (status = 400, body = ProblemDetails), (status = 404, body = ProblemDetails))))]
pub(crate) async fn why(
    app: AppState,
    QueryParams(WhyQuery { unit }): QueryParams<WhyQuery>,
) -> Result<Answer<Explanation>, ProblemDetails> {
    let target = ExplainTarget::parse(&unit).map_err(|problem| {
        ProblemDetails::bad_request(format!("unit: {problem}"))
            .allowed("run:ID, item:ID, sample:ID, partition:SOURCE/CUSTOMER/QUERY/DATE")
    })?;
    let explanation = app.ops.explain(&target).await?;
    let dropped = match (&explanation, &target) {
        (None, ExplainTarget::Unit(Unit::Item(id))) => app.ops.drop_of(*id).await?,
        _ => None,
    };
    let unknown = || dropped.unwrap_or_else(|| format!("there is no {unit}"));
    explanation.map(Answer).ok_or_else(|| ProblemDetails::not_found(unknown()))
}
