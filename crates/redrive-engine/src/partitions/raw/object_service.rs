//! The object stores that are supported, by name.

/// An object store that raw partitions can be kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectService {
    /// Amazon S3 and compatible servers.
    S3,
    Gcs,
    Azure,
}

impl ObjectService {
    pub fn scheme(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Gcs => "gs",
            Self::Azure => "az",
        }
    }

    pub(super) fn url(self, bucket: &str, prefix: &str) -> String {
        let url = format!("{}://{bucket}/{prefix}", self.scheme());
        url.trim_end_matches('/').to_owned()
    }
}
