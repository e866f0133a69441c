//! A pool of connections for reads, which never wait for the writer.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};

use redrive_store::{Error, Result};
use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::connection::open_reader;

/// The number of concurrent reads; further reads wait.
const MAX_READERS: usize = 4;

pub(crate) struct Readers {
    pool: Arc<ReaderPool>,
    permits: Arc<Semaphore>,
}

struct ReaderPool {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(crate) fn new(path: PathBuf) -> Self {
        let idle = Mutex::default();
        Self {
            pool: Arc::new(ReaderPool { path, idle }),
            permits: Arc::new(Semaphore::new(MAX_READERS)),
        }
    }

    /// Runs a read on a blocking thread.
    pub(crate) async fn run<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let permit = Arc::clone(&self.permits)
            .acquire_owned()
            .await
            .map_err(|error| failed(error.into()))?;
        let pool = Arc::clone(&self.pool);
        let read = move || {
            // The read continues if its caller is dropped, and keeps its permit until it ends.
            let _permit = permit;
            pool.run(work)
        };
        tokio::task::spawn_blocking(read).await.map_err(|error| failed(error.into()))?
    }

    pub(crate) fn run_inline<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        self.pool.run(work)
    }
}

impl ReaderPool {
    fn run<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let kept = self.idle.lock().ok().and_then(|mut idle| idle.pop());
        let connection = kept.map_or_else(|| open_reader(&self.path), Ok)?;
        let outcome = work(&connection);
        if let Ok(mut idle) = self.idle.lock() {
            idle.push(connection);
        }
        outcome
    }
}

fn failed(source: redrive_store::BoxError) -> Error {
    Error::Unavailable { doing: "reading".to_owned(), source }
}
