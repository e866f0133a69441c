//! `redrive serve`: Redrive over HTTP.

use std::{net::SocketAddr, time::Duration};

use clap::Args;

use crate::{
    context::{Context, Missing},
    desk::Desk,
    exit::{Exit, Failure},
    signals::Signals,
    site::{failed, listen},
};

/// The arguments of `serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
GET /healthz is 200 while the process answers, GET /readyz while the store does as well. The API is under /v1,
described by /openapi.json. An address that other machines can reach needs a token: operator-token in
[server] names the environment variable it is in.

Examples:
  redrive serve
  redrive serve --listen 127.0.0.1:0
  curl -s http://127.0.0.1:7878/v1/runs?status=error")]
pub(crate) struct Arguments {
    /// Where to listen; port 0 takes any free one [default: as the file says, else 127.0.0.1:7878]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
}

/// Runs `serve` until a signal.
pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<Exit, Failure> {
    let desk = Desk::open(context, Missing::Make).await?;
    let mut signals = Signals::new()?;
    let server = listen(&desk, arguments.listen).await?;
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
