//! `/v1/items`.

use axum::{Extension, Json as Answer};
use redrive_core::{ItemId, ItemStatus};
use redrive_ops::{
    ItemAction, ItemSelection,
    views::{ItemChangeView, ItemView},
};
use redrive_store::{ItemFilter, ItemGroup};
use serde::Deserialize;

use super::{
    bulk::{BulkOptions, BulkOutcome, MAX_UNITS, confirm},
    page::{ListPage, PageBuilder, named},
};
use crate::{
    app::{App, AppState},
    extract::{Json, PathParams, QueryParams},
    guard::Caller,
    problem::ProblemDetails,
};

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub(crate) struct ItemQuery {
    upload: Option<String>,
    group: Option<String>,
    /// `pending`, `uploaded`, `trusted`, `rejected` or `upload_giveup`.
    status: Option<String>,
    /// Rows of the page, 1 to 10000; default 100.
    limit: Option<u32>,
    /// The `next` of the previous page.
    after: Option<i64>,
}

/// Lists items by id.
#[cfg_attr(test, utoipa::path(get, path = "/v1/items", tag = "uploads", params(ItemQuery),
    responses((status = 200, body = ListPage<ItemView>), (status = 400, body = ProblemDetails))))]
pub(crate) async fn list(
    app: AppState,
    QueryParams(query): QueryParams<ItemQuery>,
) -> Result<Answer<ListPage<ItemView>>, ProblemDetails> {
    let names = ItemStatus::ALL.map(ItemStatus::name);
    let status = named("status", query.status.as_deref(), ItemStatus::from_name, &names)?;
    let filter = ItemFilter { upload: query.upload, group: query.group, status };
    let after = ItemId(query.after.unwrap_or(0));
    let mut page = PageBuilder::new(query.limit, after)?;
    while let Some((after, rows)) = page.next_read() {
        let found = app.ops.store().items_page(&filter, after, rows).await?;
        let has_more = found.len() >= rows as usize;
        page.add(found, has_more, |item| item.id, ItemView::from);
    }
    Ok(page.answer())
}

/// Returns an item.
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

/// Selects items by `ids`, or the given up items of a group.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct ItemActionRequest {
    #[serde(default)]
    pub(crate) ids: Vec<i64>,
    /// With `group`, instead of `ids`.
    pub(crate) upload: Option<String>,
    pub(crate) group: Option<String>,
    /// Only return the expected outcomes and the token that confirms them.
    #[serde(default)]
    pub(crate) dry_run: bool,
    /// The token of a dry run. Not needed for up to 20 `ids`.
    pub(crate) token: Option<String>,
    /// The reason, for the journal.
    pub(crate) reason: Option<String>,
}

/// Makes items pending again that were given up.
#[cfg_attr(test, utoipa::path(post, path = "/v1/items/reset", tag = "uploads", request_body = ItemActionRequest,
    responses((status = 200, body = BulkOutcome<ItemChangeView>), (status = 400, body = ProblemDetails),
              (status = 409, body = ProblemDetails), (status = 422, body = ProblemDetails), (status = 428, body = ProblemDetails))))]
pub(crate) async fn reset(
    app: AppState,
    Extension(caller): Extension<Caller>,
    Json(action): Json<ItemActionRequest>,
) -> Result<Answer<BulkOutcome<ItemChangeView>>, ProblemDetails> {
    change_items(&app, &caller, ItemAction::Reset, action).await.map(Answer)
}

/// Removes items that were not acknowledged from their group.
#[cfg_attr(test, utoipa::path(post, path = "/v1/items/drop", tag = "uploads", request_body = ItemActionRequest,
    responses((status = 200, body = BulkOutcome<ItemChangeView>), (status = 400, body = ProblemDetails),
              (status = 409, body = ProblemDetails), (status = 422, body = ProblemDetails), (status = 428, body = ProblemDetails))))]
pub(crate) async fn drop(
    app: AppState,
    Extension(caller): Extension<Caller>,
    Json(action): Json<ItemActionRequest>,
) -> Result<Answer<BulkOutcome<ItemChangeView>>, ProblemDetails> {
    change_items(&app, &caller, ItemAction::Drop, action).await.map(Answer)
}

/// Notes that the receiver vouches for acknowledged items.
#[cfg_attr(test, utoipa::path(post, path = "/v1/items/trust", tag = "uploads", request_body = ItemActionRequest,
    responses((status = 200, body = BulkOutcome<ItemChangeView>), (status = 400, body = ProblemDetails),
              (status = 409, body = ProblemDetails), (status = 422, body = ProblemDetails), (status = 428, body = ProblemDetails))))]
pub(crate) async fn trust(
    app: AppState,
    Extension(caller): Extension<Caller>,
    Json(action): Json<ItemActionRequest>,
) -> Result<Answer<BulkOutcome<ItemChangeView>>, ProblemDetails> {
    change_items(&app, &caller, ItemAction::Trust, action).await.map(Answer)
}

/// Notes that the receiver refused acknowledged items.
#[cfg_attr(test, utoipa::path(post, path = "/v1/items/refuse", tag = "uploads", request_body = ItemActionRequest,
    responses((status = 200, body = BulkOutcome<ItemChangeView>), (status = 400, body = ProblemDetails),
              (status = 409, body = ProblemDetails), (status = 422, body = ProblemDetails), (status = 428, body = ProblemDetails))))]
pub(crate) async fn refuse(
    app: AppState,
    Extension(caller): Extension<Caller>,
    Json(action): Json<ItemActionRequest>,
) -> Result<Answer<BulkOutcome<ItemChangeView>>, ProblemDetails> {
    change_items(&app, &caller, ItemAction::Refuse, action).await.map(Answer)
}

pub(crate) async fn change_items(
    app: &App,
    caller: &Caller,
    item_action: ItemAction,
    action: ItemActionRequest,
) -> Result<BulkOutcome<ItemChangeView>, ProblemDetails> {
    let by_id = !action.ids.is_empty();
    let selection = match (action.upload, action.group) {
        (Some(upload), Some(group)) if !by_id => ItemSelection::Group(ItemGroup { upload, group }),
        (None, None) if by_id => ItemSelection::Ids(action.ids.into_iter().map(ItemId).collect()),
        _ => {
            let what = "the selection is empty or ambiguous; nothing was changed";
            return Err(
                ProblemDetails::bad_request(what).allowed("either `ids`, or `upload` with `group`")
            );
        }
    };
    let options =
        BulkOptions { dry_run: action.dry_run, token: action.token, reason: action.reason };
    let ids = app.ops.select_items(&selection, MAX_UNITS + 1).await?;
    let expected = app.ops.change_items(&ids, item_action, None).await?;
    if let Some(dry_run) = confirm(item_action.name(), expected, &options, by_id)? {
        return Ok(dry_run);
    }
    let by = app.operator(caller, options.reason.as_deref());
    Ok(BulkOutcome::done(app.ops.change_items(&ids, item_action, Some(&by)).await?))
}
