//! Files that cannot be used, and the effect of a reload on new connections.

use std::fs;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use rcgen::{CertificateParams, KeyPair};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};

use super::*;
use crate::access::certificate::validity_remark;

/// A self-signed certificate for `stats.example`, and its key.
fn pair() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["stats.example".to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    (certificate.pem(), key.serialize_pem())
}

fn files(dir: &tempfile::TempDir, cert: &str, key: &str) -> TlsFiles {
    let write = |name: &str, text: &str| -> PathBuf {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    TlsFiles { section: "http", cert: write("cert.pem", cert), key: write("key.pem", key) }
}

#[test]
fn what_cannot_be_used_is_named_with_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let (cert, key) = pair();
    let (_, other_key) = pair();
    let cut = format!("{}\n-----END CERTIFICATE-----\n", &cert[..cert.len() / 2]);
    let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----\n";
    let no_key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let open = cert.replace("-----END CERTIFICATE-----", "");
    let secp256k1 = "-----BEGIN PRIVATE KEY-----
MIGEAgEAMBAGByqGSM49AgEGBSuBBAAKBG0wawIBAQQg6L7nA7P+BRgTBlilKzKC
FKlBtYsf5uvtaJMnu6Bd/DahRANCAASkWrINEcbhrmXPolAUrRyAxKkWDFGpWemN
SpcqpaNoKf4NW6Tvuhem9K2bkfUaSg5XRlS7dZ3GuQQCDLqIgCxs
-----END PRIVATE KEY-----
";
    let no_cert = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (cert, key, setting, problem) in cases![
        "" => &*key, "http.tls_cert", "there is no certificate in it";
        "hello" => &key, "http.tls_cert", "there is no certificate in it";
        &*key => &key, "http.tls_cert", "a private key in it and no certificate";
        &cut => &key, "http.tls_cert", "";
        no_cert => &key, "http.tls_cert", "";
        &cert => "", "http.tls_key", "there is no private key in it";
        &cert => &cert, "http.tls_key", "a certificate in it and no private key";
        &cert => &encrypted, "http.tls_key", "passphrase";
        &cert => old, "http.tls_key", "passphrase";
        &cert => no_key, "http.tls_key", "damaged, or of another kind or length";
        &cert => secp256k1, "http.tls_key", "damaged, or of another kind or length";
        &open => &key, "http.tls_cert", "not PEM: cut off before -----END CERTIFICATE-----";
        &cert => &other_key, "http.tls_key", "not the key of the certificate in";
    ] {
        let files = files(&dir, cert, key);
        let file = match setting {
            "http.tls_cert" => &files.cert,
            _ => &files.key,
        };
        let error = acceptor(&files).unwrap_err().to_string();
        let begin = format!("{setting} = {}: ", file.display());
        assert!(error.starts_with(&begin) && error.contains(problem), "{error}");
        assert!(error.contains("; accepted: a PEM file"), "{error}");
    }
    let mut missing = files(&dir, &cert, &key);
    acceptor(&missing).unwrap();
    missing.key = "/nowhere/key.pem".into();
    let error = acceptor(&missing).unwrap_err().to_string();
    assert!(error.starts_with("http.tls_key = /nowhere/key.pem: No such file"), "{error}");
    missing.cert = "/dev/zero".into();
    assert_has!(acceptor(&missing).unwrap_err().to_string() => "it is a device, not a regular file");
}

/// Returns the certificate presented to a client that trusts `trusted`.
fn shown(tls: &Tls, trusted: &str) -> Result<(), rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap()).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "stats.example".try_into().unwrap();
    let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
    let mut server = ServerConnection::new(tls.config()).unwrap();
    for _ in 0..4 {
        let mut wire = Vec::new();
        client.write_tls(&mut wire).unwrap();
        server.read_tls(&mut &wire[..]).unwrap();
        server.process_new_packets()?;
        wire.clear();
        server.write_tls(&mut wire).unwrap();
        client.read_tls(&mut &wire[..]).unwrap();
        client.process_new_packets()?;
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    Ok(())
}

#[test]
fn what_the_files_hold_now_is_taken_when_it_is_to_be() {
    let dir = tempfile::tempdir().unwrap();
    let (first, key) = pair();
    let tls = Tls::load(&files(&dir, &first, &key), &mut Certificates::default()).unwrap();
    shown(&tls, &first).unwrap();
    let (second, key) = pair();
    files(&dir, &second, &key);
    let again = tls.read_again(&mut Certificates::default()).unwrap();
    shown(&tls, &first).unwrap();
    tls.replace(again);
    shown(&tls, &second).unwrap();
    assert!(shown(&tls, &first).is_err());
    files(&dir, "", &key);
    tls.read_again(&mut Certificates::default()).unwrap_err();
    shown(&tls, &second).unwrap();
}

#[test]
fn debug_shows_paths_and_no_key() {
    let dir = tempfile::tempdir().unwrap();
    let (cert, key) = pair();
    let tls = Tls::load(&files(&dir, &cert, &key), &mut Certificates::default()).unwrap();
    let shown = format!("{tls:?}");
    assert!(shown.contains("key.pem") && shown.len() < 400, "{shown}");
}

#[test]
fn what_several_front_ends_share_is_read_once() {
    let dir = tempfile::tempdir().unwrap();
    let (cert, key) = pair();
    let http = files(&dir, &cert, &key);
    let mysql = TlsFiles { section: "mysql", ..http.clone() };
    let mut certificates = Certificates::default();
    let [first, second] = [&http, &mysql].map(|files| certificates.read(files).unwrap());
    assert!(Arc::ptr_eq(&first.config, &second.config));
    // What is wrong is said of each.
    fs::write(&http.key, "").unwrap();
    let mut certificates = Certificates::default();
    for (files, named) in [(&http, "http.tls_key = "), (&mysql, "mysql.tls_key = ")] {
        assert_has!(certificates.read(files).unwrap_err().to_string() => named);
    }
}

/// A certificate that clients refuse, or soon will, is told of when it is read.
#[test]
fn the_validity_of_a_certificate_is_told() {
    let year = |years: i32| chrono::Datelike::year(&chrono::Utc::now()) + years;
    for (first, last, said) in [
        (2000, year(-2), "has expired"),
        (2000, year(2), ""),
        (year(2), year(4), "is not valid before"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["stats.example".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(first, 1, 1);
        params.not_after = rcgen::date_time_ymd(last, 2, 3);
        let cert = params.self_signed(&key).unwrap().pem();
        let files = files(&dir, &cert, &key.serialize_pem());
        let remark = validity_remark(&acceptor(&files).unwrap().validity.unwrap());
        assert_eq!(remark.is_some(), !said.is_empty(), "{remark:?}");
        assert_has!(remark.unwrap_or_default() => said);
    }
    let now = UNIX_EPOCH.elapsed().unwrap().as_secs();
    assert_has!(validity_remark(&(0..=now + 3 * 86_400 - 60)).unwrap() => "expires soon, in 3 d, on 2");
    assert_eq!(validity_remark(&(0..=now + 15 * 86_400)), None);
}
