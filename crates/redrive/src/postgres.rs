//! Submitting runs inside a transaction of one's own, on PostgreSQL.
//!
//! What a program writes and the work that follows from it are one: an order without its run, or a
//! run for an order that was rolled back, cannot be. [`submit_in`] takes any transaction of
//! [`tokio_postgres`], also that of a pool such as `deadpool-postgres`, whose transactions dereference
//! to it. Its version is part of this interface; use the one that is exported here.
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
//! The schema `redrive` must be in the same database: `redrive db migrate`. For other drivers, such as
//! sqlx and diesel, there is no such function yet; submit after the commit under an idempotency key,
//! and again after a crash.

pub use redrive_postgres::{submit_in, tokio_postgres};
