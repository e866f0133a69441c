//! New data for many dead letters: from a file of JSON lines, or one value at a place (FIX-2).

use std::{
    collections::HashSet,
    fs::File,
    io::{BufReader, Read},
    path::Path,
    str::FromStr,
};

use redrive::{JsonPointer, SampleId, SampleRecord};
use redrive_store::SOURCE_STAGE;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    commands::runs::{InputLine, LineReader, MAX_LINE_BYTES},
    exit::{CommandError, Exit},
};

/// `/path=value`; the value is JSON, or else text.
#[derive(Debug, Clone)]
pub(super) struct SetValue {
    place: JsonPointer,
    value: Value,
}

impl FromStr for SetValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (place, value) = text
            .split_once('=')
            .ok_or_else(|| "write /path=value, such as /day=\"2026-01-31\"".to_owned())?;
        if place.is_empty() {
            return Err(
                "the path is empty: write /path=value; `dlq edit` and --patch replace all data"
                    .to_owned(),
            );
        }
        let place = place.parse::<JsonPointer>().map_err(|error| error.to_string())?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        Ok(Self { place, value })
    }
}

impl SetValue {
    /// The data of a sample with all values set; an error if it has no data or no such place.
    pub(super) fn apply_all(sets: &[Self], sample: &SampleRecord) -> Result<String, String> {
        let Some(data) = &sample.data else {
            return Err(
                "the line was not a sample; give it data with `dlq edit` or --patch".to_owned()
            );
        };
        let mut data: Value = serde_json::from_str(data).map_err(|error| error.to_string())?;
        for set in sets {
            set.place.put(&mut data, set.value.clone())?;
        }
        Ok(data.to_string())
    }
}

/// A line of a patch, as `dlq export` writes it; other fields are ignored.
#[derive(Deserialize)]
struct PatchLine {
    id: i64,
    #[serde(default, deserialize_with = "present")]
    data: Option<Value>,
    stage: Option<String>,
}

/// Tells `"data": null`, which is a valid sample, from a line without data.
fn present<'de, D: serde::Deserializer<'de>>(data: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(data).map(Some)
}

/// The samples and their data in a file, and how many lines of it have no data because the line of the source was not a
/// sample. The whole file is checked before anything is changed.
pub(super) fn read_patch(path: &Path) -> Result<(Vec<(SampleId, String)>, u64), CommandError> {
    let unreadable = |error: std::io::Error| {
        CommandError::new(Exit::Error, format!("cannot read {}", path.display())).caused_by(error)
    };
    let input: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(std::io::stdin()),
        false => Box::new(File::open(path).map_err(unreadable)?),
    };
    let mut lines = LineReader::new(BufReader::new(input));
    let (mut patch, mut without_data, mut seen) = (Vec::new(), 0, HashSet::new());
    loop {
        let number = lines.number() + 1;
        let wrong = |problem: String| {
            let message =
                format!("{}, line {number}: {problem}; nothing was changed", path.display());
            CommandError::usage(message)
                .help("each line is {\"id\": 17, \"data\": …}, as `dlq export` writes it")
        };
        match lines.next().map_err(unreadable)? {
            None => return Ok((patch, without_data)),
            Some(InputLine::TooLong) => {
                return Err(wrong(format!("the line has more than {MAX_LINE_BYTES} bytes")));
            }
            Some(InputLine::Whole(text)) if text.trim_ascii().is_empty() => {}
            Some(InputLine::Whole(text)) => {
                let line: PatchLine =
                    serde_json::from_slice(text).map_err(|error| wrong(error.to_string()))?;
                let data = match (line.data, line.stage.as_deref()) {
                    (Some(data), _) => data,
                    (None, Some(SOURCE_STAGE)) => {
                        without_data += 1;
                        continue;
                    }
                    (None, _) => return Err(wrong("`data` is missing".to_owned())),
                };
                if !seen.insert(line.id) {
                    return Err(wrong(format!("sample {} is there twice", line.id)));
                }
                patch.push((SampleId(line.id), data.to_string()));
            }
        }
    }
}
