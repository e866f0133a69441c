//! The path of a raw partition below the root.
//!
//! Keys are arbitrary text, and file systems differ in the names they allow: some fold case, some normalise
//! Unicode, some reserve `CON` for a device. So a name has only lower-case letters, digits, `-`, `_` and inner
//! dots; every other byte is percent-encoded, capital letters included. A name decodes to its part, so two parts
//! never share a name, on any file system.

use std::{fmt::Write, path::PathBuf};

use redrive_core::{PartitionKey, PartitionRunId};
use sha2::{Digest, Sha256};

use super::payload_digest::hex;

pub(super) const PAYLOAD: &str = "payload.jsonl";

/// Written last; seals a raw partition.
pub(super) const METADATA: &str = "metadata.json";

/// The longest encoded part, in bytes. File systems allow 255 bytes for a name, object stores 1024 for a
/// whole path.
const MAX_PART_BYTES: usize = 200;

/// How many bytes of a longer part are kept before its hash.
const MAX_HEAD_BYTES: usize = 120;

/// Separates the hash of a long part; percent-encoded everywhere else.
const HASH_MARK: char = '~';

/// Names that Windows reserves for devices, with any extension.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];

/// Reserved when followed by a digit.
const NUMBERED_DEVICES: [&str; 2] = ["com", "lpt"];

const RUN: &str = "run_id=";

/// The folders of a run below the root: four of its key, and one of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RunPath {
    key: [String; 4],
    run: String,
}

impl RunPath {
    pub(super) fn new(key: &PartitionKey, run_id: &PartitionRunId) -> Self {
        Self { key: key_folders(key), run: format!("{RUN}{}", encode(run_id.as_str())) }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.key.iter().chain([&self.run]).collect()
    }

    pub(super) fn object(&self) -> String {
        format!("{}/{}", self.key.join("/"), self.run)
    }
}

/// The folders of a key below the root.
pub(super) fn key_folders(key: &PartitionKey) -> [String; 4] {
    [
        encode(key.source()),
        format!("customer_id={}", encode(key.customer_id())),
        format!("query_name={}", encode(key.query_name())),
        format!("logical_date={}", key.logical_date()),
    ]
}

pub(super) fn run_of_folder(name: &str) -> Option<PartitionRunId> {
    let encoded = name.strip_prefix(RUN)?;
    let run_id: PartitionRunId = decode(encoded)?.parse().ok()?;
    (encode(run_id.as_str()) == encoded).then_some(run_id)
}

/// Encodes a part of a key as a name. A long name is cut and ends in the hash of the part.
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
    // Remove an incomplete escape.
    if let Some(cut) = name.rfind('%').filter(|at| at + 3 > name.len()) {
        name.truncate(cut);
    }
    name.push(HASH_MARK);
    name + &hex(&Sha256::digest(part))
}

/// `None` for a name with a hash, and for names that `encode` never makes.
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
