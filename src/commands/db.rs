//! `redrive db migrate | rollback | status | backup`: manages the schema of a store (OPS-2, OPS-8).

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use redrive::{StoreUrl, config::Config, jiff::Timestamp, migrator};
use redrive_engine::{Clock, SystemClock};
use redrive_ops::views::MigrationView;
use redrive_store::{Direction, Error, Leased, MAX_PAGE, MigrationStep, Migrator, Store};
use serde::Serialize;

use crate::{
    confirm::confirm,
    context::{ChosenStore, Context, IfMissing},
    exit::{CommandError, Exit},
    output::{TableColumn, TableRow},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redrive db status
  redrive db migrate --store postgres://redrive@db.example/redrive
  redrive db rollback --to 1 --yes
  redrive db backup nightly.db")]
pub(crate) struct DbArgs {
    #[command(subcommand)]
    command: DbCommand,
}

#[derive(Debug, Subcommand)]
enum DbCommand {
    /// Migrate the schema to the latest version
    #[command(after_help = "\
A SQLite store is migrated whenever it is opened. A PostgreSQL store is migrated by this command and by
`redrive up`, never by a worker.

Examples:
  redrive db migrate
  redrive db migrate --store postgres://redrive@db.example/redrive")]
    Migrate,
    /// Roll the schema back; data that only the newer schema can store is lost
    #[command(after_help = "\
While workers or uploads hold leases that have not ended, the command refuses with exit code 4 and names them.

Examples:
  redrive db rollback              roll back one version, after confirmation
  redrive db rollback --to 0 --yes remove all data of Redrive")]
    Rollback {
        /// The target version [default: the one before the current version]
        #[arg(long, value_name = "N")]
        to: Option<u32>,

        /// Skip the confirmation
        #[arg(long)]
        yes: bool,
    },
    /// List the migrations and which of them the store has
    #[command(after_help = "\
Examples:
  redrive db status
  redrive db status -o json")]
    Status,
    /// Back up a SQLite store to a new file, while the store is in use
    #[command(after_help = "\
Examples:
  redrive db backup /backups/redrive-monday.db")]
    Backup {
        /// The file to create
        file: PathBuf,
    },
}

impl TableRow for MigrationView {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::number("version"),
        TableColumn::text("name"),
        TableColumn::text("applied at"),
    ];

    fn cells(&self) -> Vec<String> {
        let applied_at = self.applied_at.clone().unwrap_or_else(|| "pending".to_owned());
        vec![self.version.to_string(), self.name.clone(), applied_at]
    }
}

#[derive(Debug, Serialize)]
struct MigrationStepRow {
    version: u32,
    name: &'static str,
    direction: &'static str,
}

impl TableRow for MigrationStepRow {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::number("version"),
        TableColumn::text("name"),
        TableColumn::text("direction"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![self.version.to_string(), self.name.to_owned(), self.direction.to_owned()]
    }
}

impl From<&MigrationStep> for MigrationStepRow {
    fn from(step: &MigrationStep) -> Self {
        let direction = match step.direction {
            Direction::Up => "up",
            Direction::Down => "down",
        };
        Self { version: step.migration.version, name: step.migration.name, direction }
    }
}

pub(crate) async fn run(args: DbArgs, context: &Context) -> Result<Exit, CommandError> {
    let config = context.config()?;
    let store = context.store(config.as_ref())?;
    let migrator = || migrator(&store.url).map_err(|error| store.store_error(error));
    match args.command {
        DbCommand::Migrate => migrate(&store, context).await,
        DbCommand::Rollback { to, yes } => {
            rollback(&store, &*migrator()?, to, yes, config.as_ref(), context).await
        }
        DbCommand::Status => status(&store, &*migrator()?, context).await,
        DbCommand::Backup { file } => backup(&store, &file, context),
    }
}

async fn migrate(store: &ChosenStore, context: &Context) -> Result<Exit, CommandError> {
    let steps = store.migrate().await?;
    print_steps(&steps, "the schema is up to date", store, context)
}

