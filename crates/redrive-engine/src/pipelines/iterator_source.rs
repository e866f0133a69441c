//! Samples made by Rust.

use async_trait::async_trait;
use serde::Serialize;

use super::{SampleSource, SampleWriter, SourceCall, SourceEnd, stage::final_failure};
use crate::Stop;

/// Samples from an iterator. To read on it is made anew, and what was read before is passed over: it must
/// yield the same again.
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
    /// The samples of an iterator, under a name for people.
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
                    &format!("no JSON: {error}"),
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
