//! What every request can reach.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use axum::http::StatusCode;
use redrive_core::Message;
use redrive_engine::Pipeline;
use redrive_ops::{Ops, Watch};
use redrive_store::Operator;
use tokio::sync::Mutex;

use crate::{
    ServerLimits, Uploads, access::Access, group_sends::GroupSends, guard::Caller,
    pages::live::Live, problem::ProblemDetails, rate_limit::AddressRateLimit,
};

/// What is served.
pub struct ServerSetup {
    /// What is shown and done.
    pub ops: Ops,
    /// Who may ask.
    pub access: Access,
    /// The pipelines that can be started.
    pub pipelines: Vec<Pipeline>,
    /// The uploads whose items can be added and whose groups can be sent.
    pub uploads: Uploads,
    /// The folder that a prune writes to; without one, none is done from here.
    pub archive: Option<PathBuf>,
    /// How much is taken from those who ask.
    pub limits: ServerLimits,
}

/// Wrong tokens from one address in a minute. After them no token is looked at, right or wrong: otherwise the one
/// that is let in would be known all the same.
const MAX_GUESSES_A_MINUTE: u32 = 60;

/// The same, for requests.
pub(crate) struct App {
    pub(crate) ops: Ops,
    pub(crate) pipelines: HashMap<String, Pipeline>,
    /// What sends groups of uploads.
    pub(crate) group_sends: GroupSends,
    /// Figures for those who watch.
    pub(crate) watch: Watch,
    /// Who tells open pages.
    pub(crate) live: Live,
    /// Who may ask.
    pub(crate) access: Access,
    /// Tokens that were tried and are none: a token cannot be guessed by trying many.
    pub(crate) guesses: AddressRateLimit,
    /// All requests.
    pub(crate) requests: AddressRateLimit,
    /// The folder that a prune writes to.
    pub(crate) archive: Option<PathBuf>,
    /// Held by the one prune that is going on.
    pub(crate) pruning: Arc<Mutex<()>>,
    /// Held by the one who has everything looked at.
    pub(crate) doctor: Mutex<()>,
    pub(crate) limits: ServerLimits,
}

/// The same, shared by all requests.
pub(crate) type AppState = axum::extract::State<Arc<App>>;

impl App {
    pub(crate) fn new(site: ServerSetup, watch: Watch) -> Arc<Self> {
        let pipelines = site.pipelines.into_iter().map(|it| (it.name.clone(), it)).collect();
        Arc::new(Self {
            watch,
            ops: site.ops,
            pipelines,
            group_sends: GroupSends::new(site.uploads),
            live: Live::default(),
            access: site.access,
            guesses: AddressRateLimit::new(MAX_GUESSES_A_MINUTE, 60),
            requests: AddressRateLimit::new(site.limits.requests_a_second, 1),
            archive: site.archive,
            pruning: Arc::default(),
            doctor: Mutex::default(),
            limits: site.limits,
        })
    }

    /// What whoever tried too many wrong tokens is told.
    pub(crate) fn too_many_guesses(&self) -> ProblemDetails {
        let what = "too many wrong tokens came from there; wait a minute";
        ProblemDetails::new(StatusCode::TOO_MANY_REQUESTS, what)
            .retry_after(self.guesses.seconds_left(self.ops.now()))
    }

    /// Who acts, for the journal.
    pub(crate) fn operator(&self, caller: &Caller, reason: Option<&str>) -> Operator {
        Operator {
            actor: caller.actor(),
            at: self.ops.now(),
            reason: reason.map(|reason| Message::clean(reason).to_string()),
        }
    }
}
