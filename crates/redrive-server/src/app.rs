//! What every request can reach.

use std::{collections::HashMap, sync::Arc};

use redrive_core::Message;
use redrive_desk::{Desk, Watch};
use redrive_engine::Pipeline;
use redrive_store::Operator;

use crate::{
    access::{Access, Guesses},
    guard::Visitor,
    pages::live::Live,
};

/// What is served.
pub struct Site {
    /// What is shown and done.
    pub desk: Desk,
    /// Who may ask.
    pub access: Access,
    /// The pipelines that can be started.
    pub pipelines: Vec<Pipeline>,
}

/// The same, for requests.
pub(crate) struct App {
    pub(crate) desk: Desk,
    pub(crate) pipelines: HashMap<String, Pipeline>,
    /// Figures for those who watch.
    pub(crate) watch: Watch,
    /// Who tells open pages.
    pub(crate) live: Live,
    /// Who may ask.
    pub(crate) access: Access,
    /// Tokens that were tried.
    pub(crate) guesses: Guesses,
}

/// The same, shared by all requests.
pub(crate) type Shared = axum::extract::State<Arc<App>>;

impl App {
    pub(crate) fn new(site: Site) -> Arc<Self> {
        let pipelines = site.pipelines.into_iter().map(|it| (it.name.clone(), it)).collect();
        Arc::new(Self {
            watch: Watch::new(site.desk.clone()),
            desk: site.desk,
            pipelines,
            live: Live::default(),
            access: site.access,
            guesses: Guesses::default(),
        })
    }

    /// Who acts, for the journal.
    pub(crate) fn operator(&self, visitor: &Visitor, reason: Option<&str>) -> Operator {
        Operator {
            actor: visitor.actor(),
            at: self.desk.now(),
            reason: reason.map(|reason| Message::clean(reason).to_string()),
        }
    }
}
