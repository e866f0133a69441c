//! What handlers log during attempts: kept in memory within bounds, and written to the store (LOG-1).
//!
//! A handler gets a [`CallLog`] with its call. The first line creates the buffer, so that a handler that logs nothing costs
//! nothing. [`work_logs`] writes the logs of attempts that run for long every now and then, and the log of an attempt that
//! ended before its result: an attempt in the ledger has its log. [`clean`] makes text of bytes.

mod call_log;
mod clean;
mod log_limits;
mod work_logs;

pub use call_log::CallLog;
pub use log_limits::{LogLimits, MAX_LOG_BYTES};
pub(crate) use work_logs::WorkLogs;
