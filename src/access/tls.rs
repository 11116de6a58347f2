//! TLS: a certificate and its key from PEM files, ready for rustls.
//!
//! Read when the daemon starts (and by `pinbad check`), and anew when it is told to:
//! [`Tls::read_again`] says whether the files can be used, [`Tls::replace`] changes what the next
//! connection gets; connections that are open keep theirs. TLS 1.2 and 1.3 with the ring provider,
//! named here rather than installed for the process, so that no other library's choice changes it.
//! Errors name the setting, the file and what is wrong with it.

use std::path::Path;
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::certificate;
use super::users::read_file;
use crate::config::TlsFiles;

/// Longest PEM file that is read, bytes: a chain has a few KiB a certificate.
const PEM_BYTES_MAX: usize = 1 << 20;

const CERTIFICATE: &str =
    "a PEM file with the certificate of this host first, then those between it and the root";
const KEY: &str = "a PEM file with the private key (PKCS#8, PKCS#1 or SEC1), without a passphrase";

/// Why TLS cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("{key} = {file}: {problem}; accepted: {accepted}")]
pub struct TlsError {
    /// `http.tls_cert` and the like.
    key: String,
    file: String,
    problem: String,
    accepted: &'static str,
}

/// The TLS settings of a listener, and the files they are read from.
pub struct Tls {
    files: TlsFiles,
    acceptor: RwLock<Acceptor>,
}

/// A certificate with its key, ready to accept connections.
#[derive(Debug, Clone)]
pub struct Acceptor {
    /// Certificate and key.
    pub config: Arc<ServerConfig>,
    /// The unix second after which the certificate is no longer valid, where it says so.
    pub expires: Option<u64>,
}

impl Tls {
    /// Reads both files.
    ///
    /// # Errors
    /// One of them cannot be read or used, or the key is that of another certificate.
    pub fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        Ok(Self {
            acceptor: RwLock::new(acceptor(files)?),
            files: files.clone(),
        })
    }

    /// Reads the files again; nothing changes until the result is installed.
    ///
    /// # Errors
    /// As [`Tls::load`].
    pub fn read_again(&self) -> Result<Acceptor, TlsError> {
        acceptor(&self.files)
    }

    /// The file of the certificate.
    #[must_use]
    pub fn certificate(&self) -> &Path {
        &self.files.cert
    }

    /// Takes connections with this from now on.
    pub fn replace(&self, acceptor: Acceptor) {
        *self.acceptor.write() = acceptor;
    }

    /// `http` or `mysql`.
    #[must_use]
    pub fn section(&self) -> &'static str {
        self.files.section
    }

    /// The unix second after which the certificate is no longer valid, where it says so.
    #[must_use]
    pub fn expires(&self) -> Option<u64> {
        self.acceptor.read().expires
    }

    /// The settings for the next connection.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.acceptor.read().config)
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

/// The server side of TLS with this certificate and key; no client certificates, no ALPN.
///
/// # Errors
/// As [`Tls::load`].
pub fn acceptor(files: &TlsFiles) -> Result<Acceptor, TlsError> {
    let refuse = |name: &str, file: &Path, problem: String, accepted| TlsError {
        key: format!("{}.{name}", files.section),
        file: file.display().to_string(),
        problem,
        accepted,
    };
    let bad_cert = |problem: String| refuse("tls_cert", &files.cert, problem, CERTIFICATE);
    let bad_key = |problem: String| refuse("tls_key", &files.key, problem, KEY);
    let chain = read(&files.cert, false).map_err(bad_cert)?;
    let chain = certificates(&chain).map_err(bad_cert)?;
    let expires = chain.first().and_then(|leaf| certificate::expires(leaf));
    let key = read(&files.key, true).map_err(bad_key)?;
    let key = private_key(&key).map_err(bad_key)?;
    let provider = Arc::new(ring::default_provider());
    let signing = provider
        .key_provider
        .load_private_key(key.clone_key())
        .map_err(|error| bad_key(error.to_string()))?;
    // Its own check of the pair would not say which of the two it could not read.
    drop(signing);
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| bad_cert(error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => bad_key(format!(
                "this is not the key of the certificate in {}",
                files.cert.display()
            )),
            error => bad_cert(error.to_string()),
        })?;
    Ok(Acceptor {
        config: Arc::new(config),
        expires,
    })
}

fn read(path: &Path, secret: bool) -> Result<Vec<u8>, String> {
    let bytes = read_file(path, PEM_BYTES_MAX + 1, secret)?;
    match bytes.len() > PEM_BYTES_MAX {
        true => Err("longer than 1 MiB".to_owned()),
        false => Ok(bytes),
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("not PEM: {error}"))?;
    match (chain.is_empty(), has(pem, "PRIVATE KEY")) {
        (false, _) => Ok(chain),
        (true, true) => Err("there is a private key in it and no certificate".to_owned()),
        (true, false) => Err("there is no certificate in it".to_owned()),
    }
}

fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    if has(pem, "ENCRYPTED") {
        return Err("the key in it is encrypted with a passphrase".to_owned());
    }
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| {
        if has(pem, "PRIVATE KEY") {
            format!("not a usable private key: {error}")
        } else if has(pem, "CERTIFICATE") {
            "there is a certificate in it and no private key".to_owned()
        } else {
            "there is no private key in it".to_owned()
        }
    })
}

/// Whether `words` stand in a `-----BEGIN` line, or in the headers of the older way to encrypt
/// keys.
fn has(pem: &[u8], words: &str) -> bool {
    String::from_utf8_lossy(pem)
        .lines()
        .any(|line| (line.starts_with("-----BEGIN") || line.contains(": ")) && line.contains(words))
}

#[cfg(test)]
mod tests;
