//! The settings of traces, from the environment variables of OpenTelemetry.
//!
//! | variable | meaning | default |
//! | --- | --- | --- |
//! | `OTEL_EXPORTER_OTLP_ENDPOINT` | the collector; spans go to `/v1/traces` there | nothing is sent |
//! | `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` | the whole URL instead | |
//! | `OTEL_EXPORTER_OTLP_HEADERS`, `…_TRACES_HEADERS` | headers, `name=value,name=value` | none |
//! | `OTEL_EXPORTER_OTLP_TIMEOUT`, `…_TRACES_TIMEOUT` | how long a request may take, in ms | 10000 |
//! | `OTEL_SERVICE_NAME` | `service.name` | `redrive` |
//! | `OTEL_RESOURCE_ATTRIBUTES` | more attributes of the process, `name=value,…` | none |
//! | `OTEL_BSP_SCHEDULE_DELAY` | how long spans wait for others, in ms | 5000 |
//! | `OTEL_BSP_MAX_EXPORT_BATCH_SIZE` | the most spans in a request | 512 |
//! | `OTEL_BSP_MAX_QUEUE_SIZE` | the most spans that wait | 2048 |
//! | `OTEL_TRACES_EXPORTER` | without `otlp` in it, nothing is sent | `otlp` |
//! | `OTEL_SDK_DISABLED` | `true`: nothing is sent | |

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use percent_encoding::percent_decode_str;

/// The path of spans below the endpoint of a collector.
const PATH: &str = "/v1/traces";

#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TraceSettings {
    pub url: Uri,
    /// Headers of every request, marked as secrets.
    pub headers: HeaderMap,
    /// Per request.
    pub timeout: Duration,
    /// The attributes of this process, including `service.name`.
    pub resource: Vec<(String, String)>,
    /// How long spans wait for others before they are sent.
    pub delay: Duration,
    /// The most spans in a request.
    pub batch: usize,
    /// The most spans that wait; spans beyond that are dropped.
    pub queue: usize,
    /// The configured protocol, if it is not `http/json`.
    pub other_protocol: Option<String>,
}

/// A variable with an invalid value. The value may be a secret and is not shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the environment variable {variable} {problem}")]
pub struct InvalidSetting {
    pub variable: String,
    pub problem: &'static str,
}

impl TraceSettings {
    /// The defaults.
    pub fn new(url: Uri) -> Self {
        Self {
            url,
            headers: HeaderMap::new(),
            timeout: Duration::from_secs(10),
            resource: vec![("service.name".to_owned(), "redrive".to_owned())],
            delay: Duration::from_secs(5),
            batch: 512,
            queue: 2048,
            other_protocol: None,
        }
    }

    /// Reads the settings with a function that returns the value of a variable. `None` if no collector is set, or
    /// tracing is disabled.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, InvalidSetting> {
        let env = TraceEnvironment { variable };
        let disabled = env.get("OTEL_SDK_DISABLED").is_some_and(|value| value == "true");
        let exporters = env.get("OTEL_TRACES_EXPORTER");
        let ours = exporters.is_none_or(|names| names.split(',').any(|name| name.trim() == "otlp"));
        let Some(url) = env.url()?.filter(|_| ours && !disabled) else { return Ok(None) };
        let defaults = Self::new(url);
        let number = |name: &str, default: usize| match env.get(name) {
            None => Ok(default),
            Some(text) => text.parse().ok().filter(|number| *number > 0).ok_or(InvalidSetting {
                variable: name.to_owned(),
                problem: "must be a whole number from 1",
            }),
        };
        let millis = |name: &str, default: Duration| {
            let default = usize::try_from(default.as_millis()).unwrap_or(usize::MAX);
            number(name, default).map(|millis| Duration::from_millis(millis as u64))
        };
        let queue = number("OTEL_BSP_MAX_QUEUE_SIZE", defaults.queue)?;
        let (timeout, _) = env.of_traces("TIMEOUT");
        Ok(Some(Self {
            headers: env.headers()?,
            timeout: millis(&timeout, defaults.timeout)?,
            resource: env.resource()?,
            delay: millis("OTEL_BSP_SCHEDULE_DELAY", defaults.delay)?,
            batch: number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", defaults.batch)?.min(queue),
            queue,
            other_protocol: env.of_traces("PROTOCOL").1.filter(|name| name != "http/json"),
            url: defaults.url,
        }))
    }
}

struct TraceEnvironment<V> {
    variable: V,
}

impl<V: Fn(&str) -> Option<String>> TraceEnvironment<V> {
    /// An empty variable counts as not set.
    fn get(&self, name: &str) -> Option<String> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    /// The setting for traces, or else for all signals, with the name of its variable.
    fn of_traces(&self, what: &str) -> (String, Option<String>) {
        let own = format!("OTEL_EXPORTER_OTLP_TRACES_{what}");
        match self.get(&own) {
            Some(value) => (own, Some(value)),
            None => {
                let general = format!("OTEL_EXPORTER_OTLP_{what}");
                let value = self.get(&general);
                (general, value)
            }
        }
    }

    fn url(&self) -> Result<Option<Uri>, InvalidSetting> {
        let (variable, Some(url)) = self.of_traces("ENDPOINT") else { return Ok(None) };
        let whole = variable.contains("TRACES");
        let url = if whole { url } else { format!("{}{PATH}", url.trim_end_matches('/')) };
        let parsed: Option<Uri> = url.parse().ok();
        let usable = |url: &Uri| {
            matches!(url.scheme_str(), Some("http" | "https"))
                && url.authority().is_some_and(|it| !it.as_str().contains('@'))
        };
        let problem = "must be http://HOST:PORT or https://HOST:PORT";
        parsed.filter(usable).map(Some).ok_or(InvalidSetting { variable, problem })
    }

