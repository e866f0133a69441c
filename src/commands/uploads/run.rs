//! `redrive uploads run`: sends what is pending in a group.

use std::{sync::Arc, time::Duration};

use clap::Args;
use redrive::{
    GroupLease, HumanDuration, ItemGroup, UploadError, UploadReport, UploadRequest, Uploader,
    config::{Config, Upload},
    declared_giveup_file, declared_upload,
};
use redrive_engine::{Clock, Stopper, SystemClock};
use redrive_store::{Store, WorkerId, Written};

use super::{declaring, progress::Progress, summary::Summary};
use crate::{
    context::{ChosenStore, Context, Missing},
    exit::{Exit, Failure},
    signals::Signals,
    works::worker_name,
};

/// The arguments of `uploads run`.
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
pub(crate) struct Arguments {
    /// The upload, as the configuration names it
    #[arg(long, value_name = "NAME")]
    upload: String,

    /// The group
    #[arg(long, value_name = "NAME")]
    group: String,
}

/// Runs `uploads run`.
pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<Exit, Failure> {
    let config = declaring(&arguments.upload, context)?;
    let Some(declared) = config.upload(&arguments.upload) else {
        return Err(Failure::usage(format!("there is no upload {:?}", arguments.upload)));
    };
    let group = ItemGroup { upload: arguments.upload, group: arguments.group };
    let chosen = context.store(Some(&config))?;
    let store = chosen.open(Some(&config), Missing::Refuse).await?;
    let counts = store.item_counts(&group).await.map_err(|error| chosen.failure(error))?;
    if counts.total() == 0 {
        let ItemGroup { upload, group } = &group;
        let message = format!("upload {upload:?} has no group {group:?}: nothing was added to it");
        return Err(Failure::new(Exit::Error, message).help(format!(
            "`redrive uploads add --upload {upload} --group {group} FILE…` adds to it"
        )));
    }
    let worker = worker_name()?;
    let progress = Progress::new(counts.pending, context);
    let content = context.raw(Some(&config))?.content();
    let folder = &config.folder;
    let observer = Some(progress.observer());
    let uploader = declared_upload(declared, folder, store.clone(), content, &worker, observer)
        .map_err(|error| Failure::new(Exit::Error, "cannot start").because(error))?;
    #[cfg(feature = "otel")]
    crate::spans::start(&chosen).await?;
    let mut signals = Signals::new()?;
    let lease = take(&store, &group, worker, declared, &chosen).await?;
    tell_missed_giveups(declared, &config, &*store).await;

    let ended = upload(&*uploader, &group, &lease, &mut signals).await;
    progress.end();
    let (report, signal) = match ended {
        Ended::ByItself(report, signal) => (report, signal),
        // What was under way may have been acknowledged; the lease ends by itself.
        Ended::AtOnce(exit) => return Ok(exit),
    };
    let why = match (&report, signal) {
        (_, Some(_)) => "shutdown",
        (Ok(_), None) => "done",
        (Err(_), None) => "error",
    };
    let mut lost = lease.lost().is_told();
    match lease.release(why, SystemClock.now()).await {
        Ok(written) => lost |= written == Written::Stale,
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "cannot give the group back; it is free when its lease ends");
        }
    }
    let report = report.map_err(|error| failure(error, &chosen, &group))?;
    let counts = store.item_counts(&group).await.map_err(|error| chosen.failure(error))?;
    let summary = Summary::new(&group, &report, &counts);
    context.output.record(&summary)?;
    context.output.remark_list("rejected", &summary.rejections)?;
    if let Some(advice) = summary.advice() {
        context.output.remark(&advice)?;
    }
    if lost {
        let message = "the lease on the group was lost: another upload may have it";
        return Err(Failure::new(Exit::Error, message)
            .help("what was acknowledged is kept; a longer `lease` in the [[upload]] helps"));
    }
    Ok(signal.unwrap_or_else(|| summary.exit(report.outcome)))
}

async fn take(
    store: &Arc<dyn Store>,
    group: &ItemGroup,
    worker: WorkerId,
    declared: &Upload,
    chosen: &ChosenStore,
) -> Result<GroupLease, Failure> {
    let taken = GroupLease::take(store.clone(), group, worker, declared.lease).await;
    taken.map_err(|error| chosen.failure(error))?.map_err(|busy| {
        // Nobody waits for a part of a second.
        let rest = Duration::from_secs(busy.remaining.as_secs().saturating_add(1));
        let (owner, rest) = (busy.owner, HumanDuration::from(rest));
        let name = &group.group;
        let message = format!("group {name:?} is being uploaded by {owner}; nothing was sent");
        Failure::new(Exit::Refused, message)
            .help(format!("if it was killed, the group is free when its lease ends, in {rest}"))
    })
}

/// What an upload that was killed could not say any more.
async fn tell_missed_giveups(declared: &Upload, config: &Config, store: &dyn Store) {
    let Some(file) = declared_giveup_file(declared, &config.folder) else { return };
    if let Err(error) = file.catch_up(store).await {
        let error = &error as &dyn std::error::Error;
        tracing::warn!(error, "cannot write the file of give-ups; the journal has them");
    }
}

/// How an upload came to its end.
enum Ended {
    /// With a report or an error, perhaps after a signal.
    ByItself(Result<UploadReport, UploadError>, Option<Exit>),
    /// By a second signal.
    AtOnce(Exit),
}

async fn upload(
    uploader: &dyn Uploader,
    group: &ItemGroup,
    lease: &GroupLease,
    signals: &mut Signals,
) -> Ended {
    let (stopper, stop) = Stopper::new();
    let request = UploadRequest::new(group.clone()).with_stop(stop);
    let mut work = Box::pin(uploader.upload_pending(&request));
    let mut lost = lease.lost();
    let signal = tokio::select! {
        report = &mut work => return Ended::ByItself(report, None),
        exit = signals.next() => Some(exit),
        () = lost.told() => None,
    };
    stopper.stop();
    tracing::info!("stopping: what is under way may end, nothing more is sent");
    tokio::select! {
        report = &mut work => Ended::ByItself(report, signal),
        again = signals.next() => Ended::AtOnce(again),
    }
}

fn failure(error: UploadError, chosen: &ChosenStore, group: &ItemGroup) -> Failure {
    match error {
        UploadError::Store(error) => chosen.failure(error),
        error @ UploadError::NotReady(_) => Failure::new(Exit::Error, error)
            .help("nothing was sent; `ready` of the [[upload]] says when"),
        error => {
            let message = format!("group {:?}: {error}", group.group);
            Failure::new(Exit::Error, message).help("what was acknowledged before is kept")
        }
    }
}
