//! The journal, newest first.

use axum::{Extension, response::Response};
use maud::html;
use redrive_ops::views::JournalView;
use redrive_store::{JournalFilter, PageLimit};
use serde::Deserialize;

use super::{
    PageResult,
    layout::{DashboardPage, NavSection},
    parts::{address, filter_field, given, journal, more},
};
use crate::{app::AppState, extract::QueryParams, guard::Caller};

const ROWS: u32 = 100;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct JournalListQuery {
    unit: Option<String>,
    action: Option<String>,
    before: Option<i64>,
}

pub(super) async fn list(
    app: AppState,
    Extension(caller): Extension<Caller>,
    QueryParams(query): QueryParams<JournalListQuery>,
) -> PageResult<Response> {
    let (unit, action) = (given(query.unit.as_deref()), given(query.action.as_deref()));
    let filter = JournalFilter { unit: unit.map(str::to_owned), action: action.map(str::to_owned) };
    let before = query.before.unwrap_or(i64::MAX);
    let page = app.ops.store().newest_journal(&filter, before, ROWS).await?;
    let goes_on = PageLimit::from(ROWS).is_reached(&page);
    let last = page.last().filter(|_| goes_on).map(|row| row.id.to_string());
    let next = last.map(|last| {
        let params = [("unit", unit), ("action", action), ("before", Some(&last))];
        address("/journal", params.into_iter().filter_map(|(name, value)| Some((name, value?))))
    });
    let rows: Vec<JournalView> = page.into_iter().map(JournalView::from).collect();
    let body = html! {
        h1 { "Journal" }
        p.lead { "Actions of operators, the daemon and workers, and units that were given up. Attempts are on the page of their unit." }
        form.filters method="get" action="/journal" {
            (filter_field("unit", "Unit", unit))
            (filter_field("action", "Action", action))
            button type="submit" { "Show" }
        }
        section { (journal(&rows, true, app.ops.now())) (more(next)) }
    };
    Ok(DashboardPage::new(NavSection::Journal, "Journal", body).render(&app, &caller))
}
