//! `redrive serve`: Redrive over HTTP.

use std::net::SocketAddr;

use clap::Args;

use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    server_setup::{RunningServer, listen},
    signals::Signals,
    worker_set::new_worker_id,
};

#[derive(Debug, Args)]
#[command(after_help = "\
GET /healthz is 200 while the process answers, GET /readyz while the store does as well. The API is under /v1,
described by /openapi.json. An address that other machines can reach needs a token: operator-token in
[server] names the environment variable it is in.

Examples:
  redrive serve
  redrive serve --listen 127.0.0.1:0
  curl -s http://127.0.0.1:7878/v1/runs?status=error")]
pub(crate) struct ServeArgs {
    /// Where to listen; port 0 takes any free one [default: as the file says, else 127.0.0.1:7878]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
}

/// Runs `serve` until a signal.
pub(crate) async fn run(args: ServeArgs, context: &Context) -> Result<Exit, CommandError> {
    let ops = OpenStore::open(context, IfMissing::Create).await?;
    let mut signals = Signals::new()?;
    let server = listen(&ops, args.listen, &new_worker_id()?).await?;
    context.output.note(&format!("listening on http://{}", server.address()));
    let mut serving = RunningServer::start(server);
    let exit = tokio::select! {
        exit = signals.next() => exit,
        failure = serving.ended() => return Err(failure),
    };
    tokio::select! {
        served = serving.stop() => served?,
        _ = signals.next() => {}
    }
    Ok(exit)
}
