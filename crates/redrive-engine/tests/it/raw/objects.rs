//! What only an object store does: lost answers, parts, credentials.

use std::sync::atomic::Ordering;

use redrive_engine::{ObjectService, RawError, RawSink};

use super::{CloudServer, S3Server, a_key, extracted, files_below, read, run, seal};

/// A bit more than three parts.
fn long_payload() -> Vec<u8> {
    b"{\"row\":\"0123456789012345678901234567890123456789\"}\n".repeat(520_000)
}

// PAR-3
#[tokio::test]
async fn a_seal_whose_answer_was_lost_is_a_seal() {
    let server = S3Server::start().await;
    let sink = server.sink("");
    server.tricks.lost_answers.store(1, Ordering::SeqCst);
    seal(&sink, &a_key(), &run("r-1"), b"{}\n").await.unwrap();
    sink.verify(&a_key(), &run("r-1")).await.unwrap();
    assert_eq!(server.tricks.lost_answers.load(Ordering::SeqCst), 0);
}

// PAR-3
#[tokio::test]
async fn a_long_payload_goes_in_parts() {
    let server = S3Server::start().await;
    let sink = server.sink("raw");
    let payload = long_payload();
    let mut writer = sink.begin(&a_key(), &run("r-1")).await.unwrap();
    for piece in payload.chunks(999_983) {
        writer.write(piece).await.unwrap();
    }
    assert_eq!(writer.record_count(), 520_000);
    writer.seal(extracted()).await.unwrap();
    assert_eq!(server.tricks.parts.load(Ordering::SeqCst), 4);
    assert!(read(&sink, &a_key(), &run("r-1")).await.unwrap() == payload);
}

// PAR-3
#[tokio::test]
async fn a_long_payload_goes_in_parts_to_google_and_azure_too() {
    for (service, parts) in
        [(ObjectService::Gcs, "partNumber="), (ObjectService::Azure, "blockid=")]
    {
        let server = CloudServer::start(service).await;
        let sink = server.sink("raw");
        let payload = long_payload();
        seal(&sink, &a_key(), &run("r-1"), &payload).await.unwrap();
        assert_eq!(server.asked(parts), 4);
        assert!(read(&sink, &a_key(), &run("r-1")).await.unwrap() == payload);
        // Who comes later is refused before it can replace anything.
        let late = seal(&sink, &a_key(), &run("r-1"), &payload).await;
        assert!(matches!(late, Err(RawError::Used { .. })), "{late:?}");
        let mut writer = sink.begin(&a_key(), &run("r-2")).await.unwrap();
        writer.write(&payload).await.unwrap();
        writer.abort().await.unwrap();
        assert_eq!(sink.runs(&a_key()).await.unwrap(), [run("r-1")]);
    }
}

// PAR-3
#[tokio::test]
async fn a_long_payload_given_up_leaves_nothing() {
    let server = S3Server::start().await;
    let sink = server.sink("raw");
    let mut writer = sink.begin(&a_key(), &run("r-1")).await.unwrap();
    writer.write(&long_payload()).await.unwrap();
    writer.abort().await.unwrap();
    assert_eq!(server.tricks.aborted.load(Ordering::SeqCst), 1);
    assert!(files_below(&server.folder()).is_empty());

    let mut writer = sink.begin(&a_key(), &run("r-2")).await.unwrap();
    writer.write(&long_payload()).await.unwrap();
    drop(writer);
    while server.tricks.aborted.load(Ordering::SeqCst) < 2
        || !files_below(&server.folder()).is_empty()
    {
        tokio::task::yield_now().await;
    }
}

// PAR-3
#[tokio::test]
async fn a_second_writer_of_a_long_payload_changes_nothing() {
    let server = S3Server::start().await;
    let sink = server.sink("raw");
    let mut first = sink.begin(&a_key(), &run("r-1")).await.unwrap();
    let mut second = sink.begin(&a_key(), &run("r-1")).await.unwrap();
    first.write(&long_payload()).await.unwrap();
    let refused = second.write(&long_payload()).await.unwrap_err();
    assert!(matches!(refused, RawError::Used { .. }), "{refused:?}");
    second.abort().await.unwrap();
    let short = seal(&sink, &a_key(), &run("r-1"), b"{}\n").await.unwrap_err();
    assert!(matches!(short, RawError::Used { .. }), "{short:?}");
    first.seal(extracted()).await.unwrap();
    sink.verify(&a_key(), &run("r-1")).await.unwrap();
}

#[tokio::test]
async fn a_wrong_secret_is_told() {
    let server = S3Server::start().await;
    let mut environment = server.environment();
    environment.push(("AWS_SECRET_ACCESS_KEY".to_owned(), "wrong".to_owned()));
    let sink = RawSink::bucket(ObjectService::S3, "bucket", "", environment).unwrap();
    let refused = sink.check().await.unwrap_err().in_words();
    assert!(refused.contains("cannot list s3://bucket"), "{refused}");
    assert!(refused.contains("SignatureDoesNotMatch"), "{refused}");
    assert!(!refused.contains("wrong"), "{refused}");
}

#[tokio::test]
async fn plain_http_is_refused_unless_allowed() {
    let server = S3Server::start().await;
    let mut environment = server.environment();
    environment.retain(|(name, _)| name != "AWS_ALLOW_HTTP");
    let sink = RawSink::bucket(ObjectService::S3, "bucket", "", environment);
    let refused = match sink {
        Ok(sink) => sink.check().await.unwrap_err().in_words(),
        Err(error) => error.in_words(),
    };
    assert!(refused.contains("http"), "{refused}");
}

#[test]
fn a_place_that_cannot_be_is_refused_by_name() {
    let long = "p".repeat(200);
    for (prefix, problem) in [(long.as_str(), "200 bytes, 128 are allowed"), ("a//b", "a//b")] {
        let refused = RawSink::bucket(ObjectService::S3, "b", prefix, []).unwrap_err();
        assert!(matches!(refused, RawError::Unusable { .. }), "{refused:?}");
        assert!(refused.to_string().contains(problem), "{refused}");
    }
    let azure = RawSink::bucket(ObjectService::Azure, "c", "", []).unwrap_err();
    assert!(azure.to_string().contains("az://c cannot hold raw partitions"), "{azure}");
    RawSink::bucket(ObjectService::Gcs, "b", "p", []).unwrap();
}
