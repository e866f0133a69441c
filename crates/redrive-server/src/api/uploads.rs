//! `/v1/uploads`: add items and send groups.

use axum::{
    Extension, Json as Answer,
    body::Bytes,
    extract::{FromRequest, Request},
    http::StatusCode,
};
use redrive_core::ItemId;
use redrive_engine::{ContentError, NewContent};
use redrive_ops::{AddItemError, ReplaceError, dropped_items};
use redrive_store::{AddedItem, ItemCounts, ItemGroup, ItemRecord, Operator};
use serde::{Deserialize, Serialize};

use crate::{
    app::{App, AppState},
    extract::{ItemBody, Json, PathParams, QueryParams},
    guard::Caller,
    problem::ProblemDetails,
};

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Path))]
pub(crate) struct GroupPath {
    /// A declared upload.
    upload: String,
    group: String,
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Path))]
pub(crate) struct ItemPath {
    /// A declared upload.
    upload: String,
    /// The first item creates the group.
    group: String,
    /// Unique within the group. Write `/` as `%2F`.
    name: String,
}

/// Item counts of a group.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct GroupView {
    upload: String,
    group: String,
    /// Items that are not acknowledged yet.
    pub(crate) pending: u64,
    /// Items that the receiver acknowledged.
    pub(crate) uploaded: u64,
    /// Items that the receiver vouches for.
    trusted: u64,
    /// Items that the receiver rejected permanently.
    rejected: u64,
    /// Items that were given up.
    pub(crate) upload_giveup: u64,
    /// All items.
    pub(crate) total: u64,
    /// When this server started to send the group; null when it does not, although another process may.
    pub(crate) sending_since: Option<String>,
}

/// A send that has started.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct GroupSendStarted {
    upload: String,
    group: String,
    /// Items to send.
    pub(crate) pending: u64,
    worker: String,
    began_at: String,
}

/// Returns item counts of a group.
#[cfg_attr(test, utoipa::path(get, path = "/v1/uploads/{upload}/groups/{group}", tag = "uploads", params(GroupPath),
    responses((status = 200, body = GroupView), (status = 404, body = ProblemDetails))))]
pub(crate) async fn show_group(
    app: AppState,
    PathParams(path): PathParams<GroupPath>,
) -> Result<Answer<GroupView>, ProblemDetails> {
    let GroupPath { upload, group } = path;
    group_view(&app, ItemGroup { upload, group }).await.map(Answer)
}

pub(crate) async fn group_view(app: &App, group: ItemGroup) -> Result<GroupView, ProblemDetails> {
    let counts = counts_of(app, &group).await?;
    let ItemCounts { pending, uploaded, trusted, rejected, upload_giveup } = counts;
    let sending_since = app.group_sends.since(&group).map(|since| since.to_string());
    let (ItemGroup { upload, group }, total) = (group, counts.total());
    Ok(GroupView {
        upload,
        group,
        pending,
        uploaded,
        trusted,
        rejected,
        upload_giveup,
        total,
        sending_since,
    })
}

async fn counts_of(app: &App, group: &ItemGroup) -> Result<ItemCounts, ProblemDetails> {
    let counts = app.ops.store().item_counts(group).await?;
    if counts.total() == 0 && dropped_items(&**app.ops.store(), group).await? == 0 {
        let ItemGroup { upload, group } = group;
        let what = format!("upload {upload:?} has no group {group:?}");
        return Err(ProblemDetails::not_found(what));
    }
    Ok(counts)
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub(crate) struct AddQuery {
    /// Give an item of this name the new content, unless it was acknowledged.
    #[serde(default)]
    replace: bool,
}

/// Adds an item to a group of a declared upload. The body is the content. Adding the same content again is a no-op.
#[cfg_attr(test, utoipa::path(put, path = "/v1/uploads/{upload}/groups/{group}/items/{name}", tag = "uploads",
    params(ItemPath, AddQuery),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, description = "the item exists with the same content", body = ItemRecord),
              (status = 201, description = "the item was added", body = ItemRecord),
              (status = 400, body = ProblemDetails), (status = 404, body = ProblemDetails),
              (status = 408, body = ProblemDetails),
              (status = 409, description = "an item with this name has other content, or cannot be replaced", body = ProblemDetails),
              (status = 413, body = ProblemDetails))))]
