//! `redrive serve`: serves the API and the dashboard.

use std::net::SocketAddr;

use clap::Args;
use redrive::Stopper;

use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    server_setup::{RunningServer, listen},
    signals::Signals,
    worker_set::{new_worker_id, plan_executor},
};

#[derive(Debug, Args)]
#[command(after_help = "\
GET /healthz returns 200 while the process runs, GET /readyz while the store responds and takes writes. The API is under
/v1; /openapi.json describes it. An address that other machines can reach needs a token: `redrive token new` makes one.

Examples:
  redrive serve
  redrive serve --listen 127.0.0.1:0
  curl -s http://127.0.0.1:7878/v1/runs?status=error")]
pub(crate) struct ServeArgs {
    /// The address to listen on; port 0 takes any free port [default: `listen` in [server], else 127.0.0.1:7878]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
}

pub(crate) async fn run(args: ServeArgs, context: &Context) -> Result<Exit, CommandError> {
    let ops = OpenStore::open(context, IfMissing::Create).await?;
    let mut signals = Signals::new()?;
    let process = new_worker_id()?;
    let server = listen(&ops, args.listen, &process, context).await?;
    context.output.note(&format!("listening on http://{}", server.address()));
    let mut serving = RunningServer::start(server);
    let (stopper, stop) = Stopper::new();
    let plans = plan_executor(ops.partitions().clone(), process, ops.config.as_ref());
    let plans = tokio::spawn(async move { plans.run(stop).await });
    let exit = tokio::select! {
        exit = signals.next() => exit,
        error = serving.ended() => return Err(error),
    };
    stopper.stop();
    tokio::select! {
        (served, _) = async { tokio::join!(serving.stop(), plans) } => served?,
        _ = signals.next() => {}
    }
    Ok(exit)
}
