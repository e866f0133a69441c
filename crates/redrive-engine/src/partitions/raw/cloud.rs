//! Object stores by name, with what the environment says of them.
//!
//! Credentials, regions and endpoints are in the variables that the services' own tools read; `AWS_…`,
//! `GOOGLE_…`, `AZURE_…`. A server that speaks S3 is named by `AWS_ENDPOINT_URL`, and by
//! `AWS_ALLOW_HTTP=true` if it has no TLS; one that speaks as Google's or Azure's do by `GOOGLE_BASE_URL`
//! or `AZURE_STORAGE_ENDPOINT`, and `GOOGLE_ALLOW_HTTP` or `AZURE_ALLOW_HTTP`.

use std::{sync::Arc, time::Duration};

use object_store::{
    BackoffConfig, ObjectStore, RetryConfig, aws::AmazonS3Builder, azure::MicrosoftAzureBuilder,
    gcp::GoogleCloudStorageBuilder,
};

use super::{RawError, RawSink, http_client::EngineHttp};

/// An object store that raw partitions can be kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectService {
    /// Amazon S3 and what speaks its protocol.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azure,
}

/// An outage that lasts longer is the partition's to wait for, by its own policy.
const RETRIES: usize = 5;

const RETRY_LIMIT: Duration = Duration::from_secs(60);

impl ObjectService {
    fn scheme(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Gcs => "gs",
            Self::Azure => "az",
        }
    }

    fn variables(self) -> &'static str {
        match self {
            Self::S3 => "AWS_",
            Self::Gcs => "GOOGLE_",
            Self::Azure => "AZURE_",
        }
    }
}

impl RawSink {
    /// A sink in a bucket, or a container. Of the environment, the service's own variables are used; the
    /// network is not, until something is read or written.
    pub fn bucket(
        service: ObjectService,
        bucket: &str,
        prefix: &str,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, RawError> {
        let prefix = prefix.trim_matches('/');
        let url = format!("{}://{bucket}/{prefix}", service.scheme());
        let url = url.trim_end_matches('/').to_owned();
        let settings = environment
            .into_iter()
            .filter(|(name, _)| name.starts_with(service.variables()))
            .map(|(name, value)| (name.to_ascii_lowercase(), value));
        let store = connect(service, bucket, settings).map_err(|error| {
            let problem = error.to_string();
            RawError::Unusable { url: url.clone(), problem }
        })?;
        Self::objects(store, prefix, url)
    }
}

fn connect(
    service: ObjectService,
    bucket: &str,
    settings: impl Iterator<Item = (String, String)>,
) -> object_store::Result<Arc<dyn ObjectStore>> {
    let retry = RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: RETRIES,
        retry_timeout: RETRY_LIMIT,
    };
    // A variable of the service that says nothing of storage is not ours to judge.
    match service {
        ObjectService::S3 => settings
            .filter_map(|(name, value)| Some((name.parse().ok()?, value)))
            .fold(AmazonS3Builder::new(), |builder, (key, value)| builder.with_config(key, value))
            .with_bucket_name(bucket)
            .with_retry(retry)
            .with_http_connector(EngineHttp)
            .build()
            .map(|store| Arc::new(store) as _),
        ObjectService::Gcs => settings
            .filter_map(|(name, value)| Some((name.parse().ok()?, value)))
            .fold(GoogleCloudStorageBuilder::new(), |builder, (key, value)| {
                builder.with_config(key, value)
            })
            .with_bucket_name(bucket)
            .with_retry(retry)
            .with_http_connector(EngineHttp)
            .build()
            .map(|store| Arc::new(store) as _),
        ObjectService::Azure => settings
            .filter_map(|(name, value)| Some((name.parse().ok()?, value)))
            .fold(MicrosoftAzureBuilder::new(), |builder, (key, value)| {
                builder.with_config(key, value)
            })
            .with_container_name(bucket)
            .with_retry(retry)
            .with_http_connector(EngineHttp)
            .build()
            .map(|store| Arc::new(store) as _),
    }
}
