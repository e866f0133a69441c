//! Stands in for the object stores without the feature `objects`: no value of these types exists.

use bytes::Bytes;
use redrive_core::{PartitionKey, PartitionRunId};

use super::{ObjectService, RawSink, error::RawError, layout::RunPath};

#[derive(Debug, Clone)]
pub(crate) enum Objects {}

#[derive(Debug)]
pub(super) enum ObjectWriter {}

pub(crate) enum ObjectReader {}

impl Objects {
    pub(crate) fn url(&self) -> &str {
        match *self {}
    }

    pub(super) fn begin(&self, _: &RunPath) -> ObjectWriter {
        match *self {}
    }

    pub(super) async fn metadata(&self, _: &RunPath) -> Result<Option<Vec<u8>>, RawError> {
        match *self {}
    }

    pub(super) async fn payload(&self, _: &RunPath) -> Result<Option<ObjectReader>, RawError> {
        match *self {}
    }

    pub(super) async fn runs(&self, _: &PartitionKey) -> Result<Vec<PartitionRunId>, RawError> {
        match *self {}
    }

    pub(super) async fn check(&self) -> Result<(), RawError> {
        match *self {}
    }
}

impl RawSink {
    /// Fails: this build has no object stores. Enable the feature `objects`.
    pub fn bucket(
        service: ObjectService,
        bucket: &str,
        prefix: &str,
        _: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, RawError> {
        let url = service.url(bucket, prefix.trim_matches('/'));
        let problem = "this program was built without the feature `objects`".to_owned();
        Err(RawError::Unusable { url, problem })
    }
}

impl ObjectWriter {
    pub(super) async fn write(&mut self, _: &[u8]) -> Result<(), RawError> {
        match *self {}
    }

    pub(super) async fn seal(self, _: Vec<u8>) -> Result<(), RawError> {
        match self {}
    }

    pub(super) async fn abort(self) -> Result<(), RawError> {
        match self {}
    }
}

impl ObjectReader {
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, RawError> {
        match *self {}
    }
}
