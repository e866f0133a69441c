//! `redrive why UNIT`: explains one unit (OPS-3).

use clap::Args;
use redrive::Unit;
use redrive_engine::{Clock, SystemClock};
use redrive_ops::{
    ExplainTarget, Explanation, ItemExplanation, Next, PartitionExplanation, RunExplanation,
    SampleExplanation, TimelineStep, timeline,
    views::{AttemptView, JournalView},
    words::rounded,
};
use serde::Serialize;

use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    output::{Output, TableColumn, TableRow},
};

#[derive(Debug, Args)]
#[command(after_help = "\
If the configuration declares the queue, source or pipeline, the output names the rule of the policy behind each wait.

Examples:
  redrive why run:17
  redrive why run:17 -o json
  redrive why item:17
  redrive why sample:17                     all stages; sample:17/STAGE shows one
  redrive why partition:ads/1234567890/campaign_daily/2026-01-31")]
pub(crate) struct WhyArgs {
    /// The unit: run:ID, item:ID, sample:ID or partition:SOURCE/CUSTOMER/QUERY/DATE
    #[arg(value_parser = ExplainTarget::parse)]
    unit: ExplainTarget,
}

pub(crate) async fn run(args: WhyArgs, context: &Context) -> Result<Exit, CommandError> {
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let explanation = ops.explain(&args.unit).await.map_err(|error| ops.store_error(error))?;
    let Some(explanation) = explanation else { return Err(unknown_unit(&args.unit, &ops).await) };
    let explanation = match (explanation, &args.unit) {
        (Explanation::Sample(explanation), ExplainTarget::Unit(Unit::Sample { stage, .. })) => {
            let known = explanation.stages.iter().map(|known| known.stage.clone()).collect();
            Explanation::Sample(Box::new(
                explanation.only(stage).ok_or_else(|| unknown_stage(stage, known))?,
            ))
        }
        (explanation, _) => explanation,
    };
    print(&explanation, context.output)?;
    Ok(Exit::Ok)
}

pub(crate) async fn unknown_unit(asked: &ExplainTarget, ops: &OpenStore) -> CommandError {
    if let ExplainTarget::Unit(Unit::Item(id)) = asked
        && let Ok(Some(dropped)) = ops.drop_of(*id).await
    {
        return CommandError::new(Exit::Error, dropped);
    }
    let url = &ops.chosen.url;
    let (message, help) = match asked {
        ExplainTarget::Unit(unit @ Unit::Run(_)) => {
            (format!("there is no {unit} in {url}"), "`redrive runs list` shows the runs")
        }
        ExplainTarget::Unit(unit @ Unit::Item(_)) => {
            (format!("there is no {unit} in {url}"), "`redrive uploads list` shows the items")
        }
        ExplainTarget::Unit(unit @ Unit::Partition(_)) => (
            format!("{unit} has no entry in {url}"),
            "`redrive state inspect` shows the partitions",
        ),
        ExplainTarget::Unit(Unit::Sample { id, .. }) | ExplainTarget::Sample(id) => (
            format!("there is no sample:{id} in {url}"),
            "`redrive dlq list` shows the dead letters",
        ),
    };
    CommandError::new(Exit::Error, message).help(help)
}

fn unknown_stage(stage: &str, known: Vec<String>) -> CommandError {
    let message = format!("the pipeline of the sample has no stage {stage:?}");
    CommandError::new(Exit::Error, message).help(format!("the stages are {}", known.join(", ")))
}

/// Prints one JSON object, or record, attempts and journal below each other.
fn print(explanation: &Explanation, output: Output) -> Result<(), CommandError> {
    match explanation {
        Explanation::Run(explanation) => {
            let RunExplanation { run, attempts, journal, next, .. } = &**explanation;
            print_parts(&**explanation, run, attempts, journal, next, output)
        }
        Explanation::Item(explanation) => {
            let ItemExplanation { item, attempts, journal, next, .. } = &**explanation;
            print_parts(&**explanation, item, attempts, journal, next, output)
        }
        Explanation::Partition(explanation) => {
            let PartitionExplanation { partition, attempts, journal, next, .. } = &**explanation;
            print_parts(&**explanation, partition, attempts, journal, next, output)
        }
        Explanation::Sample(explanation) => print_sample(explanation, output),
    }
}

fn print_parts<T: Serialize, R: Serialize>(
    explanation: &T,
    record: &R,
    attempts: &[AttemptView],
    journal: &[JournalView],
    next: &Next,
    output: Output,
) -> Result<(), CommandError> {
    if !output.is_table() {
        return output.object(explanation);
    }
    output.details(&[record])?;
    print_timeline(attempts, next, output)?;
    output.section("attempts", attempts)?;
    print_end(journal, next, output)
}

fn print_timeline(
    attempts: &[AttemptView],
    next: &Next,
    output: Output,
) -> Result<(), CommandError> {
    let steps = timeline(attempts, next.instant(), SystemClock.now());
    if steps.len() < 2 { Ok(()) } else { output.footer(&TimelineStep::line(&steps)) }
}

fn print_sample(explanation: &SampleExplanation, output: Output) -> Result<(), CommandError> {
    if !output.is_table() {
        return output.object(explanation);
    }
    output.details(&[&explanation.sample])?;
    for stage in &explanation.stages {
        let title = format!("stage {}: {}", stage.stage, stage.outcome);
        output.section(&title, &stage.attempts)?;
    }
    let untried = explanation.stages.iter().filter(|stage| stage.attempts.is_empty());
    let untried: Vec<String> =
        untried.map(|stage| format!("stage {}: {}", stage.stage, stage.outcome)).collect();
    if !untried.is_empty() {
        output.footer(&untried.join("\n"))?;
    }
    print_end(&explanation.journal, &explanation.next, output)
}

fn print_end(journal: &[JournalView], next: &Next, output: Output) -> Result<(), CommandError> {
    output.section("journal", journal)?;
    output.footer(&format!("next: {}", next.because))
}

impl TableRow for AttemptView {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::number("attempt"),
        TableColumn::text("started at"),
        TableColumn::number("took"),
        TableColumn::text("outcome"),
        TableColumn::text("class"),
        TableColumn::text("code"),
        TableColumn::text("rule"),
        TableColumn::text("message"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.attempt.to_string(),
            self.started_at.clone(),
            rounded(self.took),
            self.outcome.to_owned(),
            self.class.clone().unwrap_or_default(),
            self.code.clone().unwrap_or_default(),
            self.rule.clone().unwrap_or_default(),
            self.message.clone().unwrap_or_default(),
        ]
    }
}

impl TableRow for JournalView {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("at"),
        TableColumn::text("actor"),
        TableColumn::text("action"),
        TableColumn::text("details"),
    ];

    fn cells(&self) -> Vec<String> {
        let details = self.details.to_string();
        vec![self.at.clone(), self.actor.clone(), self.action.clone(), details]
    }
}
