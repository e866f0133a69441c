//! Runs that a server handles, beside a bare client.

use std::{sync::Arc, time::Duration};

use redrive_engine::Handler;
use redrive_store::Store;

use super::{
    place::Place,
    requests::Server,
    runs::{Arguments, Measure, bare_drain, drain},
    spent::{Begun, Spent},
};
use crate::exit::Failure;

/// Turns between those that are compared: all meet the same weather.
const ROUNDS: usize = 3;

/// Requests under way at once, at most.
const MAX_AT_ONCE: u16 = 64;

/// A worker sends requests and keeps a ledger, on the same cores as the server. So beside the bare client
/// there is what the bare client and the bare store would come to together, one after the other, and what
/// each takes of the processors. A worker that takes no more than these two, and never waits, is slower than
/// the bare client by what the store takes: that is the most there is to reach, unless its client is cheaper.
pub(super) async fn measure(
    arguments: &Arguments,
    place: &Place,
    store: &Arc<dyn Store>,
) -> Result<Vec<Measure>, Failure> {
    let count = (50_000.0 * arguments.scale).ceil() as usize;
    let arguments = arguments.with_at_most(MAX_AT_ONCE);
    let at_once = arguments.concurrency.into();
    let (mut bare, mut ours, mut stored) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let server = Server::new(Duration::ZERO)?;
        bare.push(bare_requests(&server, count, at_once).await?);
        ours.push(requests(&arguments, store, &server, count).await?);
        stored.push(bare_drain(place, count).await?.1);
    }
    let [bare, ours, stored] = [bare, ours, stored].map(|all| Spent::median(&all));
    let both = 1.0 / (1.0 / bare.per_second + 1.0 / stored.per_second);
    let mut measures = vec![
        Measure::beside("requests", ours.per_second, bare.per_second),
        Measure::beside("requests, bare store included", ours.per_second, both),
    ];
    let server = Server::new(Duration::from_millis(5))?;
    let slow = bare_requests(&server, count, at_once).await?;
    let ours_slow = requests(&arguments, store, &server, count).await?;
    measures.push(Measure::beside(
        "requests that take 5 ms",
        ours_slow.per_second,
        slow.per_second,
    ));
    measures.push(Measure::costs("processor time of a request", ours.processor, bare.processor));
    // The server of a shared store works in processes of its own.
    if place.url().is_sqlite() {
        let needed = bare.processor + stored.processor;
        measures.push(Measure::costs("the same, bare store included", ours.processor, needed));
        let most = bare.processor / needed;
        measures.push(Measure::alone("the most, with all processors busy", most, "ratio"));
    }
    Ok(measures)
}

async fn bare_requests(server: &Server, count: usize, at_once: usize) -> Result<Spent, Failure> {
    let begun = Begun::now();
    server.bare(count, at_once).await?;
    Ok(begun.done(count))
}

async fn requests(
    arguments: &Arguments,
    store: &Arc<dyn Store>,
    server: &Server,
    count: usize,
) -> Result<Spent, Failure> {
    let handler: Arc<dyn Handler> = Arc::new(server.handler()?);
    Ok(drain(arguments.concurrency, store, handler, count).await?.1)
}
