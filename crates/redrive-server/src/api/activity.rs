//! `/v1/activity`.

use axum::Json as Answer;
use redrive_ops::views::{ActivityPlace, ActivityRange, ActivityView};
use serde::Deserialize;

use crate::{app::AppState, extract::QueryParams, problem::ProblemDetails};

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub(crate) struct ActivityQuery {
    /// `1h`, `24h`, `7d` or `30d`; default: `1h`.
    pub(crate) range: Option<String>,
    /// Only this place: `queue:NAME`, `source:NAME`, `upload:NAME`, `pipeline:NAME` or `stage:PIPELINE/NAME`.
    pub(crate) place: Option<String>,
}

impl ActivityQuery {
    pub(crate) fn range(&self) -> Result<ActivityRange, ProblemDetails> {
        let Some(name) = given(self.range.as_deref()) else { return Ok(ActivityRange::default()) };
        ActivityRange::from_name(name).ok_or_else(|| {
            let what = format!("range: {name:?} is no range");
            ProblemDetails::bad_request(what).allowed(ActivityRange::NAMES)
        })
    }

    pub(crate) fn place(&self) -> Result<Option<ActivityPlace>, ProblemDetails> {
        let Some(place) = given(self.place.as_deref()) else { return Ok(None) };
        ActivityPlace::parse(place).map(Some).ok_or_else(|| {
            ProblemDetails::bad_request(format!("place: {place:?} is no place"))
                .allowed("queue:NAME, source:NAME, upload:NAME, pipeline:NAME, stage:PIPELINE/NAME")
        })
    }
}

fn given(value: Option<&str>) -> Option<&str> {
    value.filter(|value| !value.is_empty())
}

/// Returns how many attempts succeeded and failed over a range of time.
#[cfg_attr(test, utoipa::path(get, path = "/v1/activity", tag = "activity", params(ActivityQuery),
    responses((status = 200, body = ActivityView), (status = 400, body = ProblemDetails))))]
pub(crate) async fn show(
    app: AppState,
    QueryParams(query): QueryParams<ActivityQuery>,
) -> Result<Answer<ActivityView>, ProblemDetails> {
    let (range, place) = (query.range()?, query.place()?);
    Ok(Answer(app.ops.activity(range, place.as_ref()).await?))
}
