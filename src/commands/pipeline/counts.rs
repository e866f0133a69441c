//! Where the samples of a run are, stage by stage, as it is printed.

use redrive_ops::views::StageCountView;

use crate::output::{Column, Row};

impl Row for StageCountView {
    const COLUMNS: &'static [Column] = &[
        Column::text("stage"),
        Column::number("done"),
        Column::number("ready"),
        Column::number("in flight"),
        Column::number("retrying"),
        Column::number("skipped"),
        Column::number("dead"),
    ];

    fn cells(&self) -> Vec<String> {
        let counts = [self.done, self.ready, self.in_flight, self.retrying, self.skipped, self.dlq];
        let counts = counts.iter().map(u64::to_string);
        std::iter::once(self.stage.clone()).chain(counts).collect()
    }
}
