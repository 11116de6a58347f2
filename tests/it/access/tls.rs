//! HTTP over TLS: certificates, their renewal, and those that cannot be used.

use super::*;
use crate::harness::{Here, await_until};

/// A root of its own, and a certificate for this machine that it signed; as files.
struct Certified {
    dir: tempfile::TempDir,
}

impl Certified {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut root = CertificateParams::new(Vec::<String>::new()).unwrap();
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        root.distinguished_name.push(DnType::CommonName, dir.path().to_str().unwrap());
        let root_key = KeyPair::generate().unwrap();
        let root_pem = root.self_signed(&root_key).unwrap().pem();
        let names = ["localhost", "127.0.0.1", "stats.example"];
        let leaf = CertificateParams::new(names.map(str::to_owned)).unwrap();
        let leaf_key = KeyPair::generate().unwrap();
        let leaf = leaf.signed_by(&leaf_key, &Issuer::new(root, root_key)).unwrap();
        for (name, pem) in [
            ("root.pem", root_pem),
            ("cert.pem", leaf.pem()),
            ("key.pem", leaf_key.serialize_pem()),
        ] {
            std::fs::write(dir.path().join(name), pem).unwrap();
        }
        Self { dir }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    fn settings(&self) -> [String; 2] {
        ["cert", "key"].map(|name| format!("http.tls_{name}={}", self.path(&format!("{name}.pem"))))
    }

    /// curl, which trusts this root and no other.
    fn curl(&self, to: SocketAddr, target: &str, more: &[&str]) -> Said {
        run(Command::new("curl")
            .args(["--silent", "--show-error", "--cacert", &self.path("root.pem")])
            .args(more)
            .arg(format!("https://{to}{target}")))
    }
}

/// A daemon that speaks TLS is not asked by the harness, which does not.
#[test]
fn over_tls_there_is_http_and_without_it_nothing() {
    let certified = Certified::new();
    let configured = Configured::new("");
    let [cert, key] = certified.settings();
    let program = Program::start(&["serve", "--config", &configured.config], &[&cert, &key]);
    let http = program.site.http;
    let kim = format!("kim:{PASSWORD}");
    for version in [&[][..], &["--tls-max", "1.2"], &["--tlsv1.3"], &["--http1.1"]] {
        let said = certified.curl(http, "/api/v1/reports", &[version, &["--user", &kim]].concat());
        assert_eq!(said.code, Some(0), "{version:?}: {said:?}");
        let body: Json = serde_json::from_str(&said.out).unwrap();
        assert!(body["reports"].as_array().unwrap().len() > 10, "{body}");
    }
    let resolve = format!("stats.example:{}:127.0.0.1", http.port());
    let by_name = run(Command::new("curl")
        .args(["--silent", "--cacert", &certified.path("root.pem"), "--resolve", &resolve])
        .args(["--user", &kim, "--write-out", "%{http_code}"])
        .arg(format!("https://stats.example:{}/healthz", http.port())));
    assert!(
        by_name.out.ends_with("421"),
        "TLS is right and the name is not configured: {by_name:?}"
    );
    let stranger = certified.curl(http, "/api/v1/reports", &["--include"]);
    assert!(stranger.out.starts_with("HTTP/1.1 401"), "{stranger:?}");
    let other_root = Certified::new();
    assert_eq!(other_root.curl(http, "/", &[]).code, Some(60), "not trusted");
    assert_ne!(certified.curl(http, "/", &["--tls-max", "1.1"]).code, Some(0));
    // In the clear: closed, with at most the alert of TLS before.
    for text in ["GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n", "\r\n\r\n", "\0\0\0\0\0\0"] {
        let mut stream = connect(http);
        stream.write_all(text.as_bytes()).unwrap();
        let mut reply = Vec::new();
        let ended = stream.read_to_end(&mut reply);
        assert!(ended.is_ok() || reply.is_empty(), "{ended:?}");
        assert!(reply.len() <= 7, "{:?}", String::from_utf8_lossy(&reply));
    }
    assert_eq!(certified.curl(http, "/healthz", &["--user", &kim]).code, Some(0));
}

