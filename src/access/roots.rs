//! Trust in other servers (daemons, ClickHouse, OpenTelemetry): the roots in a file, or those of
//! the system.
//!
//! Read only if an address begins with `https`. The system's roots are one file whose path depends
//! on the system; the variable `SSL_CERT_FILE` names another, as for curl. A server whose
//! certificate is signed by none of them is not contacted. A certificate that the user named is
//! trusted itself too, whatever it is marked as: what `openssl req -x509` makes is marked as an
//! authority's.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use ureq::config::ConfigBuilder;
use ureq::tls::{TlsConfig, TlsProvider};
use ureq::typestate::AgentScope;
use ureq::{Agent, Timeout};

use self::connector::agent_with;
use super::certificate;
use super::users::read_file;

mod connector;

/// Paths of the system's roots: Debian and Alpine, Fedora and Red Hat, SUSE.
const PLACES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Most bytes that are read of a file: a system's has a few hundred KiB.
const PEM_BYTES_MAX: usize = 16 << 20;

/// Settings of an agent that sends to a server: every status is an answer, and what was sent to one
/// address goes to no other.
pub(crate) fn settings() -> ConfigBuilder<AgentScope> {
    Agent::config_builder().http_status_as_error(false).proxy(None).max_redirects(0)
}

/// Creates an agent that asks `url` and trusts the certificates in `file`, or the system's;
/// `setting` is the name of the setting that gives the file. Those in `own` are trusted too, and
/// the first of them, which its server presents, whatever name it is asked by.
///
/// # Errors
/// Fails with the file that cannot be used, and why.
pub(crate) fn agent(
    settings: ConfigBuilder<AgentScope>,
    url: &str,
    (setting, file): (&'static str, Option<&Path>),
    own: Option<&Path>,
) -> Result<Agent, String> {
    if !url.starts_with("https:") {
        return Ok(settings.build().new_agent());
    }
    let mut named = certificates(setting, file)?;
    let own = certificates("the configured certificate", own)?;
    let pinned = own.first().cloned();
    named.extend(own);
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(named.iter().cloned());
    if file.is_none() {
        match system() {
            Some(path) => {
                let all = certificates("the system's certificates", Some(&path))?;
                roots.add_parsable_certificates(all);
            }
            None if named.is_empty() => {
                let none = "there are no certificates of this system that one could trust";
                return Err(format!("{none}; give {setting}"));
            }
            None => {}
        }
    }
    let provider = Arc::new(ring::default_provider());
    let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|error| format!("none of the certificates to trust can be read: {error}"))?;
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { usual, named, pinned }))
        .with_no_client_auth();
    Ok(agent_with(settings.build(), Arc::new(tls)))
}

/// Says why a server could not be asked, without the library's prefix.
pub(crate) fn problem(error: &ureq::Error) -> String {
    if let ureq::Error::Timeout(limit) = error {
        return match limit {
            Timeout::Resolve => "its name was not resolved within the timeout".to_owned(),
            Timeout::Connect => "no connection within the timeout".to_owned(),
            _ => "no answer within the timeout".to_owned(),
        };
    }
    let text = error.to_string();
    text.strip_prefix("io: ").unwrap_or(&text).to_owned()
}

/// Creates an agent that verifies nothing.
pub(crate) fn credulous_agent(settings: ConfigBuilder<AgentScope>) -> Agent {
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .disable_verification(true)
        .build();
    settings.tls_config(tls).build().new_agent()
}

/// Returns the certificates in a file.
fn certificates(name: &str, path: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, String> {
    let Some(path) = path else { return Ok(Vec::new()) };
    let shown = path.display();
    // Flags of commands may name a pipe, as in `--ca-file <(...)`; the daemon must not wait for
    // one.
    let pem = match name.starts_with("--") {
        true => std::fs::read(path).map_err(|error| error.to_string()),
        false => read_file(path, PEM_BYTES_MAX, false),
    };
    let pem = pem.map_err(|problem| format!("{name}: cannot read {shown}: {problem}"))?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&pem).flatten().collect();
    if certificates.is_empty() {
        return Err(format!("{name}: there is no certificate in {shown}; accepted: PEM"));
    }
    Ok(certificates)
}

fn system() -> Option<PathBuf> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let usual = || PLACES.into_iter().map(PathBuf::from);
    named.or_else(|| usual().find(|place| place.exists()))
}

