//! `redrive-bench`: how fast Redrive is, compared with bare loops on the same machine in the same run.
//!
//! Absolute figures differ from machine to machine and from minute to minute. So nearly every figure comes with
//! that of a bare loop that does the same work without Redrive, and the ratio is what counts.
//!
//! No subscriber for `tracing` is installed: logging retries would slow down what is measured.

mod bench_store;
mod causes;
mod decide;
mod error;
mod gate_costs;
mod gate_workers;
mod gates;
mod http_runs;
mod item_marker;
mod limited_api;
mod logs;
mod measurement;
mod output;
mod partition_files;
mod partition_loop;
mod partitions;
mod pipeline;
mod plan_loop;
mod plans;
mod postgres_loop;
mod redrive_store;
mod reply_server;
mod retry;
mod run_backend;
mod runs;
mod sample_loop;
mod server;
mod server_data;
mod sizes;
mod sqlite_loop;
mod store;
mod stream_runs;
mod uploads;
mod usage;
mod volume;
mod workload;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use redrive::{InvalidStoreUrl, StoreUrl};

use crate::{
    error::{BenchError, failed},
    output::{OutputFormat, print_rows},
};

/// Benchmarks of Redrive, compared with bare loops on the same machine
#[derive(Debug, Parser)]
#[command(
    name = "redrive-bench",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
Examples:
  redrive-bench decide
  redrive-bench retry
  redrive-bench store
  redrive-bench store --store postgres://redrive@localhost/bench
  redrive-bench uploads
  redrive-bench server"
)]
struct BenchCli {
    /// The store to measure in: a new SQLite file, or a PostgreSQL database without Redrive's schema
    /// [default: a SQLite file in a new folder here]
    #[arg(long, global = true, value_name = "URL")]
    store: Option<String>,

    /// How to print results
    #[arg(short, long, global = true, value_enum, default_value_t = OutputFormat::Table, value_name = "FORMAT")]
    output: OutputFormat,

    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Decisions per second on one core, compared with the bare formula
    #[command(after_help = "\
Examples:
  redrive-bench decide
  redrive-bench decide --seconds 10 -o json")]
    Decide(decide::DecideBenchArgs),
    /// What a retry policy adds to a call, compared with a loop written by hand
    #[command(after_help = "\
Examples:
  redrive-bench retry
  redrive-bench retry --seconds 10 -o json")]
    Retry(retry::RetryBenchArgs),
    /// Rates of insert, claim and finish, compared with a bare loop of prepared statements
    #[command(after_help = "\
SQLite is measured in a new file, PostgreSQL in a database without Redrive's schema. The benchmark removes
the file or the schema afterwards.

Examples:
  redrive-bench store
  redrive-bench store --scale 0.1
  redrive-bench store --store postgres://redrive@localhost/bench --connections 4")]
    Store(store::StoreBenchArgs),
    /// The whole engine: runs drained, retries, pick-up and memory, compared with a bare loop
    #[command(after_help = "\
Examples:
  redrive-bench runs
  redrive-bench runs --handler exec
  redrive-bench runs --handler stream
  redrive-bench runs --handler http
  redrive-bench runs --store postgres://redrive@localhost/bench")]
    Runs(runs::RunsBenchArgs),
    /// Partitions backfilled, listed, retried, extracted and validated, compared with bare loops
    #[command(after_help = "\
Examples:
  redrive-bench partitions
  redrive-bench partitions --scale 0.1
  redrive-bench partitions --store postgres://redrive@localhost/bench")]
    Partitions(partitions::PartitionsBenchArgs),
    /// Samples through the stages of a pipeline, compared with a bare loop and a bare client
    #[command(after_help = "\
Examples:
  redrive-bench pipeline
  redrive-bench pipeline --scale 10             a million samples
  redrive-bench pipeline --store postgres://redrive@localhost/bench")]
    Pipeline(pipeline::PipelineBenchArgs),
    /// Uploads: what retrying and counting add, and items sent, compared with a bare client
    #[command(after_help = "\
Examples:
  redrive-bench uploads
  redrive-bench uploads --concurrency 32
  redrive-bench uploads --store postgres://redrive@localhost/bench")]
    Uploads(uploads::UploadsBenchArgs),
    /// The server: the overview of a large store, runs submitted over HTTP, and open pages
    #[command(after_help = "\
The server and its clients share this process. A client requests the overview every 20 ms while a worker
finishes runs.

Examples:
  redrive-bench server
  redrive-bench server --scale 0.1              100 000 runs and 10 000 partitions
  redrive-bench server --pages 300 --seconds 60
  redrive-bench server --store postgres://redrive@localhost/bench")]
    Server(server::ServerBenchArgs),
    /// Causes of failures, and lists of runs with each filter, over a large store
    #[command(after_help = "\
Examples:
  redrive-bench causes
  redrive-bench causes --scale 0.1              100 000 runs
  redrive-bench causes --store postgres://redrive@localhost/bench")]
    Causes(causes::CausesBenchArgs),
    /// A plan over a million runs: made, applied without a pace, and its memory, compared with a bare batched update
    #[command(after_help = "\
Examples:
  redrive-bench plans
  redrive-bench plans --scale 0.1               100 000 runs
  redrive-bench plans --store postgres://redrive@localhost/bench")]
    Plans(plans::PlansBenchArgs),
    /// Gates: what open ones cost a drain, and how well processes keep to the limit of a service
    #[command(after_help = "\
A service in this process allows 100 requests in a second, and worker processes share it.

Examples:
  redrive-bench gates
  redrive-bench gates --scale 0.1 --rounds 3
  redrive-bench gates --store postgres://redrive@localhost/bench")]
    Gates(gates::GatesBenchArgs),
    /// Logs of attempts: what keeping them costs a drain of programs that print, and of functions that print nothing
    #[command(after_help = "\
Examples:
  redrive-bench logs
  redrive-bench logs --scale 0.1 --rounds 3
  redrive-bench logs --store postgres://redrive@localhost/bench")]
    Logs(logs::LogsBenchArgs),
    /// What a run costs in a store that holds millions of runs, and the log that it writes
    #[command(after_help = "\
The store is filled by submitting and finishing runs: ten million take some minutes.

Examples:
  redrive-bench volume --store postgres://redrive@localhost/bench
  redrive-bench volume --filled 1000000 --many 200000 --few 20000")]
    Volume(volume::VolumeBenchArgs),
    /// One workload of Redrive alone in a new store, for comparison with other systems
    #[command(after_help = "\
scripts/peers runs this workload and the same one of other systems in turn; docs/benchmarks.md has the results.

Examples:
  redrive-bench workload runs
  redrive-bench workload failing-runs --store postgres://redrive@localhost/bench
  redrive-bench workload sustained --count 600000 --seconds 60
  redrive-bench workload partitions --count 10000 -o json")]
    Workload(workload::WorkloadArgs),
    /// The program that `runs --handler stream` calls
    #[command(hide = true)]
    Echo,
    /// A worker process of `gates`
    #[command(hide = true)]
    CallService(gate_workers::CallServiceArgs),
}

