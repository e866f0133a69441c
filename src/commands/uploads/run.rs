//! `redrive uploads run`: sends what is pending in a group.

use std::time::Duration;

use clap::Args;
use redrive::{
    GroupBusy, GroupSending, GroupSent, HumanDuration, ItemGroup, Stopper, UploadError,
    build_upload,
};

use super::{declaring, progress::UploadProgressDisplay, summary::UploadSummary};
use crate::{
    context::{ChosenStore, Context, IfMissing},
    exit::{CommandError, Exit},
    operator::operator,
    signals::Signals,
    worker_set::new_worker_id,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Every pending item is posted to the upload's URL. What is acknowledged is never sent again; what is
rejected is sent again after 2, 4 and 8 s, and later by the next call, and given up at its fifth
rejection, unless the configuration says otherwise. One call at a time works on a group: another is
refused. Ctrl-C and SIGTERM end a sleep at once, and let what is under way end within 10 s.
Exit codes: 0 everything is uploaded; 3 some is not; 1 an error, or the batch was refused as a whole;
4 the group is busy; 130, 143 stopped by a signal.

Examples:
  redrive uploads run --upload tiles --group flight-7
  redrive uploads run --upload tiles --group flight-7 -o json -q")]
pub(crate) struct UploadsRunArgs {
    /// The upload, as the configuration names it
    #[arg(long, value_name = "NAME")]
    upload: String,

    /// The group
    #[arg(long, value_name = "NAME")]
    group: String,
}

/// Runs `uploads run`.
pub(crate) async fn run(args: UploadsRunArgs, context: &Context) -> Result<Exit, CommandError> {
    let config = declaring(&args.upload, context)?;
    let Some(declared) = config.upload(&args.upload) else {
        return Err(CommandError::usage(format!("there is no upload {:?}", args.upload)));
    };
    let group = ItemGroup { upload: args.upload, group: args.group };
    let chosen = context.store(Some(&config))?;
    let store = chosen.open(Some(&config), IfMissing::Refuse).await?;
    let counts = store.item_counts(&group).await.map_err(|error| chosen.store_error(error))?;
    if counts.total() == 0 {
        let ItemGroup { upload, group } = &group;
        let message = format!("upload {upload:?} has no group {group:?}: nothing was added to it");
        return Err(CommandError::new(Exit::Error, message).help(format!(
            "`redrive uploads add --upload {upload} --group {group} FILE…` adds to it"
        )));
    }
    let worker = new_worker_id()?;
    let progress = UploadProgressDisplay::new(counts.pending, context);
    let content = context.raw(Some(&config))?.content();
    let folder = &config.folder;
    let observer = Some(progress.observer());
    let upload = build_upload(declared, folder, store.clone(), content, worker, observer)
        .map_err(|error| CommandError::new(Exit::Error, "cannot start").caused_by(error))?;
    #[cfg(feature = "otel")]
    crate::spans::start(&chosen).await?;
    let mut signals = Signals::new()?;
    let taken = upload.begin(&group, &operator(None)).await;
    let taken = taken.map_err(|error| chosen.store_error(error))?;
    let sending = taken.map_err(|busy| busy_error(&busy, &group))?;
    let ended = upload_until(sending, &mut signals).await;
    progress.end();
    let (GroupSent { report, lost }, signal) = match ended {
        UploadEnd::Finished(sent, signal) => (sent, signal),
        // What was under way may have been acknowledged; the lease ends by itself.
        UploadEnd::Aborted(exit) => return Ok(exit),
    };
    let report = report.map_err(|error| command_error(error, &chosen, &group))?;
    let counts = store.item_counts(&group).await.map_err(|error| chosen.store_error(error))?;
    let summary = UploadSummary::new(&group, &report, &counts);
    context.output.record(&summary)?;
    context.output.section("rejected", &summary.rejections)?;
    if let Some(advice) = summary.advice() {
        context.output.footer(&advice)?;
    }
    if lost {
        let message = "the lease on the group was lost: another upload may have it";
        return Err(CommandError::new(Exit::Error, message)
            .help("what was acknowledged is kept; a longer `lease` in the [[upload]] helps"));
    }
    Ok(signal.unwrap_or_else(|| summary.exit(report.outcome)))
}

fn busy_error(busy: &GroupBusy, group: &ItemGroup) -> CommandError {
    // Nobody waits for a part of a second.
    let rest = Duration::from_secs(busy.remaining.as_secs().saturating_add(1));
    let (name, rest) = (&group.group, HumanDuration::from(rest));
    let message = format!("group {name:?} is being uploaded by {busy}; nothing was sent");
    CommandError::new(Exit::Refused, message)
        .help(format!("if it was killed, the group is free when its lease ends, in {rest}"))
}

/// How an upload came to its end.
enum UploadEnd {
    /// With a report or an error, perhaps after a signal.
    Finished(GroupSent, Option<Exit>),
    /// By a second signal.
    Aborted(Exit),
}

async fn upload_until(sending: GroupSending, signals: &mut Signals) -> UploadEnd {
    let (stopper, stop) = Stopper::new();
    let mut sending = Box::pin(sending.run(stop));
    let signal = tokio::select! {
        sent = &mut sending => return UploadEnd::Finished(sent, None),
        exit = signals.next() => exit,
    };
    stopper.stop();
    tokio::select! {
        sent = &mut sending => UploadEnd::Finished(sent, Some(signal)),
        again = signals.next() => UploadEnd::Aborted(again),
    }
}

fn command_error(error: UploadError, chosen: &ChosenStore, group: &ItemGroup) -> CommandError {
    match error {
        UploadError::Store(error) => chosen.store_error(error),
        error @ UploadError::NotReady(_) => CommandError::new(Exit::Error, error)
            .help("nothing was sent; `ready` of the [[upload]] says when"),
        error => {
            let message = format!("group {:?}: {error}", group.group);
            CommandError::new(Exit::Error, message).help("what was acknowledged before is kept")
        }
    }
}
