//! A Rust iterator as a source.

use async_trait::async_trait;
use serde::Serialize;

use super::{SampleSource, SampleWriter, SourceCall, SourceEnd, stage::final_failure};
use crate::Stop;

/// Samples from an iterator. To resume, the iterator is created again, and the samples that were read before are
/// skipped: the iterator must yield the same samples in the same order.
pub struct IteratorSource<F> {
    name: String,
    make: F,
}

impl<F, I> IteratorSource<F>
where
    F: Fn() -> I + Send + Sync,
    I: Iterator + Send,
    I::Item: Serialize,
{
    /// `name` describes the source to operators.
    pub fn new(name: impl Into<String>, make: F) -> Self {
        Self { name: name.into(), make }
    }
}

#[async_trait]
impl<F, I> SampleSource for IteratorSource<F>
where
    F: Fn() -> I + Send + Sync,
    I: Iterator + Send,
    I::Item: Serialize + Send,
{
    fn describe(&self) -> String {
        self.name.clone()
    }

    async fn read(&self, call: &SourceCall, writer: &mut SampleWriter, stop: Stop) -> SourceEnd {
        let mut line = Vec::new();
        for sample in (self.make)() {
            line.clear();
            if let Err(error) = serde_json::to_writer(&mut line, &sample) {
                return SourceEnd::Failed(final_failure(
                    "bad_sample",
                    &format!("cannot serialize a sample as JSON: {error}"),
                ));
            }
            line.push(b'\n');
            if writer.lines() < call.position.lines {
                writer.skip(&line);
            } else if stop.is_stopped() {
                return SourceEnd::Stopped;
            } else if !writer.push(&line).await {
                return writer.end();
            }
        }
        writer.finish().await
    }
}
