//! Object stores by service, configured by environment variables.
//!
//! Credentials, regions and endpoints are in the variables that the tools of the services read: `AWS_…`,
//! `GOOGLE_…`, `AZURE_…`. For another S3 server set `AWS_ENDPOINT_URL`, and `AWS_ALLOW_HTTP=true` if the server
//! has no TLS. For emulators of the other services set `GOOGLE_BASE_URL` or `AZURE_STORAGE_ENDPOINT`, and
//! `GOOGLE_ALLOW_HTTP` or `AZURE_ALLOW_HTTP`.

use std::{sync::Arc, time::Duration};

use object_store::{
    BackoffConfig, ObjectStore, RetryConfig, aws::AmazonS3Builder, azure::MicrosoftAzureBuilder,
    gcp::GoogleCloudStorageBuilder,
};

use super::{ObjectService, RawError, RawSink, http_client::EngineHttp};

/// A longer outage fails the attempt, and the policy of the partition decides about the next one.
const RETRIES: usize = 5;

const RETRY_LIMIT: Duration = Duration::from_secs(60);

impl ObjectService {
    fn variables(self) -> &'static str {
        match self {
            Self::S3 => "AWS_",
            Self::Gcs => "GOOGLE_",
            Self::Azure => "AZURE_",
        }
    }
}

impl RawSink {
    /// A sink in a bucket or a container. Uses the variables of the service in `environment`. Sends nothing until
    /// the first read or write.
    pub fn bucket(
        service: ObjectService,
        bucket: &str,
        prefix: &str,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, RawError> {
        let prefix = prefix.trim_matches('/');
        let url = service.url(bucket, prefix);
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
    // Variables of the service that are no settings of its storage are ignored.
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
