//! `redrive pipeline output`: prints succeeded samples.

use clap::Args;
use redrive::{PipelineStatus, SamplePages, SampleRecord, SampleStatus, Selection};

use super::run_selector::PipelineRunSelector;
use crate::{
    cli::Format,
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Prints the output of the last stage, one line per succeeded sample, sorted by id, each exactly once. Memory use does
not depend on the number of samples. -o json prints one array.

Examples:
  redrive pipeline output 3 > scored.jsonl
  redrive pipeline output 3 --with-ids | jq -c 'select(.line == 17)'")]
pub(crate) struct PipelineOutputArgs {
    #[command(flatten)]
    run: PipelineRunSelector,

    /// Print {"id", "line", "data"} per sample, with the id and the line in the source
    #[arg(long)]
    with_ids: bool,
}

pub(crate) async fn run(args: PipelineOutputArgs, context: &Context) -> Result<Exit, CommandError> {
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let run = args.run.find(&ops).await?;
    let filter = Selection {
        run: Some(run.id),
        state: Some(SampleStatus::Succeeded.into()),
        ..Selection::default()
    };
    let array = context.output.format() == Format::Json;
    let mut pages = SamplePages::new(ops.store().clone(), filter);
    let (mut printed, mut cut) = (0_u64, Vec::new());
    loop {
        let page = pages.next().await.map_err(|error| ops.store_error(error))?;
        if page.is_empty() {
            break;
        }
        let mut text = String::new();
        for sample in &page {
            match (array, printed) {
                (true, 0) => text.push_str("[\n"),
                (true, _) => text.push_str(",\n"),
                (false, _) => {}
            }
            add(&mut text, sample, args.with_ids);
            if !array {
                text.push('\n');
            }
            printed += 1;
        }
        context.output.data(text.as_bytes(), &mut cut)?;
    }
    if array {
        let end: &[u8] = if printed == 0 { b"[]\n" } else { b"\n]\n" };
        context.output.data(end, &mut cut)?;
    }
    if run.pruned.succeeded > 0 {
        let (pruned, id) = (run.pruned.succeeded, run.id);
        context.output.note(&format!("{pruned} succeeded samples of run {id} were pruned"));
    }
    if run.progress.status == PipelineStatus::Running {
        context
            .output
            .note(&format!("run {} is still running: there may be more samples later", run.id));
    }
    Ok(Exit::Ok)
}

fn add(text: &mut String, sample: &SampleRecord, with_ids: bool) {
    let data = sample.data.as_deref().unwrap_or("null");
    if with_ids {
        let (id, line) = (sample.id, sample.line);
        text.push_str(&format!("{{\"id\":{id},\"line\":{line},\"data\":{data}}}"));
    } else {
        text.push_str(data);
    }
}
