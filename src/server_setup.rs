//! Builds the HTTP server from the configuration.

use std::{env, io, net::SocketAddr, time::Duration};

use redrive::{
    build_pipeline, build_upload,
    config::{self, TokenDigest},
    traces::Traces,
};
use redrive_server::{Access, NamedToken, Role, Server, ServerSetup, Token, Uploads};
use redrive_store::WorkerId;
use tokio::{sync::oneshot, task::JoinHandle};

use crate::{
    context::Context,
    exit::{CommandError, Exit},
    open_store::OpenStore,
    worker_set::plan_executor,
};

/// Binds the server to the address of the flag, or else of the configuration. Uploads are sent as
/// `worker`.
pub(crate) async fn listen(
    ops: &OpenStore,
    flag: Option<SocketAddr>,
    worker: &WorkerId,
    context: &Context,
) -> Result<Server, CommandError> {
    let declared = ops.config.as_ref().map(|config| config.server.clone()).unwrap_or_default();
    let address = flag.unwrap_or(declared.listen);
    let start_error = |error| CommandError::new(Exit::Error, "cannot start").caused_by(error);
    let pipelines = ops.config.iter().flat_map(|config| {
        config.pipelines.iter().map(|pipeline| build_pipeline(pipeline, &config.folder))
    });
    let setup = ServerSetup {
        ops: (**ops).clone(),
        limits: declared.limits,
        access: access(declared)?,
        pipelines: pipelines.collect::<Result<_, _>>().map_err(start_error)?,
        uploads: uploads(ops, worker, &context.traces()),
        archive: ops.config.as_ref().and_then(|config| config.archive()),
        plans: plan_executor(ops.partitions().clone(), worker.clone(), ops.config.as_ref()),
        write_times: context.write_times.clone(),
    };
    Server::listen(address, setup).await.map_err(|error| match error {
        redrive_server::ServerError::UnprotectedAddress(open) => {
            CommandError::new(Exit::Error, open.to_string())
                .help("set operator-token in [server], or make a token with `redrive token new`, or listen on 127.0.0.1")
        }
        redrive_server::ServerError::Listen { ref source, .. }
            if source.kind() == io::ErrorKind::AddrInUse =>
        {
            serve_error(error).help(
                "another process uses the address; `--listen 127.0.0.1:0` takes any free port",
            )
        }
        other => serve_error(other),
    })
}

/// The senders of uploads. A server may run without the secrets of an upload: that upload reports an
/// error, and the server serves the rest.
fn uploads(ops: &OpenStore, worker: &WorkerId, traces: &Traces) -> Uploads {
    let declared = ops
        .config
        .iter()
        .flat_map(|config| config.uploads.iter().map(move |upload| (upload, config)));
    let senders = declared.map(|(upload, config)| {
        let (store, content) = (ops.store().clone(), ops.content().clone());
        let (worker, traces) = (worker.clone(), traces.clone());
        let sender = build_upload(upload, config, store, content, worker, None, traces);
        let sender = sender.map_err(|error| {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(upload = upload.name, error, "this server cannot send the upload");
            let cause = error.source().map(|source| format!(": {source}"));
            format!("{error}{}", cause.unwrap_or_default())
        });
        (upload.name.clone(), sender)
    });
    senders.collect()
}

/// The time that requests and uploads in progress have after a signal. An upload has ten seconds to
/// send the current items, and then records the results.
const GRACE: Duration = Duration::from_secs(12);

pub(crate) struct RunningServer {
    stop: oneshot::Sender<()>,
    server: JoinHandle<()>,
}

impl RunningServer {
    pub(crate) fn start(server: Server) -> Self {
        let (stop, stopped) = oneshot::channel();
        let server = tokio::spawn(server.serve(async {
            // A dropped sender means stop too.
            _ = stopped.await;
        }));
        Self { stop, server }
    }

    /// Waits until the server ends without a stop, which is an error.
    pub(crate) async fn ended(&mut self) -> CommandError {
        match (&mut self.server).await {
            Ok(()) => CommandError::new(Exit::Error, "the server stopped unexpectedly"),
            Err(error) => serve_error(error),
        }
    }

    /// Waits for requests in progress, at most [`GRACE`], so that a silent client cannot block the exit.
    pub(crate) async fn stop(self) -> Result<(), CommandError> {
        let Self { stop, server } = self;
        // Sending fails if the server has ended already.
        _ = stop.send(());
        match tokio::time::timeout(GRACE, server).await {
            Ok(ended) => ended.map_err(serve_error),
            Err(_) => Ok(()),
        }
    }
}

fn serve_error(error: impl std::error::Error + Send + Sync + 'static) -> CommandError {
    CommandError::new(Exit::Error, "cannot serve").caused_by(error)
}

/// The tokens of a server. `operator-token` and `viewer-token` are named by their roles.
fn access(declared: config::ServerConfig) -> Result<Access, CommandError> {
    let mut tokens = Vec::new();
    for (variable, role) in
        [(declared.operator_token, Role::Operator), (declared.viewer_token, Role::Viewer)]
    {
        if let Some(variable) = variable {
            tokens.push(NamedToken::new(role.name(), role, token(&variable)?));
        }
    }
    for named in declared.tokens {
        let role = Role::from_name(named.role).unwrap_or(Role::Submitter);
        let token = match &named.digest {
            TokenDigest::Written(digits) => Token::from_sha256(digits),
            TokenDigest::Env(variable) => Token::from_sha256(variable_of(variable)?.trim()),
        };
        let token = token.ok_or_else(|| {
            let message = format!("the SHA-256 of token {:?} is invalid", named.name);
            CommandError::new(Exit::Error, message).help("`redrive token new` makes a token")
        })?;
        if let Some(same) = tokens.iter().find(|known: &&NamedToken| known.token == token) {
            let message = format!("the tokens {:?} and {:?} are the same", same.name, named.name);
            return Err(CommandError::new(Exit::Error, message).help("give each its own token"));
        }
        tokens.push(NamedToken { name: named.name, role, token, revoked: named.revoked });
    }
    Ok(Access { tokens, hosts: declared.hosts, trusted_proxies: declared.trusted_proxies })
}

/// Reads a token from an environment variable.
fn token(variable: &str) -> Result<Token, CommandError> {
    Token::new(&variable_of(variable)?).ok_or_else(|| {
        let message = format!("the token in ${variable} is too short");
        CommandError::new(Exit::Error, message)
            .help(format!("use at least {} characters", Token::MIN_BYTES))
    })
}

fn variable_of(variable: &str) -> Result<String, CommandError> {
    env::var(variable).ok().filter(|text| !text.is_empty()).ok_or_else(|| {
        let message = format!("[server] takes a token from ${variable}, which is not set");
        CommandError::new(Exit::Error, message).help("`redrive token new` makes a token")
    })
}