pub(crate) async fn add(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(path): PathParams<ItemPath>,
    QueryParams(query): QueryParams<AddQuery>,
    request: Request,
) -> Result<(StatusCode, Answer<ItemRecord>), ProblemDetails> {
    let ItemPath { upload, group, name } = path;
    if !app.group_sends.is_declared(&upload) {
        return Err(app.group_sends.undeclared(&upload));
    }
    let group = ItemGroup { upload, group };
    group.check_name(&name).map_err(|error| ProblemDetails::bad_request(error.to_string()))?;
    let ItemBody(bytes) = ItemBody::from_request(request, &()).await?;
    let by = app.operator(&caller, None);
    if query.replace
        && let Some(item) = app.ops.find_item(&group, &name).await?
    {
        replace_item(&app, &item, bytes, &by).await?;
        return Ok((StatusCode::OK, Answer(item_view(&app, item.id).await?)));
    }
    let (status, id) = match app.ops.add_item(group, name, NewContent::Bytes(bytes), &by).await? {
        AddedItem::Accepted(id) => (StatusCode::CREATED, id),
        AddedItem::Duplicate(id) => (StatusCode::OK, id),
        AddedItem::Conflict(id) => {
            let what = format!("item {id} has the same name and other content");
            let allowed = "another name, or ?replace=true";
            return Err(ProblemDetails::new(StatusCode::CONFLICT, what).allowed(allowed));
        }
    };
    Ok((status, Answer(item_view(&app, id).await?)))
}

/// Gives an item new content. The same content again is no change.
pub(crate) async fn replace_item(
    app: &App,
    item: &ItemRecord,
    bytes: Bytes,
    by: &Operator,
) -> Result<(), ProblemDetails> {
    let content = app.ops.content().keep(NewContent::Bytes(bytes)).await;
    let content = content.map_err(AddItemError::Content)?;
    match app.ops.replace_item(item, content, by).await {
        Ok(()) | Err(ReplaceError::SameContent) => Ok(()),
        Err(ReplaceError::Store(error)) => Err(error.into()),
        Err(refusal) => Err(ProblemDetails::new(StatusCode::CONFLICT, refusal.to_string())),
    }
}

pub(crate) async fn item_view(app: &App, id: ItemId) -> Result<ItemRecord, ProblemDetails> {
    let item = app.ops.store().items_by_id(&[id]).await?.pop();
    let item = item.ok_or_else(|| ProblemDetails::not_found(format!("there is no item {id}")))?;
    Ok(item)
}

/// The response omits storage paths, which may be confidential; the log has them.
impl From<AddItemError> for ProblemDetails {
    fn from(error: AddItemError) -> Self {
        match error {
            AddItemError::Store(error) => error.into(),
            AddItemError::Name(error) => Self::bad_request(error.to_string()),
            error => {
                let unreachable =
                    matches!(&error, AddItemError::Content(ContentError::Unreachable(_)));
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "cannot store the content of an item"
                );
                let what = "the content could not be stored; nothing was added";
                let problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, what);
                if unreachable { problem.retry_after(1) } else { problem }
            }
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct SendRequest {
    /// Send items now that were rejected a moment ago, although it spends an attempt.
    #[serde(default)]
    pub(crate) now: bool,
    /// For the journal.
    pub(crate) reason: Option<String>,
}

/// Starts to send the pending items of a group from this server, with the retries of the declared upload. The items, the
/// journal and the log show the progress.
#[cfg_attr(test, utoipa::path(post, path = "/v1/uploads/{upload}/groups/{group}/send", tag = "uploads",
    params(GroupPath), request_body = SendRequest,
    responses((status = 202, description = "the send has started", body = GroupSendStarted),
              (status = 404, description = "no such upload or group", body = ProblemDetails),
              (status = 409, description = "another process sends the group", body = ProblemDetails),
              (status = 422, description = "no item is pending, or this server cannot send the upload", body = ProblemDetails),
              (status = 428, description = "items should wait, and `now` is not true", body = ProblemDetails),
              (status = 503, description = "the server sends too many groups", body = ProblemDetails))))]
pub(crate) async fn send(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(path): PathParams<GroupPath>,
    Json(body): Json<SendRequest>,
) -> Result<(StatusCode, Answer<GroupSendStarted>), ProblemDetails> {
    let GroupPath { upload, group } = path;
    let group = ItemGroup { upload, group };
    let started = send_group(&app, &caller, group, body).await?;
    Ok((StatusCode::ACCEPTED, Answer(started)))
}

pub(crate) async fn send_group(
    app: &App,
    caller: &Caller,
    group: ItemGroup,
    request: SendRequest,
) -> Result<GroupSendStarted, ProblemDetails> {
    if !app.group_sends.is_declared(&group.upload) {
        return Err(app.group_sends.undeclared(&group.upload));
    }
    let pending = counts_of(app, &group).await?.pending;
    if pending == 0 {
        let what = format!("group {:?} has no pending items; nothing was sent", group.group);
        return Err(ProblemDetails::new(StatusCode::UNPROCESSABLE_ENTITY, what));
    }
    let by = app.operator(caller, request.reason.as_deref());
    let began_at = by.at.to_string();
    let worker = app.group_sends.start(group.clone(), by, request.now).await?;
    let ItemGroup { upload, group } = group;
    Ok(GroupSendStarted { upload, group, pending, worker, began_at })
}
