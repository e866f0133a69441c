//! `redrive uploads run`: sends the pending items of a group.

use std::time::Duration;

use clap::Args;
use redrive::{
    GroupSending, GroupSent, HumanDuration, ItemGroup, SendRefusal, Stopper, UploadError,
    build_upload,
};
use redrive_ops::dropped_items;

use super::{config_with_upload, progress::UploadProgressDisplay, summary::UploadSummary};
use crate::{
    confirm::confirm_with,
    context::{ChosenStore, Context, IfMissing},
    exit::{CommandError, Exit},
    operator::operator,
    signals::Signals,
    worker_set::new_worker_id,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Posts every pending item to the URL of the upload. Acknowledged items are never sent again. By default, rejected
items are sent again after 2, 4 and 8 s, then by the next call, and given up at their fifth rejection. Before their
next_retry_at, 60 s after the last rejection, the command asks first, because it would spend an attempt. Only one call at a time works on a group; others are refused. Ctrl-C and SIGTERM end a wait at once, and give requests in
progress 10 s to finish.
Exit codes: 0 all items of the group are uploaded; 3 some are not; 1 an error, or the whole batch was refused;
4 the group is busy; 130, 143 stopped by a signal.

Examples:
  redrive uploads run --upload tiles --group flight-7
  redrive uploads run --upload tiles --group flight-7 -o json -q")]
pub(crate) struct UploadsRunArgs {
    /// The name of a declared upload
    #[arg(long, value_name = "NAME")]
    upload: String,

    /// The group to send
    #[arg(long, value_name = "NAME")]
    group: String,

    /// Send items now that were rejected a moment ago; otherwise the command asks first
    #[arg(long)]
    now: bool,
}

pub(crate) async fn run(args: UploadsRunArgs, context: &Context) -> Result<Exit, CommandError> {
    let config = config_with_upload(&args.upload, context)?;
    let Some(declared) = config.upload(&args.upload) else {
        return Err(CommandError::usage(format!("there is no upload {:?}", args.upload)));
    };
    let group = ItemGroup { upload: args.upload, group: args.group };
    let chosen = context.store(Some(&config))?;
    let store = chosen.open(Some(&config), IfMissing::Refuse).await?;
    let counts = store.item_counts(&group).await.map_err(|error| chosen.store_error(error))?;
    let dropped = match counts.total() {
        0 => dropped_items(&*store, &group).await.map_err(|error| chosen.store_error(error))?,
        _ => 0,
    };
    if dropped > 0 {
        let name = &group.group;
        let note = format!("note: all {dropped} items of group {name:?} were dropped");
        context.output.note(&note);
    } else if counts.total() == 0 {
        let ItemGroup { upload, group } = &group;
        let message = format!("upload {upload:?} has no group {group:?}");
        return Err(CommandError::new(Exit::Error, message).help(format!(
            "`redrive uploads add --upload {upload} --group {group} FILE…` adds items to the group"
        )));
    }
    let worker = new_worker_id()?;
    let progress = UploadProgressDisplay::new(counts.pending, context);
    let content = context.raw(Some(&config))?.content();
    let observer = Some(progress.observer());
    #[cfg(feature = "otel")]
    crate::spans::start(&chosen, context).await?;
    let traces = context.traces();
    let upload = build_upload(declared, &config, store.clone(), content, worker, observer, traces)
        .map_err(|error| CommandError::new(Exit::Error, "cannot start").caused_by(error))?;
    let mut signals = Signals::new()?;
    let begin = async |now| {
        let started = upload.begin(&group, &operator(None), now).await;
        started.map_err(|error| chosen.store_error(error))
    };
    let sending = match begin(args.now).await? {
        // Sending an item before its `next_retry_at` spends one of its attempts (UPL-7).
        Err(SendRefusal::Early(early)) => {
            let question = format!("{early}; sending now spends an attempt. Send?");
            confirm_with("--now", &question, false)?;
            begin(true).await?
        }
        started => started,
    };
    let sending = sending.map_err(|refusal| refused(&refusal, &group))?;
    let end = upload_until(sending, &mut signals).await;
    progress.end();
    let (GroupSent { report, lost }, signal) = match end {
        UploadEnd::Finished(sent, signal) => (sent, signal),
        // Requests in progress may have been acknowledged. The lease expires by itself.
        UploadEnd::Aborted(exit) => return Ok(exit),
    };
    let report = report.map_err(|error| command_error(error, &chosen, &group))?;
    let counts = store.item_counts(&group).await.map_err(|error| chosen.store_error(error))?;
    let summary = UploadSummary::new(&group, &report, &counts);
    context.output.record(&summary)?;
    context.output.section("rejected", &summary.rejections)?;
    if let Some(hints) = summary.hints() {
        context.output.footer(&hints)?;
    }
    if lost {
        let message = "the lease of the group was lost; another upload may have claimed the group";
        return Err(CommandError::new(Exit::Error, message)
            .help("acknowledged items are kept; set a longer `lease` in the [[upload]]"));
    }
    Ok(signal.unwrap_or(summary.exit))
}

fn refused(refusal: &SendRefusal, group: &ItemGroup) -> CommandError {
    let busy = match refusal {
        SendRefusal::Busy(busy) => busy,
        SendRefusal::Early(early) => return CommandError::new(Exit::Refused, early),
    };
    // Round up to full seconds.
    let rest = Duration::from_secs(busy.remaining.as_secs().saturating_add(1));
    let (name, rest) = (&group.group, HumanDuration::from(rest));
    let message = format!("group {name:?} is being uploaded by {busy}; nothing was sent");
    CommandError::new(Exit::Refused, message).help(format!(
        "if that process was killed, its lease ends in {rest}; run the command again then"
    ))
}

enum UploadEnd {
    /// With a report or an error, possibly after a signal.
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
            .help("nothing was sent; the `ready` handler of the [[upload]] decides when to send"),
        error => {
            let message = format!("group {:?}: {error}", group.group);
            CommandError::new(Exit::Error, message).help("acknowledged items are kept")
        }
    }
}
