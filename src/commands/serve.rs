//! `redrive serve`: Redrive over HTTP.

use std::{net::SocketAddr, time::Duration};

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
    let server = Server::listen(address, store).await.map_err(failed)?;
    context.output.note(&format!("listening on http://{}", server.address()));
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let mut serving = tokio::spawn(server.serve(async {
        // A sender that is gone means stop as well.
        _ = stopped.await;
    }));
    let exit = tokio::select! {
        exit = signals.next() => exit,
        served = &mut serving => return ended(served).map(|()| Exit::Ok),
    };
    _ = stop.send(());
    tokio::select! {
        served = &mut serving => ended(served)?,
        // A client that says nothing more, or a second signal, does not keep the program.
        () = tokio::time::sleep(GRACE) => {}
        _ = signals.next() => {}
    }
    Ok(exit)
}

/// How long requests under way may take after a signal.
const GRACE: Duration = Duration::from_secs(10);

fn ended(
    served: Result<Result<(), redrive_server::Error>, tokio::task::JoinError>,
) -> Result<(), Failure> {
    match served {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(failed(error)),
        Err(error) => Err(failed(error)),
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::new(Exit::Error, "cannot serve").because(error)
}
