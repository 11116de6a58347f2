//! Trusted roots for the certificates of other servers (daemons, ClickHouse, OpenTelemetry): those
//! in a file, or those of the system.
//!
//! Read only if an address begins with `https`. The system's roots are one file whose path depends
//! on the system; the variable `SSL_CERT_FILE` names another, as for curl. A server whose
//! certificate is signed by none of them is not contacted.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use ureq::tls::{PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};

/// Paths of the system's roots: Debian and Alpine, Fedora and Red Hat, SUSE.
const PLACES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Returns the TLS configuration with the roots in `file`, or with the system's; `setting` is the
/// name of the setting that gives the file.
///
/// # Errors
/// Which file cannot be used, and why.
pub fn tls((setting, file): (&str, Option<&Path>)) -> Result<TlsConfig, String> {
    let none =
        || format!("there are no certificates of this system that one could trust; give {setting}");
    let (name, path) = match file {
        Some(file) => (setting, file.to_owned()),
        None => ("the system's certificates", system().ok_or_else(none)?),
    };
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
    let config = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .root_certs(RootCerts::new_with_certs(&certificates));
    Ok(config.build())
}

fn system() -> Option<PathBuf> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let usual = || PLACES.into_iter().map(PathBuf::from);
    named.or_else(|| usual().find(|place| place.exists()))
}
