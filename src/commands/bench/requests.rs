//! Requests to a server of the measurement's own, beside a bare loop of the same client.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use redrive::{HttpHandler, HttpSpec};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

use super::contender::{PAYLOAD, failed};
use crate::exit::Failure;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                        content-length: 12\r\n\r\n{\"ok\": null}";

/// A server on this machine that answers every request the same, at once or after a while. It ends
/// when dropped.
pub(super) struct Server {
    pub(super) url: Uri,
    accepting: JoinHandle<()>,
}

impl Server {
    pub(super) async fn new(takes: Duration) -> Result<Self, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
        let url = format!("http://{}/work", listener.local_addr().map_err(failed)?);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, takes));
            }
        });
        Ok(Self { url: url.parse().map_err(failed)?, accepting })
    }

    pub(super) fn handler(&self) -> Result<HttpHandler, Failure> {
        HttpHandler::new(HttpSpec::new(Method::POST, self.url.clone())).map_err(failed)
    }

    /// Requests per second of a loop that sends as much and does nothing else.
    pub(super) async fn bare(&self, count: usize, at_once: usize) -> Result<f64, Failure> {
        self.bare_with(count, at_once, Bytes::from_static(PAYLOAD.as_bytes())).await
    }

    /// The same with another body.
    pub(super) async fn bare_with(
        &self,
        count: usize,
        at_once: usize,
        body: Bytes,
    ) -> Result<f64, Failure> {
        let start = Instant::now();
        self.send(count, at_once, body, |_| {}).await?;
        Ok(count as f64 / start.elapsed().as_secs_f64())
    }

    /// Sends requests, so many at once, and tells which was answered.
    pub(super) async fn send(
        &self,
        count: usize,
        at_once: usize,
        body: Bytes,
        answered: impl Fn(usize) + Clone + Send + 'static,
    ) -> Result<(), Failure> {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let mut tasks = JoinSet::new();
        for lane in 0..at_once {
            let (client, url) = (client.clone(), self.url.clone());
            let (body, answered) = (body.clone(), answered.clone());
            tasks.spawn(async move {
                for number in (lane..count).step_by(at_once) {
                    let body = Full::new(body.clone());
                    let request = Request::post(url.clone()).body(body).map_err(failed)?;
                    let response = client.request(request).await.map_err(failed)?;
                    response.into_body().collect().await.map_err(failed)?;
                    answered(number);
                }
                Ok::<(), Failure>(())
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(failed)??;
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Reads requests and answers them, until the other side closes.
async fn answer(stream: TcpStream, takes: Duration) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    let (mut line, mut length, mut body) = (String::new(), 0, Vec::new());
    while stream.read_line(&mut line).await? > 0 {
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim_end().parse().unwrap_or(0);
        }
        if line == "\r\n" {
            body.resize(length, 0);
            stream.read_exact(&mut body).await?;
            if !takes.is_zero() {
                tokio::time::sleep(takes).await;
            }
            stream.write_all(ANSWER).await?;
            length = 0;
        }
        line.clear();
    }
    Ok(())
}
