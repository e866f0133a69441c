//! `redrive runs stats`: prints the counts of every queue.

use std::time::Duration;

use clap::Args;
use redrive_ops::{run_state_name, views::QueueStatsView, words::human};

use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    output::{TableColumn, TableRow},
};

#[derive(Debug, Args)]
#[command(after_help = "\
A queue that has runs and is not declared in the configuration is unroutable: no worker claims its
runs, and they use no attempts.

Examples:
  redrive runs stats
  redrive runs stats -o json")]
pub(crate) struct RunsStatsArgs {}

fn note(stats: &QueueStatsView) -> String {
    let paused = stats.paused_at.as_ref().map(|_| "paused");
    let unroutable = stats.unroutable.filter(|is| *is).map(|_| "unroutable");
    let notes: Vec<&str> = paused.into_iter().chain(unroutable).collect();
    notes.join(", ")
}

impl TableRow for QueueStatsView {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("queue"),
        TableColumn::text("runs"),
        TableColumn::number("oldest ready"),
        TableColumn::text("next due at"),
        TableColumn::text(""),
    ];

    fn cells(&self) -> Vec<String> {
        let counts = self.counts.iter();
        let counts: Vec<String> =
            counts.map(|(state, runs)| format!("{runs} {}", run_state_name(*state))).collect();
        vec![
            self.queue.clone(),
            if counts.is_empty() { "none".to_owned() } else { counts.join(", ") },
            self.oldest_ready_age.map(whole_seconds).unwrap_or_default(),
            self.next_due_at.clone().unwrap_or_default(),
            note(self),
        ]
    }
}

fn whole_seconds(age: Duration) -> String {
    human(Duration::from_secs(age.as_secs()))
}

pub(crate) async fn run(_: RunsStatsArgs, context: &Context) -> Result<Exit, CommandError> {
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let stats = ops.queue_stats().await.map_err(|error| ops.store_error(error))?;
    context.output.list(stats)?;
    Ok(Exit::Ok)
}
