//! TLS for whoever connects: certificate and key from files, and the handshake.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, crypto};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a client may take for its handshake.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// A file that a setting names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFile {
    /// Flag or variable.
    pub setting: String,
    /// Where it is.
    pub path: PathBuf,
}

/// Why there can be no TLS with these files. `Display` names the setting to look at.
#[derive(Debug, Error)]
pub enum TlsError {
    /// The file cannot be read.
    #[error("{}: cannot read {:?}: {error}", file.setting, file.path)]
    Unreadable {
        /// The file.
        file: TlsFile,
        /// The system's reason.
        error: io::Error,
    },
    /// Something in it begins like PEM and does not go on so.
    #[error("{}: {:?} is broken PEM: {error}", file.setting, file.path)]
    BrokenPem {
        /// The file.
        file: TlsFile,
        /// What is wrong.
        error: pem::Error,
    },
    /// No certificate.
    #[error("{}: there is no certificate in {:?}; it must be PEM, the server's own certificate first", file.setting, file.path)]
    NoCertificate {
        /// The file.
        file: TlsFile,
    },
    /// No key.
    #[error("{}: there is no private key in {:?}; it must be PEM without a passphrase", file.setting, file.path)]
    NoKey {
        /// The file.
        file: TlsFile,
    },
    /// A certificate or a key that cannot be used.
    #[error("{}: what is in {:?} cannot be used: {error}", file.setting, file.path)]
    Unusable {
        /// The file.
        file: TlsFile,
        /// What is wrong.
        error: rustls::Error,
    },
    /// Two files that do not belong together.
    #[error("{key} is not the key of the certificate in {certificate}")]
    Mismatch {
        /// Setting of the certificate.
        certificate: String,
        /// Setting of the key.
        key: String,
    },
}

/// Makes encrypted connections out of plain ones.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Reads a certificate, with those that stand between it and a known authority, and its private key; both PEM.
    ///
    /// # Errors
    /// The first thing that is wrong with the files.
    pub fn read(certificate: &TlsFile, key: &TlsFile) -> Result<Self, TlsError> {
        let chain = certificates(certificate)?;
        let private = private_key(key)?;
        let unusable = |file: &TlsFile, error| TlsError::Unusable {
            file: file.clone(),
            error,
        };
        // Named, since rustls can choose none by itself once two are compiled in.
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(certificate, error))?
            .with_no_client_auth()
            .with_single_cert(chain, private)
            .map_err(|error| match error {
                rustls::Error::InconsistentKeys(_) => TlsError::Mismatch {
                    certificate: certificate.setting.clone(),
                    key: key.setting.clone(),
                },
                rustls::Error::InvalidCertificate(_) => unusable(certificate, error),
                _ => unusable(key, error),
            })?;
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    /// Shakes hands.
    ///
    /// # Errors
    /// The client does not speak TLS, leaves, or takes longer than [`HANDSHAKE_MAX`].
    pub async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let shaken = tokio::time::timeout(HANDSHAKE_MAX, self.0.accept(stream)).await;
        shaken.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

fn read(file: &TlsFile) -> Result<Vec<u8>, TlsError> {
    std::fs::read(&file.path).map_err(|error| TlsError::Unreadable {
        file: file.clone(),
        error,
    })
}

fn certificates(file: &TlsFile) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(file)?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<_, _>>()
        .map_err(|error| TlsError::BrokenPem {
            file: file.clone(),
            error,
        })?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate { file: file.clone() });
    }
    Ok(chain)
}

fn private_key(file: &TlsFile) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(&read(file)?).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::NoKey { file: file.clone() },
        error => TlsError::BrokenPem {
            file: file.clone(),
            error,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A certificate of its own for `localhost`, as two files.
    fn files(folder: &tempfile::TempDir, name: &str) -> (TlsFile, TlsFile) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let file = |setting: &str, kind: &str, text: String| {
            let path = folder.path().join(format!("{name}.{kind}"));
            std::fs::write(&path, text).unwrap();
            TlsFile {
                setting: setting.to_owned(),
                path,
            }
        };
        (
            file("CERT", "cert", made.cert.pem()),
            file("KEY", "key", made.signing_key.serialize_pem()),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_shakes_hands_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = files(&folder, "one");
        let tls = Tls::read(&certificate, &key).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let client = client.unwrap();
        let start = tokio::time::Instant::now();
        let error = tls.accept(accepted.unwrap().0).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(start.elapsed() >= HANDSHAKE_MAX);
        drop(client);
    }

    #[test]
    fn s4_files_that_cannot_make_tls_are_refused_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = files(&folder, "one");
        let (_, other_key) = files(&folder, "other");
        let text = |file: &TlsFile| std::fs::read_to_string(&file.path).unwrap();
        let written = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let broken = text(&certificate).replace("-----END", "*\n-----END");
        let no_certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let no_key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        let with = |file: &TlsFile, path: PathBuf| TlsFile {
            path,
            ..file.clone()
        };
        let missing = folder.path().join("missing");
        let cases = [
            (
                with(&certificate, missing.clone()),
                key.clone(),
                "CERT: cannot read",
            ),
            (
                with(&certificate, folder.path().into()),
                key.clone(),
                "CERT: cannot read",
            ),
            (certificate.clone(), with(&key, missing), "KEY: cannot read"),
            (
                with(&certificate, key.path.clone()),
                key.clone(),
                "CERT: there is no certificate in",
            ),
            (
                with(&certificate, written("empty", "")),
                key.clone(),
                "CERT: there is no certificate in",
            ),
            (
                certificate.clone(),
                with(&key, certificate.path.clone()),
                "KEY: there is no private key in",
            ),
            (
                with(&certificate, written("broken", &broken)),
                key.clone(),
                "CERT: ",
            ),
            (
                with(&certificate, written("no-cert", no_certificate)),
                key.clone(),
                "CERT: what is in",
            ),
            (
                certificate.clone(),
                with(&key, written("no-key", no_key)),
                "KEY: what is in",
            ),
            (
                certificate.clone(),
                other_key,
                "KEY is not the key of the certificate in CERT",
            ),
        ];
        for (certificate, key, expected) in cases {
            let error = Tls::read(&certificate, &key)
                .expect_err(expected)
                .to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        assert!(Tls::read(&certificate, &key).is_ok());
    }
}
