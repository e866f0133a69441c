//! Items of uploads.

use axum::{Extension, Json as Answer};
use redrive_core::{ItemId, ItemStatus};
use redrive_ops::{
    ItemSelection,
    views::{ItemChangeView, ItemView},
};
use redrive_store::{ItemFilter, ItemGroup};
use serde::Deserialize;

use super::{
    bulk::{BulkOptions, BulkOutcome, MAX_UNITS, seen},
    page::{ListPage, limit, named},
};
use crate::{
    app::{App, AppState},
    extract::{Json, PathParams, QueryParams},
    guard::Caller,
    problem::ProblemDetails,
};

/// Which items.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub(crate) struct ItemQuery {
    /// Of this upload alone.
    upload: Option<String>,
    /// Of this group alone.
    group: Option<String>,
    /// With this status alone.
    status: Option<String>,
    /// At most so many, up to 10000; 100 unless given.
    limit: Option<u32>,
    /// Those alone that come after this id.
    after: Option<i64>,
}

/// Items by id.
#[cfg_attr(test, utoipa::path(get, path = "/v1/items", tag = "uploads", params(ItemQuery),
    responses((status = 200, body = ListPage<ItemView>), (status = 400, body = ProblemDetails))))]
pub(crate) async fn list(
    app: AppState,
    QueryParams(query): QueryParams<ItemQuery>,
) -> Result<Answer<ListPage<ItemView>>, ProblemDetails> {
    let limit = limit(query.limit)?;
    let names = ItemStatus::ALL.map(ItemStatus::name);
    let status = named("status", query.status.as_deref(), ItemStatus::from_name, &names)?;
    let filter = ItemFilter { upload: query.upload, group: query.group, status };
    let after = ItemId(query.after.unwrap_or(0));
    let page = app.ops.store().items_page(&filter, after, limit).await?;
    let last = page.last().map(|item| item.id.to_string());
    Ok(Answer(ListPage::new(page.into_iter().map(ItemView::from).collect(), limit, last)))
}

/// One item.
#[cfg_attr(test, utoipa::path(get, path = "/v1/items/{id}", tag = "uploads", params(("id" = i64, Path)),
    responses((status = 200, body = ItemView), (status = 404, body = ProblemDetails))))]
pub(crate) async fn show(
    app: AppState,
    PathParams(id): PathParams<i64>,
) -> Result<Answer<ItemView>, ProblemDetails> {
    let found = app.ops.store().items_by_id(&[ItemId(id)]).await?.pop();
    let found = found.ok_or_else(|| ProblemDetails::not_found(format!("there is no item {id}")))?;
    Ok(Answer(found.into()))
}

/// Which items to reset: some by id, or those of a group that were given up.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct ItemActionRequest {
    /// These.
    #[serde(default)]
    pub(crate) ids: Vec<i64>,
    /// Those of a group of this upload instead.
    pub(crate) upload: Option<String>,
    /// The group.
    pub(crate) group: Option<String>,
    /// Only say what would become of each, and how to say yes to it.
    #[serde(default)]
    pub(crate) dry_run: bool,
    /// What the dry run answered. Up to 20 items that are named one by one need none.
    pub(crate) token: Option<String>,
    /// Why, for the journal.
    pub(crate) reason: Option<String>,
}

/// Sends items back that were given up.
#[cfg_attr(test, utoipa::path(post, path = "/v1/items/reset", tag = "uploads", request_body = ItemActionRequest,
    responses((status = 200, body = BulkOutcome<ItemChangeView>), (status = 400, body = ProblemDetails),
              (status = 409, body = ProblemDetails), (status = 422, body = ProblemDetails), (status = 428, body = ProblemDetails))))]
pub(crate) async fn reset(
    app: AppState,
    Extension(caller): Extension<Caller>,
    Json(action): Json<ItemActionRequest>,
) -> Result<Answer<BulkOutcome<ItemChangeView>>, ProblemDetails> {
    reset_items(&app, &caller, action).await.map(Answer)
}

/// The same for the dashboard.
pub(crate) async fn reset_items(
    app: &App,
    caller: &Caller,
    action: ItemActionRequest,
) -> Result<BulkOutcome<ItemChangeView>, ProblemDetails> {
    let by_id = !action.ids.is_empty();
    let selection = match (action.upload, action.group) {
        (Some(upload), Some(group)) if !by_id => ItemSelection::Group(ItemGroup { upload, group }),
        (None, None) if by_id => ItemSelection::Ids(action.ids.into_iter().map(ItemId).collect()),
        _ => {
            let what = "which items is not clear; nothing was changed";
            return Err(
                ProblemDetails::bad_request(what).allowed("`ids`, or `upload` with `group`")
            );
        }
    };
    let how = BulkOptions { dry_run: action.dry_run, token: action.token, reason: action.reason };
    let ids = app.ops.select_items(&selection, MAX_UNITS + 1).await?;
    if let Some(seen) = seen("reset", app.ops.reset_items(&ids, None).await?, &how, by_id)? {
        return Ok(seen);
    }
    let by = app.operator(caller, how.reason.as_deref());
    Ok(BulkOutcome::done(app.ops.reset_items(&ids, Some(&by)).await?))
}
