//! `redrive uploads add`: adds files as items of a group.
//!
//! Files are copied under their hash, so that later changes do not matter. With `--in-place` they are not
//! copied, and a file that has changed is not sent. Added items stay, whatever happens to the others.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use redrive::{
    Content, ContentError, ItemGroup, ItemId, ItemStatus, KeptContent, NewContent, NewItem,
    reference_content,
};
use redrive_ops::{ReplaceError, check_replacement};
use redrive_store::{AddedItem, ItemRecord, Selection, Store};
use serde::Serialize;

use super::{config_with_upload, file_entry::FileEntry};
use crate::{
    commands::runs::{InputLine, LineReader, MAX_LINE_BYTES},
    confirm::confirm,
    context::{ChosenStore, Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    operator::operator,
    output::{TableColumn, TableRow},
};

/// Items per transaction.
const BATCH: usize = 256;

/// Items per page of a list.
const PAGE: u32 = 1_000;

/// The most refused files in the result; further ones are counted.
const MAX_SHOWN: usize = 100;

#[derive(Debug, Args)]
#[command(after_help = "\
The name of an item is the path of its file as written here, unique in the group. Adding the same file again is
a no-op; another file under an existing name is refused, unless --changed replaces it. Files are copied to the raw sink of [raw]; with
--in-place they stay at their place, and size and hash are checked when they are sent. Each line of a list is an
object with path, and optionally name, in_place and sha256.
Exit codes: 0 all files are added, now or before; 3 some were refused; 1 all were refused.

Examples:
  redrive uploads add --upload tiles --group flight-7 tiles/*.png
  redrive uploads add --upload tiles --group flight-7 --in-place /data/huge.tif
  redrive uploads add --upload tiles --group flight-7 --from tiles.jsonl -o json
  redrive uploads add --upload tiles --group flight-7 --changed --dry-run")]
pub(crate) struct UploadsAddArgs {
    /// The name of a declared upload
    #[arg(long, value_name = "NAME")]
    upload: String,

    /// The group, created with its first item
    #[arg(long, value_name = "NAME")]
    group: String,

    /// The files to add
    #[arg(value_name = "FILE", required_unless_present_any = ["from", "changed"])]
    files: Vec<PathBuf>,

    /// A list of files as JSON lines; - is standard input
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,

    /// Send the files from their place, without a copy
    #[arg(long)]
    in_place: bool,

    /// Replace items whose content has changed: of the files named here, or without any of all --in-place items of the
    /// group
    #[arg(long)]
    changed: bool,

    /// Show how many items --changed would add and replace, and which it would refuse, without changing anything
    #[arg(long, requires = "changed")]
    dry_run: bool,

    /// Skip the confirmation of --changed
    #[arg(long, requires = "changed")]
    yes: bool,
}

#[derive(Debug, Default, Serialize)]
struct AddedCounts {
    accepted: u64,
    duplicate: u64,
    replaced: u64,
    refused: u64,
    size_bytes: u64,
    refusals: Vec<RefusedFile>,
}

#[derive(Debug, Serialize)]
struct RefusedFile {
    file: String,
    problem: String,
}

impl TableRow for AddedCounts {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("accepted"),
        TableColumn::text("duplicate"),
        TableColumn::text("replaced"),
        TableColumn::text("refused"),
        TableColumn::text("size_bytes"),
    ];

    fn cells(&self) -> Vec<String> {
        [self.accepted, self.duplicate, self.replaced, self.refused, self.size_bytes]
            .map(|count| count.to_string())
            .into()
    }
}

impl TableRow for RefusedFile {
    const COLUMNS: &'static [TableColumn] =
        &[TableColumn::text("file"), TableColumn::text("problem")];

    fn cells(&self) -> Vec<String> {
        vec![self.file.clone(), self.problem.clone()]
    }
}

pub(crate) async fn run(args: UploadsAddArgs, context: &Context) -> Result<Exit, CommandError> {
    let config = config_with_upload(&args.upload, context)?;
    let list = args.from.as_deref().map(open).transpose()?;
    let chosen = context.store(Some(&config))?;
    let missing = if args.dry_run { IfMissing::Imagine } else { IfMissing::Create };
    let store = chosen.open(Some(&config), missing).await?;
    let mut adder = ItemAdder {
        group: ItemGroup { upload: args.upload, group: args.group },
        in_place: args.in_place,
        dry_run: args.dry_run,
        content: context.raw(Some(&config))?.content(),
        store,
        chosen: &chosen,
        batch: Vec::new(),
        changed: args.changed.then(Vec::new),
        counts: AddedCounts::default(),
    };
    let result = match args.files.is_empty() && list.is_none() {
        true => adder.find_changed().await,
        false => adder.add_all(args.files, list).await,
    };
    if result.is_ok()
        && let Err(refusal) = adder.confirm_changed(args.yes || args.dry_run)
    {
        let added = adder.counts.accepted;
        if added == 0 {
            return Err(refusal);
        }
        context.output.record(&adder.counts)?;
        let message = format!("not confirmed; files added: {added}, items replaced: 0");
        return Err(CommandError::new(Exit::Refused, message).help("add --yes to confirm"));
    }
    let result = match result {
        Ok(()) if args.changed => adder.replace_changed(context).await,
        result => result,
    };
    context.output.record(&adder.counts)?;
    context.output.section("refused", &adder.counts.refusals)?;
    if args.dry_run {
        context.output.footer("dry run: nothing was changed")?;
    }
    result?;
    let AddedCounts { accepted, duplicate, replaced, refused, .. } = adder.counts;
    Ok(match (accepted + duplicate + replaced, refused) {
        (_, 0) => Exit::Ok,
        (0, _) => Exit::Error,
        _ => Exit::Partial,
    })
}

fn open(path: &Path) -> Result<Box<dyn Read>, CommandError> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(io::stdin()));
    }
    let file = File::open(path).map_err(|error| {
        CommandError::new(Exit::Error, format!("cannot read {}", path.display())).caused_by(error)
    })?;
    Ok(Box::new(file))
}

/// Why a file is not added.
enum AddError {
    BadFile(String),
    Fatal(CommandError),
}

struct ItemAdder<'a> {
    group: ItemGroup,
    in_place: bool,
    dry_run: bool,
    content: Arc<dyn Content>,
    store: Arc<dyn Store>,
    chosen: &'a ChosenStore,
    batch: Vec<NewItem>,
    /// Items whose content has changed, if those are wanted.
    changed: Option<Vec<(ItemId, KeptContent)>>,
    counts: AddedCounts,
}

impl ItemAdder<'_> {
    async fn add_all(
        &mut self,
        files: Vec<PathBuf>,
        list: Option<Box<dyn Read>>,
    ) -> Result<(), CommandError> {
        for file in files {
            self.add(FileEntry::file(file)).await?;
        }
        let Some(list) = list else { return self.write().await };
        let mut lines = LineReader::new(BufReader::new(list));
        loop {
            let number = lines.number() + 1;
            let line = lines.next().map_err(|error| {
                CommandError::new(Exit::Error, "cannot read the list").caused_by(error)
            })?;
            let entry = match line {
                None => return self.write().await,
                Some(InputLine::Whole(text)) if text.trim_ascii().is_empty() => continue,
                Some(InputLine::Whole(text)) => FileEntry::parse(text),
                Some(InputLine::TooLong) => {
                    Err(format!("the line has more than {MAX_LINE_BYTES} bytes"))
                }
            };
            match entry {
                Ok(entry) => self.add(entry).await?,
                Err(problem) => self.refuse(format!("line {number}"), problem),
            }
        }
    }

    /// Adds a file. An invalid file does not stop the others.
    async fn add(&mut self, entry: FileEntry) -> Result<(), CommandError> {
        match self.item(&entry).await {
            Ok(item) => self.batch.push(item),
            Err(AddError::BadFile(problem)) => {
                self.refuse(entry.path.display().to_string(), problem);
            }
            Err(AddError::Fatal(error)) => return Err(error),
        }
        if self.batch.len() >= BATCH { self.write().await } else { Ok(()) }
    }

    async fn item(&self, entry: &FileEntry) -> Result<NewItem, AddError> {
        let name = entry.name().map_err(AddError::BadFile)?;
        let kept = match self.in_place || entry.in_place || self.dry_run {
            true => reference_content(&entry.path).await,
            false => self.content.keep(NewContent::File(entry.path.clone())).await,
        };
        let kept = kept.map_err(|error| match error {
            ContentError::Write { .. } => AddError::Fatal(CommandError::new(Exit::Error, error)),
            error => AddError::BadFile(error.to_string()),
        })?;
        if let Some(expected) = &entry.sha256
            && !expected.eq_ignore_ascii_case(&kept.sha256)
        {
            let problem = format!("the hash is {}, but the list expects {expected}", kept.sha256);
            return Err(AddError::BadFile(problem));
        }
        kept.into_item(self.group.clone(), name)
            .map_err(|error| AddError::BadFile(error.to_string()))
    }

    async fn write(&mut self) -> Result<(), CommandError> {
        let items = std::mem::take(&mut self.batch);
        let added = match self.dry_run {
            true => self.predict(&items).await,
            false => self.store.add_items(&items, &operator(None)).await,
        };
        let added = added.map_err(|error| self.chosen.store_error(error))?;
        for (item, added) in items.into_iter().zip(added) {
            match added {
                AddedItem::Accepted(_) => {
                    self.counts.accepted += 1;
                    self.counts.size_bytes += item.size_bytes;
                }
                AddedItem::Duplicate(_) => self.counts.duplicate += 1,
                AddedItem::Conflict(id) => match &mut self.changed {
                    Some(changed) => {
                        let NewItem { content_url: url, size_bytes, sha256, .. } = item;
                        changed.push((id, KeptContent { url, size_bytes, sha256 }));
                    }
                    None => {
                        let problem = format!(
                            "item {id} of the group has this name and other content; `uploads replace` or `uploads \
                             add --changed` replaces it, unless it was acknowledged: then choose another name"
                        );
                        self.refuse(item.name, problem);
                    }
                },
            }
        }
        Ok(())
    }

    async fn items_after(&self, after: ItemId) -> redrive_store::Result<Vec<ItemRecord>> {
        let ItemGroup { upload, group } = self.group.clone();
        let filter = Selection { upload: Some(upload), group: Some(group), ..Selection::default() };
        self.store.items_page(&filter, after, PAGE.into()).await
    }

    /// What adding the items would do.
    async fn predict(&self, items: &[NewItem]) -> redrive_store::Result<Vec<AddedItem>> {
        let mut predicted = vec![AddedItem::Accepted(ItemId(0)); items.len()];
        let mut after = ItemId(0);
        loop {
            let page = self.items_after(after).await?;
            let Some(last) = page.last() else { return Ok(predicted) };
            after = last.id;
            let known: HashMap<&str, &ItemRecord> =
                page.iter().map(|item| (item.name.as_str(), item)).collect();
            for (new, added) in items.iter().zip(&mut predicted) {
                *added = match known.get(new.name.as_str()) {
                    Some(item) if item.sha256 == new.sha256 => AddedItem::Duplicate(item.id),
                    Some(item) => AddedItem::Conflict(item.id),
                    None => continue,
                };
            }
        }
    }

    /// Looks for --in-place items of the group whose file has changed.
    async fn find_changed(&mut self) -> Result<(), CommandError> {
        let mut after = ItemId(0);
        loop {
            let page = self.items_after(after).await;
            let page = page.map_err(|error| self.chosen.store_error(error))?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.id;
            for item in page {
                let open = matches!(item.status, ItemStatus::Pending | ItemStatus::UploadGiveup);
                let Some(path) = item.content_url.strip_prefix("file:").filter(|_| open) else {
                    continue;
                };
                match reference_content(Path::new(path)).await {
                    Ok(content) if content.sha256 == item.sha256 => self.counts.duplicate += 1,
                    Ok(content) => self.changed.get_or_insert_default().push((item.id, content)),
                    Err(error) => self.refuse(item.name, error.to_string()),
                }
            }
        }
    }

    /// Offers to replace what has changed.
    fn confirm_changed(&self, yes: bool) -> Result<(), CommandError> {
        let changed = self.changed.as_ref().map_or(0, Vec::len);
        if changed == 0 {
            return Ok(());
        }
        let items = if changed == 1 { "item" } else { "items" };
        let group = &self.group.group;
        let question = format!(
            "Replace the content of {changed} {items} of group {group:?} that has changed?"
        );
        confirm(&question, yes)
    }

    async fn replace_changed(&mut self, context: &Context) -> Result<(), CommandError> {
        let changed = self.changed.take().unwrap_or_default();
        let missing = if self.dry_run { IfMissing::Imagine } else { IfMissing::Refuse };
        let ops = OpenStore::open(context, missing).await?;
        let by = operator(None);
        for (id, content) in changed {
            let size_bytes = content.size_bytes;
            let found = self.store.items_by_id(&[id]).await;
            let found = found.map_err(|error| self.chosen.store_error(error))?;
            let Some(item) = found.into_iter().next() else { continue };
            let replaced = match self.dry_run {
                true => check_replacement(&item, &content),
                false => ops.replace_item(&item, content, &by).await,
            };
            match replaced {
                Ok(()) => {
                    self.counts.replaced += 1;
                    self.counts.size_bytes += size_bytes;
                }
                Err(ReplaceError::Store(error)) => return Err(self.chosen.store_error(error)),
                Err(refusal) => self.refuse(item.name, refusal.to_string()),
            }
        }
        Ok(())
    }

    fn refuse(&mut self, file: String, problem: String) {
        self.counts.refused += 1;
        if self.counts.refusals.len() < MAX_SHOWN {
            self.counts.refusals.push(RefusedFile { file, problem });
        }
    }
}
