//! Whose signature under a server's certificate counts, a daemon's or ClickHouse's: those in a
//! file, or those that the system trusts.
//!
//! Read only when an address begins with `https`. The system's are one file whose place depends on
//! the system; the variable `SSL_CERT_FILE` names another, as for curl. A daemon whose certificate
//! was signed by nobody in there is not asked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use ureq::tls::{PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};

/// Where systems keep what they trust: Debian and Alpine, Fedora and Red Hat, SUSE.
const PLACES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// How TLS is done with these roots, or with the system's. Before the file stands the name of the
/// setting that gives it.
///
/// # Errors
/// Says which file cannot be used and why.
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
