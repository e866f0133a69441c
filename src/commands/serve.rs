//! `redrive serve`: Redrive over HTTP.

use std::net::SocketAddr;

use clap::Args;
use redrive::open_store;
use redrive_engine::{Clock, SystemClock};
use redrive_server::Server;

use crate::{
    context::Context,
    exit::{Exit, Failure},
    signals::Signals,
};

/// The arguments of `serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Answers GET /health: 200 while the store answers, 503 while it does not.

Examples:
  redrive serve
  redrive serve --listen 127.0.0.1:0")]
pub(crate) struct Arguments {
    /// Where to listen; port 0 takes any free one [default: as the file says, else 127.0.0.1:7878]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
}

/// Runs `serve` until a signal.
pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<Exit, Failure> {
    let config = context.config()?;
    let chosen = context.store(config.as_ref())?;
    let settings = config.as_ref().map(|config| config.store.clone()).unwrap_or_default();
    let declared = config.as_ref().map(|config| config.server.listen);
    let store = open_store(&chosen.url, &settings, SystemClock.now())
        .await
        .map_err(|error| chosen.failure(error))?;
    let address =
        arguments.listen.or(declared).unwrap_or_else(|| redrive::config::Server::default().listen);
    let mut signals = Signals::new()?;
    let failed = |error| Failure::new(Exit::Error, "cannot serve").because(error);
    let server = Server::listen(address, store).await.map_err(failed)?;
    context.output.note(&format!("listening on http://{}", server.address()));
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let serving = tokio::spawn(server.serve(async {
        // A sender that is gone means stop as well.
        _ = stopped.await;
    }));
    let exit = signals.next().await;
    _ = stop.send(());
    match serving.await {
        Ok(served) => served.map_err(failed)?,
        Err(error) => return Err(Failure::new(Exit::Error, "cannot serve").because(error)),
    }
    Ok(exit)
}
