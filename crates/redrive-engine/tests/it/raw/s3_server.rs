//! A real S3 server on loopback: `s3s` with its folder as storage, signatures checked.
//!
//! Its conditional create looks first and writes then. S3 does both at once, so here they are done under a
//! lock. It also plays tricks that networks play.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
};
use redrive_engine::{ObjectService, RawSink};
use s3s::service::S3ServiceBuilder;
use s3s::{S3, S3Request, S3Response, S3Result, auth::SimpleAuth, dto::*, s3_error};
use s3s_fs::FileSystem;
use tempfile::TempDir;
use tokio::{net::TcpListener, sync::Mutex, task::JoinHandle};

const BUCKET: &str = "bucket";

/// A server that ends when it is dropped.
pub(crate) struct S3Server {
    folder: TempDir,
    endpoint: String,
    pub(crate) tricks: Arc<Tricks>,
    serving: JoinHandle<()>,
}

/// What the server does wrong, and how often it was asked for what.
#[derive(Debug, Default)]
pub(crate) struct Tricks {
    /// How many puts of metadata are done but answered with an error.
    pub(crate) lost_answers: AtomicUsize,
    pub(crate) parts: AtomicUsize,
    pub(crate) aborted: AtomicUsize,
}

impl S3Server {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(BUCKET)).unwrap();
        let tricks = Arc::new(Tricks::default());
        let files = FileSystem::new(folder.path()).unwrap();
        let mut service = S3ServiceBuilder::new(Storage {
            files,
            creating: Mutex::default(),
            tricks: tricks.clone(),
        });
        service.set_auth(SimpleAuth::from_single("key-id", "secret"));
        let service = service.build();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let service = service.clone();
                tokio::spawn(async move {
                    let server = Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(TokioIo::new(socket), service).await;
                });
            }
        });
        Self { folder, endpoint, tricks, serving }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().join(BUCKET)
    }

    /// The environment that leads to it.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let variables = [
            ("AWS_ENDPOINT_URL", self.endpoint.as_str()),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ACCESS_KEY_ID", "key-id"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_PAGER", "less"),
            ("HOME", "/nowhere"),
        ];
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    }

    pub(crate) fn sink(&self, prefix: &str) -> RawSink {
        RawSink::bucket(ObjectService::S3, BUCKET, prefix, self.environment()).unwrap()
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

struct Storage {
    files: FileSystem,
    creating: Mutex<()>,
    tricks: Arc<Tricks>,
}

#[async_trait::async_trait]
impl S3 for Storage {
    async fn put_object(
        &self,
        request: S3Request<PutObjectInput>,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        let is_seal = request.input.key.ends_with("/metadata.json");
        let _one_by_one = self.creating.lock().await;
        let put = self.files.put_object(request).await;
        let lost = &self.tricks.lost_answers;
        let less = |left: usize| left.checked_sub(1);
        if is_seal && lost.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok() {
            return Err(s3_error!(InternalError, "the answer was lost"));
        }
        put
    }

    async fn get_object(
        &self,
        request: S3Request<GetObjectInput>,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        self.files.get_object(request).await
    }

    async fn head_object(
        &self,
        request: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        self.files.head_object(request).await
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        self.files.list_objects_v2(request).await
    }

    async fn delete_object(
        &self,
        request: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        self.files.delete_object(request).await
    }

    async fn delete_objects(
        &self,
        request: S3Request<DeleteObjectsInput>,
    ) -> S3Result<S3Response<DeleteObjectsOutput>> {
        self.files.delete_objects(request).await
    }

    async fn create_multipart_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        self.files.create_multipart_upload(request).await
    }

    async fn upload_part(
        &self,
        request: S3Request<UploadPartInput>,
    ) -> S3Result<S3Response<UploadPartOutput>> {
        self.tricks.parts.fetch_add(1, Ordering::SeqCst);
        self.files.upload_part(request).await
    }

    async fn complete_multipart_upload(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        self.files.complete_multipart_upload(request).await
    }

    async fn abort_multipart_upload(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        self.tricks.aborted.fetch_add(1, Ordering::SeqCst);
        self.files.abort_multipart_upload(request).await
    }
}