/// A renewed certificate, a new user and a new secret need no restart; files that cannot be used
/// change nothing.
#[test]
fn sighup_takes_new_certificates_and_secrets() {
    let [old, new, older] = [Certified::new(), Certified::new(), Certified::new()];
    let configured = Configured::new("");
    let [cert, key] = old.settings();
    let program = Program::start(&["serve", "--config", &configured.config], &[&cert, &key]);
    let http = program.site.http;
    let ask = |trusted: &Certified, password: &str| {
        let user = format!("kim:{password}");
        let more =
            ["--user", user.as_str(), "--write-out", "%{http_code}", "--output", "/dev/null"];
        let said = trusted.curl(http, "/healthz", &more);
        said.out
    };
    let reloads = |message: &str, times: usize| {
        program.signal("HUP");
        await_condition("it reads the configuration anew", || {
            let log = program.log();
            let lines = log.iter().filter(|line| line["message"] == message);
            if lines.count() == times { Ok(()) } else { Err(log) }
        });
    };
    assert_eq!((ask(&old, PASSWORD), ask(&new, PASSWORD)), ("200".into(), "000".into()));
    let (done, refused) =
        ("Reloaded the configuration.", "Cannot reload the configuration: the old one stays.");
    std::fs::copy(new.path("cert.pem"), old.path("cert.pem")).unwrap();
    let password = configured.dir.path().join("password");
    std::fs::write(&password, "another-password").unwrap();
    reloads(refused, 1);
    // The key is still that of the old one, and so everything is as it was.
    assert_eq!((ask(&old, PASSWORD), ask(&new, PASSWORD)), ("200".into(), "000".into()));
    std::fs::copy(new.path("key.pem"), old.path("key.pem")).unwrap();
    reloads(done, 1);
    let log = program.log();
    let reloaded = log.iter().find(|line| line["message"] == done).unwrap();
    let certificates = reloaded["certificates_read"].as_str().unwrap();
    assert!(certificates.contains(&old.path("cert.pem")), "{reloaded}");
    assert_eq!(reloaded["users_read"], 3, "{reloaded}");
    assert_eq!(ask(&old, "another-password"), "000");
    assert_eq!((ask(&new, "another-password"), ask(&new, PASSWORD)), ("200".into(), "401".into()));
    // Without the secret the new certificate is not taken either.
    std::fs::remove_file(&password).unwrap();
    std::fs::copy(older.path("cert.pem"), old.path("cert.pem")).unwrap();
    std::fs::copy(older.path("key.pem"), old.path("key.pem")).unwrap();
    // A line for each of the three users that have it.
    reloads(refused, 4);
    assert_eq!(
        (ask(&new, "another-password"), ask(&older, "another-password")),
        ("200".into(), "000".into())
    );
}

/// Bytes of a large answer come whole through TLS, and a client that does not take them does no
/// harm.
#[test]
fn large_answers_cross_tls_whole() {
    let certified = Certified::new();
    let [cert, key] = certified.settings();
    let program = Program::start(&["serve"], &[&cert, &key]);
    let to = program.site.udp[0];
    let http = program.site.http;
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let requests = |from: u64| (from..from + 100).map(|number| format!("/script-{number:0>200}"));
    let rows = |at_least: u64| {
        await_condition("all rows are there", || {
            let said = certified.curl(http, "/api/v1/reports/report_by_script_name?limit=0", &[]);
            let body: Json = serde_json::from_str(&said.out).map_err(|_| said.err.clone())?;
            let rows = body["rows"].as_array().unwrap().len() as u64;
            if rows == at_least { Ok(said.out) } else { Err(rows.to_string()) }
        })
    };
    let mut body = String::new();
    for from in (0..5000).step_by(100) {
        for script in requests(from) {
            socket.send_to(&request("h", "s", &script).encode_to_vec(), to).unwrap();
        }
        if from % 1000 == 900 {
            body = rows(from + 100);
        }
    }
    assert!(body.len() > 2_000_000, "{}", body.len());
}

#[test]
fn certificates_that_cannot_be_used_end_the_start_and_are_named() {
    let (one, two) = (Certified::new(), Certified::new());
    let mismatch = [
        format!("http.tls_cert={}", one.path("cert.pem")),
        format!("http.tls_key={}", two.path("key.pem")),
    ];
    let missing = ["http.tls_cert=/nowhere.pem".to_owned(), mismatch[1].clone()];
    let swapped = [
        format!("mysql.tls_cert={}", one.path("key.pem")),
        format!("mysql.tls_key={}", one.path("cert.pem")),
    ];
    let alone = [mismatch[1].clone(), "mysql.listen=".to_owned()];
    for (settings, parts) in cases![
        mismatch => &["http.tls_key", "key.pem", "not the key of the certificate", "cert.pem"][..];
        missing => &["http.tls_cert", "/nowhere.pem", "No such file"];
        swapped => &["mysql.tls_cert", "key.pem", "a private key in it and no certificate"];
        alone => &["http.tls_key without http.tls_cert", "both, or neither"];
    ] {
        let mut check = pinbad();
        check.arg("check");
        for setting in &settings {
            check.args(["--set", setting]);
        }
        let said = run(&mut check);
        assert_eq!(said.code, Some(2), "{said:?}");
        for part in parts {
            assert!(said.err.contains(part), "{part:?}: {said:?}");
        }
    }
}

