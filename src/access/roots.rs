//! Trusted roots for the certificates of other servers (daemons, ClickHouse, OpenTelemetry): those
//! in a file, or those of the system.
//!
//! Read only if an address begins with `https`. The system's roots are one file whose path depends
//! on the system; the variable `SSL_CERT_FILE` names another, as for curl. A server whose
//! certificate is signed by none of them is not contacted.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use ureq::tls::{
    Certificate, PemItem, RootCerts, TlsConfig, TlsConfigBuilder, TlsProvider, parse_pem,
};

/// Paths of the system's roots: Debian and Alpine, Fedora and Red Hat, SUSE.
const PLACES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Returns the TLS configuration with the roots in `file`, or with the system's; `setting` is the
/// name of the setting that gives the file. The certificates in `own` are trusted too.
///
/// # Errors
/// Which file cannot be used, and why.
pub fn tls(
    (setting, file): (&str, Option<&Path>),
    own: Option<&Path>,
) -> Result<TlsConfig, String> {
    let roots = match file {
        Some(file) => Some((setting, file.to_owned())),
        None => system().map(|path| ("the system's certificates", path)),
    };
    let own = own.map(|path| ("the configured certificate", path.to_owned()));
    let places: Vec<_> = roots.into_iter().chain(own).collect();
    if places.is_empty() {
        let none = "there are no certificates of this system that one could trust";
        return Err(format!("{none}; give {setting}"));
    }
    let mut all = Vec::new();
    for place in places {
        all.extend(certificates(place)?);
    }
    let config = builder().root_certs(RootCerts::new_with_certs(&all));
    Ok(config.build())
}

/// Returns a TLS configuration that verifies nothing.
#[must_use]
pub fn none() -> TlsConfig {
    let config = builder().disable_verification(true);
    config.build()
}

fn builder() -> TlsConfigBuilder {
    TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
}

/// Returns the certificates in a file.
fn certificates((name, path): (&str, PathBuf)) -> Result<Vec<Certificate<'static>>, String> {
    let shown = path.display();
    let pem =
        std::fs::read(&path).map_err(|error| format!("{name}: cannot read {shown}: {error}"))?;
    let certificates: Vec<_> = parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err(format!(
            "{name}: there is no certificate in {shown}; accepted: PEM"
        ));
    }
    Ok(certificates)
}

fn system() -> Option<PathBuf> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let usual = || PLACES.into_iter().map(PathBuf::from);
    named.or_else(|| usual().find(|place| place.exists()))
}