    fn headers(&self) -> Result<HeaderMap, InvalidSetting> {
        let (name, value) = self.of_traces("HEADERS");
        let mut headers = HeaderMap::new();
        for (header, value) in pairs(&name, value)? {
            let pair = HeaderName::try_from(header).ok().zip(HeaderValue::try_from(value).ok());
            let (header, mut value) = pair.ok_or(InvalidSetting {
                variable: name.clone(),
                problem: "has a header that cannot be sent",
            })?;
            value.set_sensitive(true);
            headers.insert(header, value);
        }
        Ok(headers)
    }

    fn resource(&self) -> Result<Vec<(String, String)>, InvalidSetting> {
        const SERVICE: &str = "service.name";
        let name = "OTEL_RESOURCE_ATTRIBUTES";
        let mut resource = pairs(name, self.get(name))?;
        let service = self.get("OTEL_SERVICE_NAME");
        let named = resource.iter().any(|(key, _)| key == SERVICE);
        if service.is_some() || !named {
            resource.retain(|(key, _)| key != SERVICE);
            resource.push((SERVICE.to_owned(), service.unwrap_or_else(|| "redrive".to_owned())));
        }
        Ok(resource)
    }
}

/// `name=value,name=value`, the values percent-encoded.
fn pairs(name: &str, text: Option<String>) -> Result<Vec<(String, String)>, InvalidSetting> {
    let invalid = || InvalidSetting {
        variable: name.to_owned(),
        problem: "must be NAME=VALUE,NAME=VALUE with values percent-encoded",
    };
    let text = text.unwrap_or_default();
    let given = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    given
        .map(|pair| {
            let (key, value) = pair.split_once('=').ok_or_else(invalid)?;
            let value = percent_decode_str(value.trim()).decode_utf8().map_err(|_| invalid())?;
            let key = key.trim();
            if key.is_empty() { Err(invalid()) } else { Ok((key.to_owned(), value.into_owned())) }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLLECTOR: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c.example:4318");

    fn read(variables: &[(&str, &str)]) -> Result<Option<TraceSettings>, InvalidSetting> {
        TraceSettings::read(|asked| {
            let found = variables.iter().rev().find(|(name, _)| *name == asked);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[track_caller]
    fn with(more: &[(&str, &str)]) -> TraceSettings {
        read(&[&[COLLECTOR], more].concat()).unwrap().unwrap()
    }

    #[test]
    fn an_endpoint_alone_is_enough() {
        let url = "https://c.example:4318/v1/traces".parse().unwrap();
        assert_eq!(with(&[]), TraceSettings::new(url));
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[(COLLECTOR.0, "")]), Ok(None), "an empty variable is not set");
    }

    #[test]
    fn what_is_said_of_traces_alone_goes_before_what_is_said_of_everything() {
        let settings = with(&[
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t.example/take"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "7"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "8"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=1"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "b=2 , c = x%3Dy%20z"),
        ]);
        assert_eq!(settings.url, "http://t.example/take", "as it is");
        assert_eq!(settings.timeout, Duration::from_millis(8));
        let headers: Vec<(&str, &str)> = settings
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect();
        assert_eq!(headers, [("b", "2"), ("c", "x=y z")]);
        assert!(!format!("{settings:?}").contains("x=y"), "headers are secrets");
    }

    #[test]
    fn the_name_of_the_service_is_the_one_that_says_most() {
        let name = |more: &[(&str, &str)]| {
            let resource = with(more).resource;
            let names = resource.into_iter().filter(|(key, _)| key == "service.name");
            names.map(|(_, value)| value).collect::<Vec<_>>()
        };
        let attribute = ("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,team=b");
        assert_eq!(name(&[]), ["redrive"]);
        assert_eq!(name(&[attribute]), ["a"]);
        assert_eq!(name(&[attribute, ("OTEL_SERVICE_NAME", "c")]), ["c"]);
    }

    #[test]
    fn another_protocol_is_noticed_and_a_batch_fits_into_the_queue() {
        let protocol = |name| with(&[("OTEL_EXPORTER_OTLP_PROTOCOL", name)]).other_protocol;
        assert_eq!(protocol("http/json"), None);
        assert_eq!(protocol("grpc").as_deref(), Some("grpc"));
        let settings = with(&[("OTEL_BSP_MAX_QUEUE_SIZE", "5")]);
        assert_eq!((settings.queue, settings.batch), (5, 5));
    }

    #[test]
    fn an_exporter_that_is_not_ours_leaves_nothing_to_send() {
        let exporter = |names| read(&[COLLECTOR, ("OTEL_TRACES_EXPORTER", names)]).unwrap();
        assert!(exporter("console, otlp").is_some());
        assert!(exporter("console").is_none());
        assert!(exporter("none").is_none());
    }

    #[test]
    fn what_cannot_be_followed_is_refused_by_name_and_not_repeated() {
        for (name, value) in [
            (COLLECTOR.0, "collector"),
            (COLLECTOR.0, "ftp://host/"),
            (COLLECTOR.0, "http://user:pass@host/"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "word"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "=word"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=%ff"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=line%0Abreak"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "1.5"),
            ("OTEL_BSP_SCHEDULE_DELAY", "-1"),
            ("OTEL_RESOURCE_ATTRIBUTES", "word"),
        ] {
            let refused = read(&[COLLECTOR, (name, value)]).unwrap_err();
            assert_eq!(refused.variable, name, "{value}");
            let text = refused.to_string();
            assert!(text.starts_with(&format!("the environment variable {name} ")), "{text}");
            assert!(!text.contains(value), "{text}");
        }
    }
}
