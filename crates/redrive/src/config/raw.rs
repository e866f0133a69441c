//! `[raw]`: the folder or bucket of the raw partitions.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use redrive_engine::ObjectService;

use super::{reader::Section, value::parsed};
use crate::nearest::nearest;

/// The root of all raw partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawUrl {
    /// A local folder; a relative path is resolved from the folder of the configuration file.
    Folder(PathBuf),
    Bucket {
        service: ObjectService,
        /// The bucket, or the container in Azure.
        bucket: String,
        /// The path in the bucket, without leading and trailing slashes; may be empty.
        prefix: String,
    },
}

const SCHEMES: [(&str, ObjectService); 3] =
    [("s3", ObjectService::S3), ("gs", ObjectService::Gcs), ("az", ObjectService::Azure)];

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{written:?} is not a URL for raw partitions: {problem}")]
pub struct InvalidRawUrl {
    written: String,
    problem: String,
}

const SHAPES: &str =
    "write file:FOLDER, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX";

impl FromStr for RawUrl {
    type Err = InvalidRawUrl;

    fn from_str(text: &str) -> Result<Self, InvalidRawUrl> {
        let refuse =
            |problem: String| InvalidRawUrl { written: super::value::shorten(text), problem };
        let (scheme, rest) = text.split_once(':').ok_or_else(|| refuse(SHAPES.to_owned()))?;
        if scheme == "file" {
            return folder(rest).map_err(refuse);
        }
        let service = SCHEMES.iter().find(|(known, _)| *known == scheme);
        let Some((_, service)) = service else {
            let known = ["file", "s3", "gs", "az"];
            let meant = nearest(scheme, known).map(|known| format!("did you mean {known}:? "));
            return Err(refuse(meant.unwrap_or_default() + SHAPES));
        };
        bucket(*service, rest).ok_or_else(|| refuse(SHAPES.to_owned()))
    }
}

fn folder(path: &str) -> Result<RawUrl, String> {
    if path.is_empty() || path.contains('\0') {
        return Err("the folder is missing; write file:FOLDER".to_owned());
    }
    if path.starts_with("//") {
        return Err("write file:FOLDER, without //".to_owned());
    }
    Ok(RawUrl::Folder(PathBuf::from(path)))
}

fn bucket(service: ObjectService, rest: &str) -> Option<RawUrl> {
    let (bucket, prefix) =
        rest.strip_prefix("//").map(|rest| rest.split_once('/').unwrap_or((rest, "")))?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let right = !bucket.is_empty()
        && bucket.chars().all(is_plain)
        && !prefix.chars().any(|c| c.is_control() || "?#".contains(c));
    right.then(|| RawUrl::Bucket {
        service,
        bucket: bucket.to_owned(),
        prefix: prefix.trim_matches('/').to_owned(),
    })
}

impl RawUrl {
    /// Resolves a relative path from `folder`.
    pub fn in_folder(self, folder: &Path) -> Self {
        match self {
            Self::Folder(path) => Self::Folder(folder.join(path)),
            bucket => bucket,
        }
    }
}

impl fmt::Display for RawUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "file:{}", path.display()),
            Self::Bucket { service, bucket, prefix } => {
                let scheme = SCHEMES.iter().find(|(_, known)| known == service);
                write!(f, "{}://{bucket}/{prefix}", scheme.map_or("", |(scheme, _)| scheme))
            }
        }
    }
}

pub(super) fn read(s: &mut Section<'_>) -> Option<RawUrl> {
    s.get("url", parsed)
}

impl Default for RawUrl {
    /// The folder `raw` beside the configuration file.
    fn default() -> Self {
        Self::Folder(PathBuf::from("raw"))
    }
}