/// Verifies what a server presents: the pinned certificate by its validity, a named one by its name
/// and validity, any other one as usual, by the roots.
#[derive(Debug)]
struct Verifier {
    usual: Arc<WebPkiServerVerifier>,
    /// Certificates that the user named.
    named: Vec<CertificateDer<'static>>,
    /// The one of them that is the server's own. It need not name the address that is asked.
    pinned: Option<CertificateDer<'static>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        presented: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.named.contains(presented) {
            let usual = &self.usual;
            return usual.verify_server_cert(presented, intermediates, name, ocsp_response, now);
        }
        let validity = certificate::validity(presented).ok_or(CertificateError::BadEncoding)?;
        let (start, end) = validity.into_inner();
        let [not_before, not_after] =
            [start, end].map(|it| UnixTime::since_unix_epoch(Duration::from_secs(it)));
        let time = now;
        if time < not_before {
            return Err(CertificateError::NotValidYetContext { time, not_before }.into());
        }
        if time > not_after {
            return Err(CertificateError::ExpiredContext { time, not_after }.into());
        }
        if self.pinned.as_ref() != Some(presented) {
            verify_server_name(&ParsedCertificate::try_from(presented)?, name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        presented: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls12_signature(message, presented, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        presented: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls13_signature(message, presented, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};

    use super::*;

    /// 2026-01-01.
    const NOW: u64 = 1_767_225_600;

    fn params(is_ca: IsCa) -> CertificateParams {
        let mut params = CertificateParams::new(vec!["stats.example".to_owned()]).unwrap();
        params.is_ca = is_ca;
        params.not_before = date_time_ymd(2025, 1, 1);
        params.not_after = date_time_ymd(2027, 1, 1);
        params
    }

    fn verifier(named: &CertificateDer<'static>) -> Verifier {
        let mut roots = RootCertStore::empty();
        roots.add(named.clone()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        Verifier { usual: usual.build().unwrap(), named: vec![named.clone()], pinned: None }
    }

    fn verified(
        named: &CertificateDer<'static>,
        presented: &CertificateDer<'_>,
        name: &'static str,
        now: u64,
    ) -> Result<(), Error> {
        accepted(&verifier(named), presented, name, now)
    }

    fn accepted(
        verifier: &Verifier,
        presented: &CertificateDer<'_>,
        name: &'static str,
        now: u64,
    ) -> Result<(), Error> {
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
        let name = ServerName::try_from(name).unwrap();
        let result = verifier.verify_server_cert(presented, &[], &name, &[], now);
        result.map(|_| ())
    }

    #[test]
    fn a_named_certificate_is_trusted_for_its_name_and_time_alone() {
        let key = KeyPair::generate().unwrap();
        let of = |is_ca| params(is_ca).self_signed(&key).unwrap().der().clone();
        let authority = of(IsCa::Ca(BasicConstraints::Unconstrained));
        for named in [&authority, &of(IsCa::NoCa)] {
            let own = |name, now| verified(named, named, name, now);
            assert_eq!(own("stats.example", NOW), Ok(()));
            let error = own("other.example", NOW).unwrap_err().to_string();
            assert!(error.contains("not valid for name"), "{error}");
            let early = own("stats.example", NOW - 367 * 86_400).unwrap_err();
            let late = own("stats.example", NOW + 366 * 86_400).unwrap_err();
            let [early, late] = [early, late].map(|it| it.to_string());
            assert!(early.contains("not valid yet"), "{early}");
            assert!(late.contains("expired"), "{late}");
        }
        // Another certificate with the same name and key is an authority's, and not the named one.
        let mut other = params(IsCa::Ca(BasicConstraints::Unconstrained));
        other.serial_number = Some(7_u64.into());
        let other = other.self_signed(&key).unwrap().der().clone();
        let error = verified(&authority, &other, "stats.example", NOW).unwrap_err();
        assert!(error.to_string().contains("CaUsedAsEndEntity"), "{error}");
    }

    #[test]
    fn the_pinned_certificate_is_trusted_by_any_name_in_its_time() {
        let key = KeyPair::generate().unwrap();
        let of = |params: &CertificateParams| params.self_signed(&key).unwrap().der().clone();
        let mut own = params(IsCa::NoCa);
        let pinned = of(&own);
        let verifier = Verifier { pinned: Some(pinned.clone()), ..verifier(&pinned) };
        for name in ["stats.example", "127.0.0.1"] {
            assert_eq!(accepted(&verifier, &pinned, name, NOW), Ok(()));
        }
        let late = accepted(&verifier, &pinned, "127.0.0.1", NOW + 366 * 86_400).unwrap_err();
        assert!(late.to_string().contains("expired"), "{late}");
        // Another named one still needs the name.
        own.serial_number = Some(7_u64.into());
        let other = of(&own);
        let verifier = Verifier { named: vec![pinned, other.clone()], ..verifier };
        let error = accepted(&verifier, &other, "127.0.0.1", NOW).unwrap_err().to_string();
        assert!(error.contains("not valid for name"), "{error}");
    }

    #[test]
    fn what_a_named_authority_signed_is_trusted_as_usual() {
        let key = KeyPair::generate().unwrap();
        let authority = params(IsCa::Ca(BasicConstraints::Unconstrained));
        let root = authority.self_signed(&key).unwrap().der().clone();
        let issuer = Issuer::new(authority, key);
        let own = KeyPair::generate().unwrap();
        let leaf = params(IsCa::NoCa).signed_by(&own, &issuer).unwrap();
        assert_eq!(verified(&root, leaf.der(), "stats.example", NOW), Ok(()));
        let stranger = params(IsCa::NoCa).self_signed(&own).unwrap();
        assert!(verified(&root, stranger.der(), "stats.example", NOW).is_err());
    }
}
