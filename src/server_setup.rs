//! What is served over HTTP, as the configuration has it.

use std::{env, io, net::SocketAddr, time::Duration};

use redrive::{build_pipeline, build_upload, config};
use redrive_server::{Access, Server, ServerSetup, Token, Uploads};
use redrive_store::WorkerId;
use tokio::{sync::oneshot, task::JoinHandle};

use crate::{
    exit::{CommandError, Exit},
    open_store::OpenStore,
};

/// Starts to listen: where the flag says, or the file, or on this machine alone. `worker` is who sends uploads.
pub(crate) async fn listen(
    ops: &OpenStore,
    flag: Option<SocketAddr>,
    worker: &WorkerId,
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
        uploads: uploads(ops, worker),
        archive: ops.config.as_ref().and_then(|config| config.archive()),
    };
    Server::listen(address, setup).await.map_err(|error| match error {
        redrive_server::Error::Open(open) => CommandError::new(Exit::Error, open.to_string())
            .help("set operator-token in [server], or listen on 127.0.0.1"),
        redrive_server::Error::Listen { ref source, .. }
            if source.kind() == io::ErrorKind::AddrInUse =>
        {
            serve_error(error)
                .help("something listens there already; `--listen 127.0.0.1:0` takes any free port")
        }
        other => serve_error(other),
    })
}

/// What sends groups. A server may run where the secrets of an upload are not; then it serves the rest.
fn uploads(ops: &OpenStore, worker: &WorkerId) -> Uploads {
    let declared = ops
        .config
        .iter()
        .flat_map(|config| config.uploads.iter().map(|upload| (upload, config.folder.as_path())));
    let sends = declared.map(|(upload, folder)| {
        let (store, content) = (ops.store().clone(), ops.content().clone());
        let sends = build_upload(upload, folder, store, content, worker.clone(), None);
        let sends = sends.map_err(|error| {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(upload = upload.name, error, "an upload start_error be sent from here");
            let because = error.source().map(|source| format!(": {source}"));
            format!("{error}{}", because.unwrap_or_default())
        });
        (upload.name.clone(), sends)
    });
    sends.collect()
}

/// How long requests and uploads under way may take after a signal. An upload has ten seconds for what it is
/// sending, and then writes down what became of it.
const GRACE: Duration = Duration::from_secs(12);

/// A server that answers requests.
pub(crate) struct RunningServer {
    stop: oneshot::Sender<()>,
    server: JoinHandle<()>,
}

impl RunningServer {
    /// Begins to answer.
    pub(crate) fn start(server: Server) -> Self {
        let (stop, stopped) = oneshot::channel();
        let server = tokio::spawn(server.serve(async {
            // A sender that is gone means stop as well.
            _ = stopped.await;
        }));
        Self { stop, server }
    }

    /// Waits until it ends by itself, which is a failure.
    pub(crate) async fn ended(&mut self) -> CommandError {
        match (&mut self.server).await {
            Ok(()) => CommandError::new(Exit::Error, "the server ended by itself"),
            Err(error) => serve_error(error),
        }
    }

    /// Lets requests under way end. A client that says nothing more does not keep the program.
    pub(crate) async fn stop(self) -> Result<(), CommandError> {
        let Self { stop, server } = self;
        // A server that is gone has ended.
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

fn access(declared: config::ServerConfig) -> Result<Access, CommandError> {
    Ok(Access {
        viewer: declared.viewer_token.as_deref().map(token).transpose()?,
        operator: declared.operator_token.as_deref().map(token).transpose()?,
        hosts: declared.hosts,
    })
}

/// The token that is in a variable.
fn token(variable: &str) -> Result<Token, CommandError> {
    let text = env::var(variable).ok().filter(|text| !text.is_empty()).ok_or_else(|| {
        let message = format!("a token is to come from ${variable}, which is not set");
        CommandError::new(Exit::Error, message).help("`openssl rand -hex 32` makes a good one")
    })?;
    Token::new(&text).ok_or_else(|| {
        let message = format!("the token in ${variable} is too short to keep anyone out");
        CommandError::new(Exit::Error, message)
            .help(format!("it needs {} characters or more", Token::MIN_BYTES))
    })
}
