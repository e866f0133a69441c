//! As much of Google Cloud Storage and of Azure Blob Storage as raw partitions use, on loopback, with a
//! folder as storage: objects are put, put if there is none, put in parts, read, listed and deleted.
//!
//! Both are the protocols as their documentation has them, no more: credentials must be there, a
//! condition that does not hold is refused with the service's own status, and nothing else is answered.

use std::{
    collections::BTreeMap,
    fs,
    path::{Component, Path, PathBuf},
    sync::Mutex,
};

use percent_encoding::percent_decode_str;
use redrive_engine::{ObjectService, RawSink};
use tempfile::TempDir;

use super::files_below;
use crate::web::{Answer, Seen, Then, Web, answer, raw};

const BUCKET: &str = "bucket";

/// A server that ends when it is dropped.
pub(crate) struct CloudServer {
    service: ObjectService,
    folder: TempDir,
    web: Web,
}

impl CloudServer {
    pub(crate) async fn start(service: ObjectService) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cloud = Cloud {
            service,
            root: folder.path().join(BUCKET),
            parts: Mutex::default(),
            doing: Mutex::default(),
        };
        let web = Web::new(move |seen| cloud.answer(seen)).await;
        Self { service, folder, web }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().join(BUCKET)
    }

    /// How many requests it has seen whose line contains this.
    pub(crate) fn asked(&self, part: &str) -> usize {
        let line = |seen: &Seen| seen.head.lines().next().unwrap_or_default().contains(part);
        self.web.seen().iter().filter(|seen| line(seen)).count()
    }

    pub(crate) fn sink(&self, prefix: &str) -> RawSink {
        let endpoint = format!("http://{}", self.web.address);
        let variables: Vec<(&str, &str)> = match self.service {
            ObjectService::Gcs => vec![
                ("GOOGLE_BASE_URL", &endpoint),
                ("GOOGLE_ALLOW_HTTP", "true"),
                ("GOOGLE_BEARER_TOKEN", "secret"),
            ],
            ObjectService::Azure => vec![
                ("AZURE_STORAGE_ENDPOINT", &endpoint),
                ("AZURE_ALLOW_HTTP", "true"),
                ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
                ("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0"),
            ],
            ObjectService::S3 => panic!("there is a server of its own for it"),
        };
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        RawSink::bucket(self.service, BUCKET, prefix, variables).unwrap()
    }
}

/// What the server knows.
struct Cloud {
    service: ObjectService,
    root: PathBuf,
    /// By upload or object, then by part or block.
    parts: Mutex<BTreeMap<String, BTreeMap<String, Vec<u8>>>>,
    /// A condition is looked at and acted on at once.
    doing: Mutex<()>,
}

/// A request, taken apart.
struct Asked<'a> {
    method: &'a str,
    /// The object, empty for the bucket.
    object: String,
    query: BTreeMap<String, String>,
    seen: &'a Seen,
}

impl<'a> Asked<'a> {
    fn new(seen: &'a Seen) -> Self {
        let mut words = seen.head.split(' ');
        let (method, target) = (words.next().unwrap(), words.next().unwrap());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let plain = |text: &str| percent_decode_str(text).decode_utf8().unwrap().into_owned();
        let pairs = query.split('&').filter_map(|pair| pair.split_once('=').or(Some((pair, ""))));
        let query = pairs.map(|(name, value)| (plain(name), plain(value))).collect();
        let object = path.strip_prefix(&format!("/{BUCKET}")).unwrap().trim_start_matches('/');
        Self { method, object: plain(object), query, seen }
    }

    fn asks(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }
}

impl Cloud {
    fn answer(&self, seen: &Seen) -> Answer {
        let _one_by_one = self.doing.lock().unwrap();
        let authorization = seen.header("authorization").unwrap_or_default();
        let (credential, done, deleted) = match self.service {
            ObjectService::Azure => ("SharedKey account:", 201, 202),
            _ => ("Bearer secret", 200, 204),
        };
        if !authorization.starts_with(credential) {
            return answer(401, "", "who are you?");
        }
        let asked = Asked::new(seen);
        let upload = asked.asks("uploadId").map(str::to_owned);
        match (asked.method, asked.asks("comp")) {
            ("GET", _) if asked.object.is_empty() => self.list(asked.asks("prefix").unwrap_or("")),
            ("GET", _) => match fs::read(self.path(&asked.object)) {
                Ok(bytes) => answer(200, FOUND, bytes),
                Err(_) => answer(404, "", "<Error><Code>NotFound</Code></Error>"),
            },
            ("HEAD", _) => match fs::metadata(self.path(&asked.object)) {
                Ok(found) => {
                    let length = found.len();
                    let head = format!("HTTP/1.1 200 X\r\ncontent-length: {length}\r\n{FOUND}\r\n");
                    raw(head, Then::Next)
                }
                Err(_) => answer(404, "", ""),
            },
            ("PUT", Some("block")) => {
                let block = asked.asks("blockid").unwrap().to_owned();
                self.add_part(&asked.object, block, &seen.body);
                answer(201, TAG, "")
            }
            ("PUT", Some("blocklist")) => {
                self.complete(&asked, &asked.object, "<Uncommitted>");
                answer(201, TAG, "")
            }
            ("PUT", _) if upload.is_some() => {
                let number = asked.asks("partNumber").unwrap().to_owned();
                self.add_part(&upload.unwrap(), number, &seen.body);
                answer(200, TAG, "")
            }
            ("PUT", _) => self.put(&asked, done),
            ("POST", _) if upload.is_some() => {
                self.complete(&asked, &upload.unwrap(), "<PartNumber>");
                answer(
                    200,
                    "",
                    "<CompleteMultipartUploadResult><ETag>\"1\"</ETag></CompleteMultipartUploadResult>",
                )
            }
            ("POST", _) if asked.asks("uploads").is_some() => {
                let id = &asked.object;
                let tag = "InitiateMultipartUploadResult";
                answer(200, "", format!("<{tag}><UploadId>{id}</UploadId></{tag}>"))
            }
            ("POST", Some("batch")) => self.delete_all(&asked),
            ("DELETE", _) => {
                let gone = match &upload {
                    Some(upload) => self.parts.lock().unwrap().remove(upload).is_some(),
                    None => fs::remove_file(self.path(&asked.object)).is_ok(),
                };
                answer(if gone { deleted } else { 404 }, "", "")
            }
            _ => answer(400, "", "<Error><Code>Unheard</Code></Error>"),
        }
    }

