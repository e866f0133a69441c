//! The rows that benchmarks print, most of them with the figure of a bare loop and the ratio to it.

use serde::Serialize;

use crate::output::{ReportColumn, ReportRow, grouped};

/// The rate of an operation in batches, and that of the bare loop.
#[derive(Debug, Serialize)]
pub(crate) struct Throughput {
    operation: &'static str,
    batch: usize,
    per_second: f64,
    bare_per_second: f64,
    ratio: f64,
}

impl Throughput {
    pub(crate) fn new(
        operation: &'static str,
        batch: usize,
        per_second: f64,
        bare_per_second: f64,
    ) -> Self {
        Self {
            operation,
            batch,
            per_second: per_second.round(),
            bare_per_second: bare_per_second.round(),
            ratio: thousandths(per_second / bare_per_second),
        }
    }
}

impl ReportRow for Throughput {
    const COLUMNS: &'static [ReportColumn] = &[
        ReportColumn::text("operation"),
        ReportColumn::number("batch"),
        ReportColumn::number("per second"),
        ReportColumn::number("bare loop"),
        ReportColumn::number("ratio"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.operation.to_owned(),
            self.batch.to_string(),
            grouped(self.per_second),
            grouped(self.bare_per_second),
            format!("{:.2}", self.ratio),
        ]
    }
}

/// A figure with its unit, and that of the bare loop where there is one.
#[derive(Debug, Serialize)]
pub(crate) struct Measurement {
    measure: &'static str,
    value: f64,
    unit: &'static str,
    bare: Option<f64>,
    ratio: Option<f64>,
}

impl Measurement {
    /// A rate per second.
    pub(crate) fn rate(measure: &'static str, value: f64, bare: f64) -> Self {
        let ratio = Some(thousandths(value / bare));
        Self { measure, value: value.round(), unit: "per second", bare: Some(bare.round()), ratio }
    }

    pub(crate) fn milliseconds(measure: &'static str, value: f64, bare: f64) -> Self {
        let ratio = Some(thousandths(value / bare));
        let (value, bare) = (thousandths(value), Some(thousandths(bare)));
        Self { measure, value, unit: "ms", bare, ratio }
    }

    pub(crate) fn microseconds(measure: &'static str, value: f64, bare: f64) -> Self {
        Self { unit: "µs", ..Self::milliseconds(measure, value, bare) }
    }

    /// A figure that no bare loop has.
    pub(crate) fn alone(measure: &'static str, value: f64, unit: &'static str) -> Self {
        Self { measure, value: thousandths(value), unit, bare: None, ratio: None }
    }
}

impl ReportRow for Measurement {
    const COLUMNS: &'static [ReportColumn] = &[
        ReportColumn::text("measure"),
        ReportColumn::number("value"),
        ReportColumn::text("unit"),
        ReportColumn::number("bare loop"),
        ReportColumn::number("ratio"),
    ];

    fn cells(&self) -> Vec<String> {
        let number = |n: f64| if n < 1_000.0 { n.to_string() } else { grouped(n) };
        vec![
            self.measure.to_owned(),
            number(self.value),
            self.unit.to_owned(),
            self.bare.map_or_else(String::new, number),
            self.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
        ]
    }
}

fn thousandths(number: f64) -> f64 {
    (number * 1_000.0).round() / 1_000.0
}
