//! TLS: a certificate and its key from PEM files, ready for rustls.
//!
//! Read at start (and by `pinbad check`), and again on request: `Tls::read_again` checks whether
//! the files can be used, `Tls::replace` installs them for new connections; open connections keep
//! theirs. TLS 1.2 and 1.3 with the ring provider, which is named here rather than installed for
//! the process, so that no other library's choice changes it. Errors name the setting, the file and
//! what is wrong with it.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tracing::warn;

use super::certificate;
use super::users::read_file;
use crate::config::{FrontConfig, TlsFiles};

/// Maximum size of a PEM file, bytes: a chain has a few KiB per certificate.
const PEM_BYTES_MAX: usize = 1 << 20;

const CERTIFICATE: &str =
    "a PEM file with the certificate of this host first, then those between it and the root";
const KEY: &str = "a PEM file with the private key (PKCS#8, PKCS#1 or SEC1), without a passphrase: RSA of 2048 to 4096 bits, \
    ECDSA (P-256, P-384) or Ed25519";

/// Error in the TLS settings.
#[derive(Debug, thiserror::Error)]
#[error("{key} = {file}: {problem}; accepted: {accepted}")]
pub struct TlsError {
    /// Name of the setting, such as `http.tls_cert`.
    key: String,
    file: String,
    problem: String,
    accepted: &'static str,
}

impl TlsError {
    /// Returns true if it is about a file of this front end.
    pub(crate) fn is_of(&self, front: &FrontConfig<'_>) -> bool {
        let files = front.tls().map(|files| [files.cert, files.key]);
        files.iter().flatten().any(|file| file.display().to_string() == self.file)
    }
}

/// TLS of a listener, and the files it is read from.
pub struct Tls {
    files: TlsFiles,
    acceptor: RwLock<Acceptor>,
}

/// A certificate with its key, ready to accept connections.
#[derive(Debug, Clone)]
pub struct Acceptor {
    /// Certificate and key.
    pub config: Arc<ServerConfig>,
    /// Unix seconds between which the certificate is valid, if they can be read.
    pub validity: Option<RangeInclusive<u64>>,
    /// Whether the certificate is marked as that of an authority.
    pub is_authority: bool,
}

/// Certificates read at one time. What several front ends share is read once, and so logged once.
#[derive(Debug, Default)]
pub struct Certificates(Vec<(TlsFiles, Acceptor)>);

impl Certificates {
    /// Reads both files, unless that was done.
    ///
    /// # Errors
    /// If a file cannot be read or used, or the key does not belong to the certificate.
    pub(crate) fn read(&mut self, files: &TlsFiles) -> Result<Acceptor, TlsError> {
        let is_same = |it: &TlsFiles| (&it.cert, &it.key) == (&files.cert, &files.key);
        if let Some((_, known)) = self.0.iter().find(|(it, _)| is_same(it)) {
            return Ok(known.clone());
        }
        let acceptor = acceptor(files)?;
        self.0.push((files.clone(), acceptor.clone()));
        Ok(acceptor)
    }
}

impl Tls {
    /// Reads both files.
    ///
    /// # Errors
    /// As [`Certificates::read`].
    pub(crate) fn load(
        files: &TlsFiles,
        certificates: &mut Certificates,
    ) -> Result<Self, TlsError> {
        let acceptor = RwLock::new(certificates.read(files)?);
        Ok(Self { acceptor, files: files.clone() })
    }

    /// Reads the files again; nothing changes until the result is passed to [`Tls::replace`].
    ///
    /// # Errors
    /// As [`Tls::load`].
    pub(crate) fn read_again(&self, certificates: &mut Certificates) -> Result<Acceptor, TlsError> {
        certificates.read(&self.files)
    }

    /// Returns the path of the certificate.
    pub(crate) fn certificate(&self) -> &Path {
        &self.files.cert
    }

    /// Uses `acceptor` for new connections.
    pub(crate) fn replace(&self, acceptor: Acceptor) {
        *self.acceptor.write() = acceptor;
    }

    /// Returns the section of the configuration: `http` or `mysql`.
    pub(crate) fn section(&self) -> &'static str {
        self.files.section
    }

    /// Returns the unix second after which the certificate is no longer valid, if it can be read.
    pub(crate) fn expires(&self) -> Option<u64> {
        self.acceptor.read().validity.as_ref().map(|it| *it.end())
    }

    /// Returns the configuration for a new connection.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.acceptor.read().config)
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

/// Creates the server side of TLS with this certificate and key; no client certificates, no ALPN.
///
/// # Errors
/// As [`Tls::load`].
pub(crate) fn acceptor(files: &TlsFiles) -> Result<Acceptor, TlsError> {
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
    let validity = chain.first().and_then(|leaf| certificate::validity(leaf));
    let is_authority = chain.first().is_some_and(|leaf| certificate::is_authority(leaf));
    if is_authority {
        warn!(file = %files.cert.display(), "This certificate {}.", certificate::AUTHORITY);
    }
    if let Some(remark) = validity.as_ref().and_then(certificate::validity_remark) {
        warn!(file = %files.cert.display(), "This certificate {remark}.");
    }
    let key = read(&files.key, true).map_err(bad_key)?;
    let key = private_key(&key).map_err(bad_key)?;
    let provider = Arc::new(ring::default_provider());
    let signing = provider
        .key_provider
        .load_private_key(key.clone_key())
        .map_err(|_| bad_key("it is damaged, or of another kind or length".to_owned()))?;
    // rustls' own check of the pair would not say which of the two it could not read.
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
    Ok(Acceptor { config: Arc::new(config), validity, is_authority })
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
        .map_err(|error| format!("not PEM: {}", pem_problem(&error)))?;
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
            format!("not a usable private key: {}", pem_problem(&error))
        } else if has(pem, "CERTIFICATE") {
            "there is a certificate in it and no private key".to_owned()
        } else {
            "there is no private key in it".to_owned()
        }
    })
}

/// The error as text; rustls shows the end marker as a list of byte values.
fn pem_problem(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { end_marker } => {
            format!("cut off before -----END {}-----", String::from_utf8_lossy(end_marker))
        }
        error => error.to_string(),
    }
}

/// Returns true if `words` occur in a `-----BEGIN` line, or in the headers of the older way to
/// encrypt keys.
fn has(pem: &[u8], words: &str) -> bool {
    String::from_utf8_lossy(pem)
        .lines()
        .any(|line| (line.starts_with("-----BEGIN") || line.contains(": ")) && line.contains(words))
}

#[cfg(test)]
mod tests;
