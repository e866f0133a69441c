//! The sample counts of each stage, as rows.

use redrive_ops::views::StageCountView;

use crate::output::{TableColumn, TableRow};

impl TableRow for StageCountView {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("stage"),
        TableColumn::number("done"),
        TableColumn::number("ready"),
        TableColumn::number("in flight"),
        TableColumn::number("retrying"),
        TableColumn::number("skipped"),
        TableColumn::number("dead"),
    ];

    fn cells(&self) -> Vec<String> {
        let counts = [self.done, self.ready, self.in_flight, self.retrying, self.skipped, self.dlq];
        let counts = counts.iter().map(u64::to_string);
        std::iter::once(self.stage.clone()).chain(counts).collect()
    }
}