fn main() -> ExitCode {
    let cli = BenchCli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ended = runtime.map_err(failed).and_then(|runtime| runtime.block_on(run(cli)));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Without standard error the exit code has to do.
            _ = error.print();
            error.exit_code.into()
        }
    }
}

async fn run(cli: BenchCli) -> Result<(), BenchError> {
    let format = cli.output;
    let store_url = cli.store.as_deref().map(parse_store_url).transpose()?;
    match cli.command {
        BenchCommand::Decide(args) => print_rows(&decide::run(&args), format),
        BenchCommand::Retry(args) => print_rows(&retry::run(&args).await, format),
        BenchCommand::Store(args) => print_rows(&store::run(&args, store_url).await?, format),
        BenchCommand::Runs(args) => print_rows(&runs::run(&args, store_url).await?, format),
        BenchCommand::Partitions(args) => {
            print_rows(&partitions::run(&args, store_url).await?, format)
        }
        BenchCommand::Pipeline(args) => print_rows(&pipeline::run(&args, store_url).await?, format),
        BenchCommand::Uploads(args) => print_rows(&uploads::run(&args, store_url).await?, format),
        BenchCommand::Server(args) => print_rows(&server::run(&args, store_url).await?, format),
        BenchCommand::Causes(args) => print_rows(&causes::run(&args, store_url).await?, format),
        BenchCommand::Plans(args) => print_rows(&plans::run(&args, store_url).await?, format),
        BenchCommand::Gates(args) => print_rows(&gates::run(&args, store_url).await?, format),
        BenchCommand::Logs(args) => print_rows(&logs::run(&args, store_url).await?, format),
        BenchCommand::Volume(args) => print_rows(&volume::run(&args, store_url).await?, format),
        BenchCommand::Workload(args) => print_rows(&workload::run(&args, store_url).await?, format),
        BenchCommand::Echo => stream_runs::answer_calls(),
        BenchCommand::CallService(args) => gate_workers::call_service(&args).await,
    }
}

/// Not a parser of clap, whose message would repeat the URL with its password.
fn parse_store_url(text: &str) -> Result<StoreUrl, BenchError> {
    let url: StoreUrl = text.parse().map_err(|error: InvalidStoreUrl| {
        BenchError::usage(format!("--store: {}", error.problem())).help(error.allowed())
    })?;
    Ok(url.in_folder(&std::env::current_dir().map_err(failed)?))
}
