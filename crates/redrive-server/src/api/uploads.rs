//! Groups of uploads: adding an item by its content, and sending what is pending.

use axum::{
    Extension, Json as Answer,
    extract::{FromRequest, Request},
    http::StatusCode,
};
use redrive_engine::{ContentError, NewContent};
use redrive_ops::{AddItemError, views::ItemView};
use redrive_store::{AddedItem, ItemCounts, ItemGroup};
use serde::{Deserialize, Serialize};

use super::queues::ActionReason;
use crate::{
    app::{App, AppState},
    extract::{ItemBody, Json, PathParams},
    guard::Caller,
    problem::ProblemDetails,
};

/// A group, as it stands in a path.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Path))]
pub(crate) struct GroupPath {
    /// The upload, as the configuration names it.
    upload: String,
    /// The group within it.
    group: String,
}

/// An item, as it stands in a path.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Path))]
pub(crate) struct ItemPath {
    /// The upload, as the configuration names it.
    upload: String,
    /// The group within it; it is made by its first item.
    group: String,
    /// The name of the item in the group. A `/` in it is written `%2F`.
    name: String,
}

/// How a group stands.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct GroupView {
    /// The upload.
    upload: String,
    /// The group.
    group: String,
    /// Items that are not acknowledged yet.
    pub(crate) pending: u64,
    /// Items that were acknowledged.
    pub(crate) uploaded: u64,
    /// Items that the receiver vouches for.
    trusted: u64,
    /// Items that the receiver refused for good.
    rejected: u64,
    /// Items that were given up.
    pub(crate) upload_giveup: u64,
    /// All of them.
    pub(crate) total: u64,
    /// Since when this server sends it, if it does. Others may send it too; then this says nothing.
    pub(crate) sending_since: Option<String>,
}

/// A group whose sending began.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct GroupSendStarted {
    /// The upload.
    upload: String,
    /// The group.
    group: String,
    /// Items to be sent.
    pub(crate) pending: u64,
    /// Who sends them.
    worker: String,
    /// When it began.
    began_at: String,
}

/// How a group stands.
#[cfg_attr(test, utoipa::path(get, path = "/v1/uploads/{upload}/groups/{group}", tag = "uploads", params(GroupPath),
    responses((status = 200, body = GroupView), (status = 404, body = ProblemDetails))))]
pub(crate) async fn show_group(
    app: AppState,
    PathParams(named): PathParams<GroupPath>,
) -> Result<Answer<GroupView>, ProblemDetails> {
    let GroupPath { upload, group } = named;
    group_view(&app, ItemGroup { upload, group }).await.map(Answer)
}

/// The same for the dashboard.
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
    if counts.total() == 0 {
        let ItemGroup { upload, group } = group;
        let what = format!("upload {upload:?} has no group {group:?}: nothing was added to it");
        return Err(ProblemDetails::not_found(what));
    }
    Ok(counts)
}

/// Adds an item to a group of a declared upload: the body is its content. The same content again changes nothing.
#[cfg_attr(test, utoipa::path(put, path = "/v1/uploads/{upload}/groups/{group}/items/{name}", tag = "uploads",
    params(ItemPath),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, description = "it was there already", body = ItemView),
              (status = 201, description = "it is pending", body = ItemView),
              (status = 400, body = ProblemDetails), (status = 404, body = ProblemDetails),
              (status = 408, body = ProblemDetails),
              (status = 409, description = "other content has this name", body = ProblemDetails),
              (status = 413, body = ProblemDetails))))]
pub(crate) async fn add(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(named): PathParams<ItemPath>,
    request: Request,
) -> Result<(StatusCode, Answer<ItemView>), ProblemDetails> {
    let ItemPath { upload, group, name } = named;
    if !app.group_sends.knows(&upload) {
        return Err(app.group_sends.unknown(&upload));
    }
    let group = ItemGroup { upload, group };
    group.check_name(&name).map_err(|error| ProblemDetails::bad_request(error.to_string()))?;
    let ItemBody(bytes) = ItemBody::from_request(request, &()).await?;
    let by = app.operator(&caller, None);
    let (status, id) = match app.ops.add_item(group, name, NewContent::Bytes(bytes), &by).await? {
        AddedItem::Accepted(id) => (StatusCode::CREATED, id),
        AddedItem::Duplicate(id) => (StatusCode::OK, id),
        AddedItem::Conflict(id) => {
            let what = format!("item {id} has this name in the group and other content");
            return Err(ProblemDetails::new(StatusCode::CONFLICT, what).allowed("another name"));
        }
    };
    let item = app.ops.store().items_by_id(&[id]).await?.pop();
    let item = item.ok_or_else(|| ProblemDetails::not_found(format!("there is no item {id}")))?;
    Ok((status, Answer(item.into())))
}

/// Where content is kept is nothing that a stranger should know; the log has it.
impl From<AddItemError> for ProblemDetails {
    fn from(error: AddItemError) -> Self {
        match error {
            AddItemError::Store(error) => error.into(),
            AddItemError::Name(error) => Self::bad_request(error.to_string()),
            error => {
                let unreachable =
                    matches!(&error, AddItemError::Content(ContentError::Unreachable(_)));
                tracing::warn!(error = &error as &dyn std::error::Error, "content was not kept");
                let what = "the content could not be kept; nothing was added";
                let problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, what);
                if unreachable { problem.retry_after(1) } else { problem }
            }
        }
    }
}

/// Begins to send what is pending in a group, here, with retries as its upload declares them. How it goes is in the
/// items, the journal and the log.
#[cfg_attr(test, utoipa::path(post, path = "/v1/uploads/{upload}/groups/{group}/send", tag = "uploads",
    params(GroupPath), request_body = ActionReason,
    responses((status = 202, description = "it began", body = GroupSendStarted),
              (status = 404, description = "no such upload or group", body = ProblemDetails),
              (status = 409, description = "somebody sends it already", body = ProblemDetails),
              (status = 422, description = "nothing is pending, or it cannot be sent from here", body = ProblemDetails),
              (status = 503, description = "too many are being sent", body = ProblemDetails))))]
pub(crate) async fn send(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(named): PathParams<GroupPath>,
    Json(why): Json<ActionReason>,
) -> Result<(StatusCode, Answer<GroupSendStarted>), ProblemDetails> {
    let GroupPath { upload, group } = named;
    let group = ItemGroup { upload, group };
    let begun = send_group(&app, &caller, group, why.reason.as_deref()).await?;
    Ok((StatusCode::ACCEPTED, Answer(begun)))
}

/// The same for the dashboard.
pub(crate) async fn send_group(
    app: &App,
    caller: &Caller,
    group: ItemGroup,
    reason: Option<&str>,
) -> Result<GroupSendStarted, ProblemDetails> {
    if !app.group_sends.knows(&group.upload) {
        return Err(app.group_sends.unknown(&group.upload));
    }
    let pending = counts_of(app, &group).await?.pending;
    if pending == 0 {
        let what = format!("nothing in group {:?} is pending; nothing was sent", group.group);
        return Err(ProblemDetails::new(StatusCode::UNPROCESSABLE_ENTITY, what));
    }
    let by = app.operator(caller, reason);
    let began_at = by.at.to_string();
    let worker = app.group_sends.begin(group.clone(), by).await?;
    let ItemGroup { upload, group } = group;
    Ok(GroupSendStarted { upload, group, pending, worker, began_at })
}
