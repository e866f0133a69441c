//! Encrypted connections, with a certificate made here and given to the test server.

use std::io::Write;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use redrive_postgres::{PostgresOptions, PostgresStore};
use redrive_store::Error;
use tempfile::NamedTempFile;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::OnceCell,
};

use crate::server::{Database, connect, server_url};

/// A certificate authority.
struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    /// A certificate for a server, and its key.
    fn sign(&self, name: &str) -> (String, String) {
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn file(&self) -> NamedTempFile {
        file_of(&self.certificate)
    }
}

fn file_of(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

/// The authority behind the test server's certificate, which is for 127.0.0.1. The first caller makes
/// both and switches encryption on.
async fn authority() -> &'static Authority {
    static AUTHORITY: OnceCell<Authority> = OnceCell::const_new();
    AUTHORITY
        .get_or_init(|| async {
            let authority = Authority::new();
            let (certificate, key) = authority.sign("127.0.0.1");
            let admin = connect(&server_url()).await;
            // The server writes the files itself, into its data folder and for itself alone.
            for (file, text) in [("redrive.crt", &certificate), ("redrive.key", &key)] {
                let copy = format!(
                    "COPY (SELECT unnest(string_to_array('{}', E'\\n')))
                     TO PROGRAM 'umask 077; cat > {file}'",
                    text.trim_end()
                );
                admin.batch_execute(&copy).await.unwrap();
            }
            for setting in
                ["ssl_cert_file = 'redrive.crt'", "ssl_key_file = 'redrive.key'", "ssl = on"]
            {
                admin.batch_execute(&format!("ALTER SYSTEM SET {setting}")).await.unwrap();
            }
            admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
            // The server reads its configuration when it gets round to it.
            for _ in 0..10_000 {
                let ssl = connect(&server_url()).await.query_one("SHOW ssl", &[]).await.unwrap();
                if ssl.get::<_, String>(0) == "on" {
                    return authority;
                }
            }
            panic!("the test server did not switch encryption on");
        })
        .await
}

/// Connects, and says whether the connection is encrypted.
async fn is_encrypted(database: &Database, parameters: &str) -> Result<bool, Error> {
    let url = format!("{}?{parameters}", database.url);
    let store = PostgresStore::connect(&url, PostgresOptions::default()).await?;
    let sql = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
               WHERE datname = current_database() AND application_name = 'redrive'";
    let row = database.raw().await.query_one(sql, &[]).await.unwrap();
    drop(store);
    Ok(row.get(0))
}

async fn check_encrypted(parameters: &str, expected: bool) {
    // A database of its own, so that the connections of another case are not counted.
    let database = Database::migrated().await;
    assert_eq!(is_encrypted(&database, parameters).await.unwrap(), expected, "{parameters}");
}

async fn check_refused(parameters: &str, parts: &[&str]) {
    let database = Database::migrated().await;
    let error = is_encrypted(&database, parameters).await.expect_err(parameters);
    assert!(matches!(error, Error::Refused { .. }), "{error:?}");
    for part in parts {
        assert!(error.to_string().contains(part), "{part:?} is not in: {error}");
    }
}

// OPS-1
#[tokio::test]
async fn encryption_is_used_where_the_server_has_it_unless_it_is_refused() {
    authority().await;
    check_encrypted("", true).await;
    check_encrypted("sslmode=prefer", true).await;
    check_encrypted("sslmode=allow", true).await;
    check_encrypted("sslmode=require", true).await;
    check_encrypted("sslmode=disable", false).await;
}

// OPS-1
#[tokio::test]
async fn a_certificate_of_a_known_authority_is_accepted() {
    let file = authority().await.file();
    let root = file.path().display();
    check_encrypted(&format!("sslmode=verify-full&sslrootcert={root}"), true).await;
    check_encrypted(&format!("sslmode=verify-ca&sslrootcert={root}"), true).await;
    check_encrypted(&format!("sslrootcert={root}&sslmode=require"), true).await;
}

// OPS-1
#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_refused() {
    authority().await;
    let stranger = Authority::new().file();
    let root = stranger.path().display();
    for mode in ["verify-full", "verify-ca", "require"] {
        let parameters = format!("sslmode={mode}&sslrootcert={root}");
        check_refused(&parameters, &["certificate is not accepted", "sslrootcert=FILE"]).await;
    }
    // Nor do the machine's own authorities know it.
    for parameters in ["sslmode=verify-full", "sslmode=verify-full&sslrootcert=system"] {
        check_refused(parameters, &["certificate"]).await;
    }
}

// OPS-1
#[tokio::test]
async fn a_certificate_for_another_host_is_refused() {
    let file = authority().await.file();
    let root = file.path().display();
    let mut database = Database::migrated().await;
    database.url = database.url.replace("@127.0.0.1:", "@elsewhere.example:");
    for mode in ["verify-full", "verify-ca"] {
        let parameters = format!("sslmode={mode}&sslrootcert={root}&hostaddr=127.0.0.1");
        let error = is_encrypted(&database, &parameters).await.unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error:?}");
        assert!(error.to_string().contains("certificate is not accepted"), "{error}");
        assert!(error.to_string().contains("elsewhere.example"), "{error}");
    }
}

// OPS-1
#[tokio::test]
async fn a_file_that_holds_no_authority_is_refused_by_name() {
    let (empty, garbage) =
        (file_of(""), file_of("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"));
    let empty = empty.path().display().to_string();
    let garbage = garbage.path().display().to_string();
    for (path, problem) in [
        ("/no/such/file.pem", "cannot be read"),
        (empty.as_str(), "holds no certificate"),
        (garbage.as_str(), "damaged certificate"),
    ] {
        let parameters = format!("sslmode=verify-full&sslrootcert={path}");
        check_refused(&parameters, &[path, problem, "sslrootcert"]).await;
    }
}

// OPS-1
#[tokio::test]
async fn a_server_without_encryption_is_refused_where_it_is_required() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 8];
            stream.read_exact(&mut request).await.unwrap();
            stream.write_all(b"N").await.unwrap();
        }
    });
    for mode in ["require", "verify-full"] {
        let url = format!("postgres://user@127.0.0.1:{port}/db?sslmode={mode}");
        let opened = PostgresStore::connect(&url, PostgresOptions::default()).await;
        let error = opened.map(drop).unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error:?}");
        assert!(error.to_string().contains("no encrypted connection"), "{error}");
    }
}
