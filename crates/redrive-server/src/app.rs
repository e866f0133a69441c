//! The setup of a server, and the state that all requests share.

use std::{collections::HashMap, net::IpAddr, path::PathBuf, sync::Arc};

use axum::http::StatusCode;
use redrive_core::Message;
use redrive_engine::{Pipeline, PlanExecutor, WriteTimes};
use redrive_ops::{Ops, Watch};
use redrive_store::Operator;
use tokio::sync::Mutex;

use crate::{
    ServerLimits, Uploads, access::Access, group_sends::GroupSends, guard::Caller,
    pages::live::Live, problem::ProblemDetails, problem_kind::ProblemKind,
    rate_limit::AddressRateLimit, sessions::Sessions,
};

pub struct ServerSetup {
    pub ops: Ops,
    pub access: Access,
    pub pipelines: Vec<Pipeline>,
    pub uploads: Uploads,
    /// The folder for exports of a prune; without one the server rejects prunes.
    pub archive: Option<PathBuf>,
    pub limits: ServerLimits,
    /// Executes the plans of bulk actions while a request waits for them.
    pub plans: PlanExecutor,
    /// The write times of the engine in this process, for `/metrics`.
    pub write_times: Arc<WriteTimes>,
}

/// Wrong tokens from one address in a minute; further ones are answered late. The correct token always passes:
/// otherwise one client with an old token would lock out all others behind the same address. Guessing is hopeless
/// anyway, because a token has at least 16 characters.
const MAX_WRONG_TOKENS_PER_MINUTE: u32 = 60;

pub(crate) struct App {
    pub(crate) ops: Ops,
    pub(crate) pipelines: HashMap<String, Pipeline>,
    pub(crate) group_sends: GroupSends,
    pub(crate) watch: Watch,
    pub(crate) live: Live,
    pub(crate) access: Access,
    pub(crate) sessions: Sessions,
    wrong_tokens: AddressRateLimit,
    pub(crate) requests: AddressRateLimit,
    pub(crate) archive: Option<PathBuf>,
    /// One prune runs at a time.
    pub(crate) pruning: Arc<Mutex<()>>,
    /// One full check runs at a time.
    pub(crate) doctor: Mutex<()>,
    pub(crate) limits: ServerLimits,
    pub(crate) plans: PlanExecutor,
    pub(crate) write_times: Arc<WriteTimes>,
}

pub(crate) type AppState = axum::extract::State<Arc<App>>;

impl App {
    pub(crate) fn new(setup: ServerSetup, watch: Watch) -> Arc<Self> {
        let pipelines = setup.pipelines.into_iter().map(|it| (it.name.clone(), it)).collect();
        Arc::new(Self {
            watch,
            ops: setup.ops,
            pipelines,
            group_sends: GroupSends::new(setup.uploads),
            live: Live::default(),
            access: setup.access,
            sessions: Sessions::default(),
            wrong_tokens: AddressRateLimit::new(MAX_WRONG_TOKENS_PER_MINUTE, 60),
            requests: AddressRateLimit::new(setup.limits.requests_a_second, 1),
            archive: setup.archive,
            pruning: Arc::default(),
            doctor: Mutex::default(),
            limits: setup.limits,
            plans: setup.plans,
            write_times: setup.write_times,
        })
    }

    /// Counts a wrong token. `guard` delays the problem of an address that sent too many.
    pub(crate) fn count_wrong_token(&self, from: IpAddr) -> Option<ProblemDetails> {
        let now = self.ops.now();
        if self.wrong_tokens.count(from, now) {
            return None;
        }
        let what = "too many wrong tokens from this address; wait a minute";
        let problem = ProblemDetails::new(StatusCode::TOO_MANY_REQUESTS, what)
            .kind(ProblemKind::TooManyWrongTokens);
        Some(problem.retry_after(self.wrong_tokens.seconds_left(now)))
    }

    /// The author of a journal entry.
    pub(crate) fn operator(&self, caller: &Caller, reason: Option<&str>) -> Operator {
        Operator {
            actor: caller.actor(),
            at: self.ops.now(),
            reason: reason.map(|reason| Message::clean(reason).to_string()),
        }
    }
}
