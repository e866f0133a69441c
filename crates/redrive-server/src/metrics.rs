//! `/metrics` for Prometheus.
//!
//! The metrics come from the store, so one server covers all workers and a worker needs no port. Counters start with the
//! server.

use std::{fmt, sync::Arc};

use axum::{
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, text},
    metrics::MetricType,
    registry::Registry,
};
use redrive_core::RunState;
use redrive_engine::WriteTimes;
use redrive_ops::{
    AttemptCounters, DurationHistogram,
    views::{OverviewView, QueueStatsView},
};
use redrive_store::TIME_BOUNDS_US;

use crate::{app::AppState, problem::ProblemDetails};

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

type NoLabels = [(&'static str, &'static str); 0];

pub(crate) async fn metrics(app: AppState, headers: HeaderMap) -> Result<Response, ProblemDetails> {
    let (overview, counters) = app.watch.counters().await?;
    let mut registry = Registry::default();
    let write_times = app.write_times.clone();
    let gates = app.ops.shut_keys().await?;
    let collector = MetricsCollector { overview, counters, write_times, gates };
    registry.register_collector(Box::new(collector));
    let mut page = String::new();
    text::encode(&mut page, &registry)
        .map_err(|_| ProblemDetails::bad_request("the metrics cannot be encoded"))?;
    let (format, page) =
        if prefers_text(&headers) { (TEXT, to_text_format(&page)) } else { (OPENMETRICS, page) };
    Ok(([(header::CONTENT_TYPE, HeaderValue::from_static(format))], page).into_response())
}

/// Whether the client asks for the older text format rather than for OpenMetrics.
fn prefers_text(headers: &HeaderMap) -> bool {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|line| line.to_str().ok());
    let accept: Vec<&str> = accept.flat_map(|line| line.split(',')).collect();
    let weight = |kind: &str| {
        let weights = accept.iter().filter(|range| range.trim().starts_with(kind)).map(|range| {
            let q = range.split(';').find_map(|part| part.trim().strip_prefix("q="));
            q.and_then(|q| q.trim().parse().ok()).unwrap_or(1.0)
        });
        weights.fold(0.0, f64::max)
    };
    weight("text/plain") > weight("application/openmetrics-text")
}

/// Converts OpenMetrics. The older format names a counter with its suffix, and has no end mark.
fn to_text_format(page: &str) -> String {
    let counters: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut text = String::with_capacity(page.len());
    for line in page.lines().filter(|line| *line != "# EOF") {
        let comment = line.strip_prefix("# ").and_then(|rest| {
            let (keyword, rest) = rest.split_once(' ')?;
            let (name, rest) = rest.split_once(' ')?;
            counters.contains(&name).then(|| format!("# {keyword} {name}_total {rest}"))
        });
        text.push_str(comment.as_deref().unwrap_or(line));
        text.push('\n');
    }
    text
}

#[derive(Debug)]
struct MetricsCollector {
    overview: Arc<OverviewView>,
    counters: AttemptCounters,
    write_times: Arc<WriteTimes>,
    /// Keys that are not open, by gate.
    gates: Vec<(String, u64)>,
}

impl Collector for MetricsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.build(&mut encoder)?;
        self.units(&mut encoder)?;
        self.queues(&mut encoder)?;
        self.gates(&mut encoder)?;
        self.attempts(&mut encoder)?;
        self.times(&mut encoder)
    }
}

impl MetricsCollector {
    fn build(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "The version of the server";
        let mut info =
            encoder.encode_descriptor("redrive_build_info", help, None, MetricType::Gauge)?;
        info.encode_family(&[("version", env!("CARGO_PKG_VERSION"))])?.encode_gauge(&1.0)
    }

    fn gates(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Keys of a gate that are not open; 1 for a closed gate without keys";
        let mut shut =
            encoder.encode_descriptor("redrive_gate_shut_keys", help, None, MetricType::Gauge)?;
        for (gate, keys) in &self.gates {
            shut.encode_family(&[("gate", gate.as_str())])?.encode_gauge(&(*keys as f64))?;
        }
        Ok(())
    }

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
        type Figure = fn(&QueueStatsView) -> u64;
        let figures: [(&str, &str, Figure); 3] = [
            ("redrive_queue_depth", "Runs of a queue that wait for an attempt", depth),
            ("redrive_queue_given_up", "Runs of a queue that were given up", |queue| {
                count(queue, RunState::GivenUp)
            }),
            ("redrive_queue_paused", "Whether a queue is paused: 1 or 0", |queue| {
                queue.paused_at.is_some().into()
            }),
        ];
        for (name, help, figure) in figures {
            let mut gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for queue in &self.overview.queues {
                let labels = [("queue", queue.queue.as_str())];
                gauge.encode_family(&labels)?.encode_gauge(&(figure(queue) as f64))?;
            }
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

fn count(queue: &QueueStatsView, state: RunState) -> u64 {
    queue.counts.iter().filter(|(known, _)| *known == state).map(|(_, runs)| runs).sum()
}

fn depth(queue: &QueueStatsView) -> u64 {
    count(queue, RunState::Discovered) + count(queue, RunState::WaitingForRetry)
}

/// The last bucket has no upper bound.
fn encode(mut encoder: MetricEncoder<'_>, histogram: &DurationHistogram) -> fmt::Result {
    let bounds = TIME_BOUNDS_US.iter().map(|bound| *bound as f64 / 1e6).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(histogram.counts).collect();
    let count = histogram.counts.iter().sum();
    encoder.encode_histogram::<NoLabels>(histogram.seconds, count, &buckets, None)
}