async fn rollback(
    store: &ChosenStore,
    migrator: &dyn Migrator,
    to: Option<u32>,
    yes: bool,
    config: Option<&Config>,
    context: &Context,
) -> Result<Exit, CommandError> {
    let status = migrator.status().await.map_err(|error| store.store_error(error))?;
    let current = status.current();
    if current > migrator.latest() {
        let newer = Error::NewerSchema { found: current, known: migrator.latest() };
        return Err(store.store_error(newer));
    }
    let target = to.unwrap_or(current.saturating_sub(1));
    if target > current {
        let message = format!("cannot roll back to {target}: the store has schema {current}");
        return Err(CommandError::usage(message).help("`redrive db migrate` migrates forward"));
    }
    if target < current {
        // Programs of this version hold no leases in an older schema.
        if current == migrator.latest() {
            refuse_live_workers(store, config).await?;
        }
        let url = &store.url;
        let lost = if target == 0 { "everything in it" } else { "the data of the newer schema" };
        let question =
            format!("Roll {url} back from schema {current} to {target} and lose {lost}?");
        confirm(&question, yes)?;
    }
    let steps = migrator
        .migrate_to(target, SystemClock.now())
        .await
        .map_err(|error| store.store_error(error))?;
    print_steps(&steps, "there is nothing to roll back", store, context)
}

/// Fails if a lease has not ended: its holder is working with the data.
async fn refuse_live_workers(
    chosen: &ChosenStore,
    config: Option<&Config>,
) -> Result<(), CommandError> {
    let store = chosen.open(config, IfMissing::Refuse).await?;
    let live = live_workers(&*store).await.map_err(|error| chosen.store_error(error))?;
    if live.is_empty() {
        return Ok(());
    }
    let workers = live.iter().map(|(worker, leases)| format!("{worker} ({leases})"));
    let workers = workers.collect::<Vec<_>>().join(", ");
    let message =
        format!("workers hold leases that have not ended: {workers}; nothing was changed");
    Err(CommandError::new(Exit::Refused, message)
        .help("stop the workers, or wait until the leases of killed workers end"))
}

/// The holders of leases that have not ended, and how many leases each holds.
async fn live_workers(store: &dyn Store) -> redrive_store::Result<BTreeMap<String, usize>> {
    let (now, mut live) = (store.now(), BTreeMap::new());
    for kind in Leased::ALL {
        let mut after = 0;
        loop {
            // All leases have ended by then.
            let page = store.expired_leases(kind, Timestamp::MAX, None, after, MAX_PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.lease.id;
            for lease in page.into_iter().filter(|lease| lease.until > now) {
                *live.entry(lease.owner.0).or_default() += 1;
            }
        }
    }
    Ok(live)
}

fn print_steps(
    steps: &[MigrationStep],
    if_none: &str,
    store: &ChosenStore,
    context: &Context,
) -> Result<Exit, CommandError> {
    if steps.is_empty() {
        context.output.note(&format!("{}: {if_none}", store.url));
    }
    if !steps.is_empty() || !context.output.is_table() {
        context.output.list(steps.iter().map(MigrationStepRow::from))?;
    }
    Ok(Exit::Ok)
}

async fn status(
    store: &ChosenStore,
    migrator: &dyn Migrator,
    context: &Context,
) -> Result<Exit, CommandError> {
    let schema = migrator.status().await.map_err(|error| store.store_error(error))?;
    context.output.list(MigrationView::all(&schema))?;
    context.output.footer(&format!("{} ({})", store.url, store.chosen_by))?;
    if schema.current() > schema.latest() {
        context.output.note("the schema is newer than this program supports; use a newer redrive");
    }
    Ok(Exit::Ok)
}

fn backup(store: &ChosenStore, file: &Path, context: &Context) -> Result<Exit, CommandError> {
    let StoreUrl::SqliteFile(path) = &store.url else {
        let message = format!("{} is not a SQLite file", store.url);
        return Err(CommandError::new(Exit::Error, message)
            .help("for PostgreSQL use pg_dump --schema=redrive"));
    };
    redrive_sqlite::backup(path, file).map_err(|error| store.store_error(error))?;
    let copy = BackupRow { store: store.url.to_string(), backup: file.display().to_string() };
    context.output.record(&copy)?;
    Ok(Exit::Ok)
}

#[derive(Debug, Serialize)]
struct BackupRow {
    store: String,
    backup: String,
}

impl TableRow for BackupRow {
    const COLUMNS: &'static [TableColumn] =
        &[TableColumn::text("store"), TableColumn::text("backup")];

    fn cells(&self) -> Vec<String> {
        vec![self.store.clone(), self.backup.clone()]
    }
}