/// A certificate that signed itself and says that it is an authority is trusted by name; to others
/// it is said what is wrong with it.
#[test]
fn a_certificate_that_is_its_own_authority_is_trusted_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let mut own = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    std::fs::write(path("cert.pem"), own.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(path("key.pem"), key.serialize_pem()).unwrap();
    let [cert, key] =
        ["cert", "key"].map(|name| format!("http.tls_{name}={}", path(&format!("{name}.pem"))));
    let program = Program::start(&["serve"], &[&cert, &key, "mysql.listen=127.0.0.1:0"]);
    // That the other one has no TLS is said too.
    let log = program.log();
    let ready = log.iter().find(|line| line["message"] == "Ready.").unwrap();
    let ends = |name: &str, end: &str| ready[name].as_str().unwrap().ends_with(end);
    assert!(ends("http", " with TLS") && ends("mysql", " without TLS"), "{ready}");
    let told = log.iter().any(|line| line.to_string().contains("CA:TRUE"));
    assert!(told, "{log:?}");
    let own_addresses = ["--udp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--mysql", "127.0.0.1:0"];
    let said = run(pinbad().args(["doctor", "--set", &cert, "--set", &key]).args(own_addresses));
    let line = said.out.lines().find(|line| line.starts_with("better  TLS"));
    assert_has!(line.unwrap_or_default() => "cert.pem can be used with the key", "CA:TRUE", "--ca-file");
    let port = program.site.http.port();
    let query = |host: &str, trusted: &str| {
        run(pinbad()
            .args(["query", "SELECT 1 AS one", "--format", "csv"])
            .args(["--url", &format!("https://{host}:{port}")])
            .args(["--ca-file", &path(trusted)]))
    };
    let said = query("127.0.0.1", "cert.pem");
    assert_eq!((said.code, said.out.trim()), (Some(0), "one\r\n1"), "{said:?}");
    // Its name counts, and so does that it is the very certificate.
    let said = query("localhost", "cert.pem");
    assert_eq!(said.code, Some(1), "{said:?}");
    assert_has!(said.err => "not valid for name");
    let other = KeyPair::generate().unwrap();
    std::fs::write(path("other.pem"), own.self_signed(&other).unwrap().pem()).unwrap();
    let said = query("127.0.0.1", "other.pem");
    assert_eq!(said.code, Some(1), "{said:?}");
    assert_has!(said.err => "CA:TRUE", "--ca-file", "CA:FALSE");
}

/// The commands that ask the daemon of their configuration trust its certificate, whoever signed
/// it.
#[test]
fn commands_trust_the_certificate_of_their_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let own = own.self_signed(&key).unwrap().pem();
    let [cert, key] = [("cert", own), ("key", key.serialize_pem())].map(|(name, pem)| {
        let path = dir.path().join(name);
        std::fs::write(&path, pem).unwrap();
        format!("http.tls_{name}={}", path.display())
    });
    let program = Program::start(&["serve"], &[&cert, &key, "mysql.listen=127.0.0.1:0"]);
    let http = program.site.http.to_string();
    let doctor = |flags: &[&str]| {
        let own = ["--http", &http, "--set", &cert, "--set", &key];
        run(pinbad().arg("doctor").args(flags).args(own))
    };
    for what in ["--ready", "--running"] {
        let said = doctor(&[what]);
        assert_eq!(said.code, Some(0), "{said:?}");
    }
    let said = doctor(&["--udp", "127.0.0.1:0", "--mysql", "127.0.0.1:0"]);
    let used = format!("{http} is in use: pinbad serves at https://{http}");
    assert_has!(said.out => used);
    let config = dir.path().join("pinbad.toml");
    let [cert, key] = ["cert", "key"].map(|name| dir.path().join(name));
    let text = format!("[http]\nlisten = {http:?}\ntls_cert = {cert:?}\ntls_key = {key:?}\n");
    std::fs::write(&config, text).unwrap();
    let imported = run(pinbad().args(["import-log", "--config"]).args([&config, &config]));
    assert_has!(imported.err => "no history");
}

#[test]
fn spans_come_over_tls_and_in_the_clear_nothing_does() {
    let certified = Certified::new();
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| certified.path(name));
    let input =
        format!("otlp_input=[{{listen='127.0.0.1:0', tls_cert={cert:?}, tls_key={key:?}}}]");
    let (here, _clock) = Here::with_manual_clock(&[&input]);
    let input = || here.site.status().0["otlp_inputs"][0].clone();
    let listen: SocketAddr = input()["listen"].as_str().unwrap().parse().unwrap();
    let file = "/tests/corpus/otlp/wordpress.json";
    let body = format!("@{}{file}", env!("CARGO_MANIFEST_DIR"));
    let form = "content-type: application/json";
    let send = ["--header", form, "--data-binary", &body];
    let said = certified.curl(listen, "/v1/traces", &send);
    assert_eq!((said.code, &*said.out), (Some(0), "{}"), "{said:?}");
    await_until("the request", input, |it| it["requests"] == 1);
    let mut clear = Command::new("curl");
    clear.arg("--silent").args(send);
    let said = run(clear.arg(format!("http://{listen}/v1/traces")));
    assert_ne!(said.code, Some(0), "{said:?}");
    assert_eq!(input()["bodies_received"], 1);
}
