//! Futures that wait forever when there is nothing to wait for: a closed pipe, no output, no deadline.

use std::{future::pending, io};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::ChildStdin,
    time::{Instant, sleep_until},
};

/// Waits forever if there is nothing to write.
pub(super) async fn write(stdin: &mut Option<ChildStdin>, unsent: &[u8]) -> io::Result<usize> {
    match (stdin, unsent) {
        (Some(stdin), bytes @ [_, ..]) => stdin.write(bytes).await,
        _ => pending().await,
    }
}

/// Waits forever if the pipe is closed. An error counts as the end of the pipe.
pub(super) async fn read(pipe: &mut Option<impl AsyncRead + Unpin>, buffer: &mut [u8]) -> usize {
    match pipe {
        Some(pipe) => pipe.read(buffer).await.unwrap_or_default(),
        None => pending().await,
    }
}

/// Waits forever if there is no time.
pub(super) async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}
