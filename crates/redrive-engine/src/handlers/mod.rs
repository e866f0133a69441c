//! Handlers: the code that performs an attempt.
//!
//! - `handler`: the interface, and handlers written as Rust functions
//! - `exec`: one program per call
//! - `stream`: programs that stay running and take many calls
//! - `http` (feature `http`): one HTTP request per call
//! - `json_pointer`: selects a part of a JSON document
//! - `program`: how programs are started, limited and ended
//! - `secrets`: what nobody may read in messages and logs
//! - `reply`: how the reply of a program or server is read
//!
//! `docs/handlers.md` and `docs/http-handlers.md` describe the protocols.

pub(crate) mod handler;

pub(crate) mod exec;
pub(crate) mod stream;

#[cfg(feature = "http")]
pub(crate) mod http;

pub(crate) mod json_pointer;
pub(crate) mod program;
pub mod reply;
pub(crate) mod secrets;
