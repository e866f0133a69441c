//! `/metrics` for Prometheus.
//!
//! The metrics come from the store, so one server covers all workers and a worker needs no port. Counters start with the
//! server.

use std::{fmt, sync::Arc};

use axum::{
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, text},
    metrics::MetricType,
    registry::Registry,
};
use redrive_engine::WriteTimes;
use redrive_ops::{AttemptCounters, DurationHistogram, views::OverviewView};
use redrive_store::TIME_BOUNDS_US;

use crate::{app::AppState, problem::ProblemDetails};

const FORMAT: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

type NoLabels = [(&'static str, &'static str); 0];

pub(crate) async fn metrics(app: AppState) -> Result<Response, ProblemDetails> {
    let (overview, counters) = app.watch.counters().await?;
    let mut registry = Registry::default();
    let write_times = app.write_times.clone();
    registry.register_collector(Box::new(MetricsCollector { overview, counters, write_times }));
    let mut page = String::new();
    text::encode(&mut page, &registry)
        .map_err(|_| ProblemDetails::bad_request("the metrics cannot be encoded"))?;
    Ok(([(header::CONTENT_TYPE, FORMAT)], page).into_response())
}

#[derive(Debug)]
struct MetricsCollector {
    overview: Arc<OverviewView>,
    counters: AttemptCounters,
    write_times: Arc<WriteTimes>,
}

impl Collector for MetricsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.units(&mut encoder)?;
        self.queues(&mut encoder)?;
        self.attempts(&mut encoder)?;
        self.times(&mut encoder)
    }
}

impl MetricsCollector {
    fn units(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Units by kind and state";
        let mut units =
            encoder.encode_descriptor("redrive_units", help, None, MetricType::Gauge)?;
        for unit in &self.overview.units {
            let labels = [("kind", unit.kind), ("state", unit.state)];
            units.encode_family(&labels)?.encode_gauge(&(unit.count as f64))?;
        }
        let sum = |kind: &str, state: &str| -> u64 {
            let units = self.overview.units.iter();
            let matching = units.filter(|unit| unit.kind == kind && unit.state == state);
            matching.map(|unit| unit.count).sum()
        };
        let help = "Dead letters of all pipelines";
        encoder
            .encode_descriptor("redrive_dlq_depth", help, None, MetricType::Gauge)?
            .encode_gauge(&(sum("sample", "dlq") as f64))?;
        let help = "Runs that wait for a retry";
        encoder
            .encode_descriptor("redrive_retries_scheduled", help, None, MetricType::Gauge)?
            .encode_gauge(&(sum("run", "waiting_for_retry") as f64))
    }

    fn queues(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Seconds since the oldest ready run of a queue was submitted";
        let mut ages = encoder.encode_descriptor(
            "redrive_queue_oldest_ready_seconds",
            help,
            None,
            MetricType::Gauge,
        )?;
        for queue in &self.overview.queues {
            let age = queue.oldest_ready_age.unwrap_or_default().as_secs_f64();
            ages.encode_family(&[("queue", queue.queue.as_str())])?.encode_gauge(&age)?;
        }
        Ok(())
    }

    fn attempts(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Attempts that ended, of every worker, since the server started";
        let mut attempts =
            encoder.encode_descriptor("redrive_attempts", help, None, MetricType::Counter)?;
        for ((kind, outcome, class), count) in &self.counters.attempts {
            let labels = [("kind", *kind), ("outcome", *outcome), ("class", class.as_str())];
            let mut attempts = attempts.encode_family(&labels)?;
            attempts.encode_counter::<NoLabels, _, u64>(count, None)?;
        }
        let help = "Attempts that ended because their worker lost the lease";
        let mut lost =
            encoder.encode_descriptor("redrive_leases_lost", help, None, MetricType::Counter)?;
        for (kind, count) in &self.counters.lost {
            let labels = [("kind", *kind)];
            let mut lost = lost.encode_family(&labels)?;
            lost.encode_counter::<NoLabels, _, u64>(count, None)?;
        }
        Ok(())
    }

    fn times(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let kind = MetricType::Histogram;
        let help = "Duration of attempts";
        let mut durations =
            encoder.encode_descriptor("redrive_attempt_duration_seconds", help, None, kind)?;
        for (kind, histogram) in &self.counters.durations {
            encode(durations.encode_family(&[("kind", *kind)])?, histogram)?;
        }
        let help = "Wait of runs for their first attempt, from their earliest start";
        let lag = encoder.encode_descriptor("redrive_queue_lag_seconds", help, None, kind)?;
        encode(lag, &self.counters.lags)?;
        let help = "Duration of result writes by the workers in this process";
        let name = "redrive_store_write_seconds";
        let writes = encoder.encode_descriptor(name, help, None, kind)?;
        let (counts, seconds) = self.write_times.read();
        encode(writes, &DurationHistogram { counts, seconds })
    }
}

/// The last bucket has no upper bound.
fn encode(mut encoder: MetricEncoder<'_>, histogram: &DurationHistogram) -> fmt::Result {
    let bounds = TIME_BOUNDS_US.iter().map(|bound| *bound as f64 / 1e6).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(histogram.counts).collect();
    let count = histogram.counts.iter().sum();
    encoder.encode_histogram::<NoLabels>(histogram.seconds, count, &buckets, None)
}
