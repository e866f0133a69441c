//! HTTP for object stores, on the engine's own client and TLS set-up.
//!
//! `object_store` signs requests, retries them and reads the responses; the client that sends them can
//! be replaced. A second HTTP client would add more crates than `object_store` itself has.

use std::{
    collections::BTreeMap,
    error::Error,
    fmt, io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Uri, header::HOST, uri::PathAndQuery};
use http_body::{Body, Frame, SizeHint};
use object_store::{
    ClientConfigKey, ClientOptions,
    client::{
        HttpClient as ObjectStoreClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest,
        HttpRequestBody, HttpResponse, HttpResponseBody, HttpService,
    },
};
use tokio::time::{Sleep, sleep, timeout};

use crate::handlers::http::{
    HttpClient, NoResponse, ResponseBody, ServerConnector, client_config, host_header, native_roots,
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a request may take until the head of its response arrives, its body included.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(120);

/// How long the body of a response may deliver nothing.
const BODY_IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Makes the clients that `object_store` sends its requests with.
#[derive(Debug, Clone, Copy)]
pub(super) struct EngineHttp;

impl HttpConnector for EngineHttp {
    /// A machine without certificate authorities is an error only when a certificate is checked.
    fn connect(&self, options: &ClientOptions) -> object_store::Result<ObjectStoreClient> {
        let tls = client_config(native_roots())
            .map_err(|error| object_store::Error::Generic { store: "TLS", source: error.into() })?;
        let plain_http = options.get_config_value(&ClientConfigKey::AllowHttp);
        Ok(ObjectStoreClient::new(ObjectStoreHttp {
            plain_http: plain_http.is_some_and(|allowed| allowed == "true"),
            connector: ServerConnector::new(tls, CONNECT_TIMEOUT),
            clients: Mutex::default(),
        }))
    }
}

/// One client for each server: the storage itself, and the servers that give out credentials.
struct ObjectStoreHttp {
    plain_http: bool,
    connector: ServerConnector,
    clients: Mutex<BTreeMap<String, Arc<HttpClient<HttpRequestBody>>>>,
}

impl ObjectStoreHttp {
    fn client_for(&self, url: &Uri) -> Result<Arc<HttpClient<HttpRequestBody>>, HttpError> {
        let (Some(scheme @ ("http" | "https")), Some(authority)) =
            (url.scheme_str(), url.authority())
        else {
            return Err(not_connected("the URL is neither http://HOST nor https://HOST"));
        };
        if scheme == "http" && !self.plain_http {
            return Err(not_connected("the URL is http://, and only https:// is allowed"));
        }
        let server = format!("{scheme}://{authority}");
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let client = clients.entry(server).or_insert_with(|| {
            let client = HttpClient::new(url.clone(), self.connector.clone());
            Arc::new(client.with_large_bodies())
        });
        Ok(client.clone())
    }
}

#[async_trait]
impl HttpService for ObjectStoreHttp {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let client = self.client_for(request.uri())?;
        address_to_server(&mut request);
        let response = timeout(RESPONSE_TIMEOUT, client.request(request)).await;
        let response = response.map_err(|late| HttpError::new(HttpErrorKind::Timeout, late))?;
        let (head, body) = response.map_err(|error| {
            let kind = match &error {
                NoResponse::NotConnected(_) => HttpErrorKind::Connect,
                NoResponse::Broken(_) | NoResponse::Dropped(_) => kind_of(&error),
            };
            HttpError::new(kind, error)
        })?;
        Ok(HttpResponse::from_parts(head, HttpResponseBody::new(TimedBody::new(body))))
    }
}

impl fmt::Debug for ObjectStoreHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectStoreHttp")
            .field("plain_http", &self.plain_http)
            .finish_non_exhaustive()
    }
}

fn not_connected(problem: &str) -> HttpError {
    let error = io::Error::new(io::ErrorKind::InvalidInput, problem);
    HttpError::new(HttpErrorKind::Connect, error)
}

/// Moves the server from the URL to the `host` header, as HTTP/1 has it.
fn address_to_server(request: &mut HttpRequest) {
    let host = host_header(request.uri());
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = path.unwrap_or_else(|| PathAndQuery::from_static("/")).into();
    request.headers_mut().entry(HOST).or_insert(host);
}

/// A body that fails when it delivers nothing for [`BODY_IDLE_TIMEOUT`].
struct TimedBody {
    body: ResponseBody<HttpRequestBody>,
    idle: Pin<Box<Sleep>>,
}

impl TimedBody {
    fn new(body: ResponseBody<HttpRequestBody>) -> Self {
        Self { body, idle: Box::pin(sleep(BODY_IDLE_TIMEOUT)) }
    }
}

impl Body for TimedBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.idle.set(sleep(BODY_IDLE_TIMEOUT));
            let as_http_error = |error: hyper::Error| HttpError::new(kind_of(&error), error);
            return Poll::Ready(frame.map(|frame| frame.map_err(as_http_error)));
        }
        let timed_out = || io::Error::new(io::ErrorKind::TimedOut, "the body delivered nothing");
        let idle = self.idle.as_mut().poll(context);
        idle.map(|()| Some(Err(HttpError::new(HttpErrorKind::Timeout, timed_out()))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Tells `object_store` which errors it may retry.
fn kind_of(error: &(dyn Error + 'static)) -> HttpErrorKind {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            if error.is_timeout() {
                return HttpErrorKind::Timeout;
            }
            if error.is_canceled() || error.is_incomplete_message() || error.is_closed() {
                return HttpErrorKind::Request;
            }
        }
        if let Some(error) = error.downcast_ref::<io::Error>() {
            use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, TimedOut};
            match error.kind() {
                TimedOut => return HttpErrorKind::Timeout,
                BrokenPipe | ConnectionAborted | ConnectionReset | io::ErrorKind::UnexpectedEof => {
                    return HttpErrorKind::Interrupted;
                }
                _ => {}
            }
        }
        cause = error.source();
    }
    HttpErrorKind::Unknown
}
