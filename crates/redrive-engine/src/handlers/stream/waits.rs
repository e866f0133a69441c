//! Waiting for what may not be there: a closed pipe, nothing to write, no alarm.

use std::{future::pending, io};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::ChildStdin,
    time::{Instant, sleep_until},
};

/// Writes what there is to write; for ever if that is nothing.
pub(super) async fn write(stdin: &mut Option<ChildStdin>, unsent: &[u8]) -> io::Result<usize> {
    match (stdin, unsent) {
        (Some(stdin), bytes @ [_, ..]) => stdin.write(bytes).await,
        _ => pending().await,
    }
}

/// Reads what comes; for ever if the pipe is closed. An error is an end as well.
pub(super) async fn read(pipe: &mut Option<impl AsyncRead + Unpin>, buffer: &mut [u8]) -> usize {
    match pipe {
        Some(pipe) => pipe.read(buffer).await.unwrap_or_default(),
        None => pending().await,
    }
}

/// Waits for a time; for ever if there is none.
pub(super) async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}
