//! The headers of a request, and the secrets among them.
//!
//! A server may repeat a header, for example in an error page. Responses are kept in the ledger and shown
//! to many people, so secrets are redacted first.

use std::env;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::spec::{HeaderSource, InvalidHttp};
use crate::handlers::secrets::Secrets;

impl Secrets {
    /// Reads the headers of a specification, and the environment variables they use.
    pub(crate) fn read(
        specified: &[(HeaderName, HeaderSource)],
    ) -> Result<(HeaderMap, Self), InvalidHttp> {
        let mut headers = HeaderMap::new();
        let mut secrets = Self::default();
        for (header, source) in specified {
            let value = match source {
                HeaderSource::Literal(value) => value.clone(),
                HeaderSource::Env { variable, prefix } => secrets.take(header, variable, prefix)?,
            };
            headers.insert(header, value);
        }
        Ok((headers, secrets))
    }

    fn take(
        &mut self,
        header: &HeaderName,
        variable: &str,
        prefix: &str,
    ) -> Result<HeaderValue, InvalidHttp> {
        let (header, variable) = (header.clone(), variable.to_owned());
        let found = env::var_os(&variable).filter(|value| !value.is_empty());
        let Some(value) = found else {
            return Err(InvalidHttp::MissingVariable { header, variable });
        };
        let value = value.into_string().ok();
        let header_value = value
            .as_ref()
            .and_then(|value| HeaderValue::from_str(&format!("{prefix}{value}")).ok());
        let (Some(value), Some(mut header_value)) = (value, header_value) else {
            return Err(InvalidHttp::InvalidVariable { header, variable });
        };
        header_value.set_sensitive(true);
        self.add(&variable, &value);
        Ok(header_value)
    }
}
