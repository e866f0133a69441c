//! Submits runs inside the program's own PostgreSQL transaction.
//!
//! The program's rows and the runs that follow from them are committed together: there is never an
//! order without its run, nor a run for an order that was rolled back. [`submit_in`] takes any
//! transaction of [`tokio_postgres`], including those of pools such as `deadpool-postgres`, whose
//! transactions dereference to it. The version of `tokio_postgres` is part of this interface; use the
//! one that this module exports.
//!
//! ```no_run
//! use redrive::{
//!     Clock, NewRun, SystemClock,
//!     postgres::{submit_in, tokio_postgres},
//!     serde_json::json,
//! };
//!
//! # async fn example(
//! #     client: &mut tokio_postgres::Client,
//! # ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! let now = SystemClock.now();
//! let transaction = client.transaction().await?;
//! let sql = "INSERT INTO orders (customer) VALUES ($1) RETURNING id";
//! let order: i64 = transaction.query_one(sql, &[&"ada"]).await?.get(0);
//! let run = NewRun::new("ship", &json!({ "order": order }), now)?
//!     .with_idempotency_key(&format!("order {order}"))?;
//! submit_in(&transaction, &[run], now).await?;
//! transaction.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! The schema `redrive` must be in the same database; `redrive db migrate` creates it. Other drivers,
//! such as sqlx and diesel, have no such function yet: submit with an idempotency key after the
//! commit, and submit again after a crash.

pub use redrive_postgres::{submit_in, tokio_postgres};