    /// Azure's way to delete, of which one is the special case.
    fn delete_all(&self, asked: &Asked<'_>) -> Answer {
        let body = String::from_utf8(asked.seen.body.clone()).unwrap();
        let lines = body.lines().filter_map(|line| line.strip_prefix("DELETE "));
        let answers = lines.enumerate().map(|(id, line)| {
            let path =
                line.split(' ').next().unwrap().strip_prefix(&format!("/{BUCKET}/")).unwrap();
            let object = percent_decode_str(path).decode_utf8().unwrap();
            let gone = fs::remove_file(self.path(&object)).is_ok();
            let status = if gone { "202 Accepted" } else { "404 Not Found" };
            format!(
                "--batch\r\nContent-Type: application/http\r\nContent-ID: {id}\r\n\r\n\
                 HTTP/1.1 {status}\r\n\r\n\r\n"
            )
        });
        let body: String = answers.chain(["--batch--\r\n".to_owned()]).collect();
        answer(202, "content-type: multipart/mixed; boundary=batch\r\n", body)
    }

    fn put(&self, asked: &Asked<'_>, done: u16) -> Answer {
        let only_new = match self.service {
            ObjectService::Azure => asked.seen.header("if-none-match") == Some("*"),
            _ => asked.seen.header("x-goog-if-generation-match") == Some("0"),
        };
        if only_new && self.path(&asked.object).exists() {
            return match self.service {
                ObjectService::Azure => {
                    answer(409, "", "<Error><Code>BlobAlreadyExists</Code></Error>")
                }
                _ => answer(412, "", "<Error><Code>PreconditionFailed</Code></Error>"),
            };
        }
        self.write(&asked.object, &asked.seen.body);
        answer(done, TAG, "")
    }

    fn add_part(&self, upload: &str, part: String, bytes: &[u8]) {
        let mut parts = self.parts.lock().unwrap();
        parts.entry(upload.to_owned()).or_default().insert(part, bytes.to_vec());
    }

    /// Puts together the parts that the body names, in its order.
    fn complete(&self, asked: &Asked<'_>, upload: &str, element: &str) {
        let mut parts = self.parts.lock().unwrap().remove(upload).unwrap();
        let body = String::from_utf8(asked.seen.body.clone()).unwrap();
        let named = body.split(element).skip(1).map(|rest| rest.split('<').next().unwrap());
        let whole: Vec<u8> = named.flat_map(|part| parts.remove(part).unwrap()).collect();
        self.write(&asked.object, &whole);
    }

    fn list(&self, prefix: &str) -> Answer {
        let names = files_below(&self.root).into_iter().filter(|name| name.starts_with(prefix));
        let body: String = match self.service {
            ObjectService::Azure => {
                let blob = |name: String| {
                    format!(
                        "<Blob><Name>{name}</Name><Properties>\
                         <Last-Modified>Thu, 01 Jan 2026 00:00:00 GMT</Last-Modified>\
                         <Content-Length>1</Content-Length><Content-Type>x</Content-Type>\
                         <Etag>1</Etag></Properties></Blob>"
                    )
                };
                let blobs: String = names.map(blob).collect();
                let tag = "EnumerationResults";
                format!("<{tag}><Blobs>{blobs}</Blobs><NextMarker/></{tag}>")
            }
            _ => {
                let object = |name: String| {
                    format!(
                        "<Contents><Key>{name}</Key><Size>1</Size><ETag>1</ETag>\
                         <LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
                    )
                };
                let objects: String = names.map(object).collect();
                format!("<ListBucketResult>{objects}</ListBucketResult>")
            }
        };
        answer(200, "", body)
    }

    fn write(&self, object: &str, bytes: &[u8]) {
        let path = self.path(object);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn path(&self, object: &str) -> PathBuf {
        let plain = |part| matches!(part, Component::Normal(_));
        assert!(Path::new(object).components().all(plain), "{object}");
        self.root.join(object)
    }
}

const TAG: &str = "etag: \"1\"\r\n";
const FOUND: &str = "etag: \"1\"\r\nlast-modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n";
