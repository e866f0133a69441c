//! Where a raw partition lies below its root.
//!
//! Keys are data, folders are names, and what a name may be differs between file systems: some fold
//! case, some compose Unicode, some keep `CON` for a device. So a name holds lower-case letters, digits,
//! `-`, `_` and inner dots alone; every other byte is percent-encoded, capital letters too. Decoding a
//! name gives the part back, so no two parts share a name, on no file system.

use std::{fmt::Write, path::PathBuf};

use redrive_core::{PartitionKey, PartitionRunId};
use sha2::{Digest, Sha256};

use super::payload_digest::hex;

/// The rows.
pub(super) const PAYLOAD: &str = "payload.jsonl";

/// What seals a raw partition.
pub(super) const METADATA: &str = "metadata.json";

/// The longest encoded part, in bytes. File systems allow 255 for a name, object stores 1024 for a whole
/// path.
const MAX_PART_BYTES: usize = 200;

/// How much of a longer part is shown before its hash.
const MAX_HEAD_BYTES: usize = 120;

/// Comes before the hash of a long part. It is encoded everywhere else.
const HASH_MARK: char = '~';

/// Names that Windows keeps for devices, with any ending.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];

/// The same, followed by a digit.
const NUMBERED_DEVICES: [&str; 2] = ["com", "lpt"];

const RUN: &str = "run_id=";

/// The folders of a run, from the root down: four of its key and its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RunPath {
    key: [String; 4],
    run: String,
}

impl RunPath {
    pub(super) fn new(key: &PartitionKey, run_id: &PartitionRunId) -> Self {
        Self { key: key_folders(key), run: format!("{RUN}{}", encode(run_id.as_str())) }
    }

    /// Below a local root.
    pub(super) fn path(&self) -> PathBuf {
        self.key.iter().chain([&self.run]).collect()
    }

    /// Below the root of an object store.
    pub(super) fn object(&self) -> String {
        format!("{}/{}", self.key.join("/"), self.run)
    }
}

/// The folders of a key, from the root down.
pub(super) fn key_folders(key: &PartitionKey) -> [String; 4] {
    [
        encode(key.source()),
        format!("customer_id={}", encode(key.customer_id())),
        format!("query_name={}", encode(key.query_name())),
        format!("logical_date={}", key.logical_date()),
    ]
}

/// The run whose folder has that name.
pub(super) fn run_of_folder(name: &str) -> Option<PartitionRunId> {
    let encoded = name.strip_prefix(RUN)?;
    let run_id: PartitionRunId = decode(encoded)?.parse().ok()?;
    (encode(run_id.as_str()) == encoded).then_some(run_id)
}

/// A part of a key as a name. One that would be too long ends in its hash instead.
fn encode(part: &str) -> String {
    let last = part.len().saturating_sub(1);
    let mut name = String::with_capacity(part.len());
    for (at, byte) in part.bytes().enumerate() {
        let plain = match byte {
            b'a'..=b'z' => at > 0 || !is_device(part),
            b'0'..=b'9' | b'-' | b'_' => true,
            b'.' => at > 0 && at < last,
            _ => false,
        };
        if plain {
            name.push(byte.into());
        } else {
            // Writing to a string cannot fail.
            let _ = write!(name, "%{byte:02x}");
        }
    }
    if name.len() <= MAX_PART_BYTES {
        return name;
    }
    name.truncate(MAX_HEAD_BYTES);
    // Half an escape says nothing.
    if let Some(cut) = name.rfind('%').filter(|at| at + 3 > name.len()) {
        name.truncate(cut);
    }
    name.push(HASH_MARK);
    name + &hex(&Sha256::digest(part))
}

/// The part that a name stands for, unless the name is a hash or none of ours.
fn decode(name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                bytes.push(u8::from_str_radix(str::from_utf8(&digits).ok()?, 16).ok()?);
            }
            byte if byte == HASH_MARK as u8 => return None,
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

fn is_device(part: &str) -> bool {
    let stem = part.split('.').next().unwrap_or(part).trim_end().to_ascii_lowercase();
    let digit = |rest: &str| rest.len() == 1 && rest.bytes().all(|byte| byte.is_ascii_digit());
    let numbered = |name: &str| stem.strip_prefix(name).is_some_and(digit);
    DEVICES.contains(&stem.as_str()) || NUMBERED_DEVICES.into_iter().any(numbered)
}

#[cfg(test)]
mod tests;
