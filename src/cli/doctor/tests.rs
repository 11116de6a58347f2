//! Findings of `doctor` on this machine, for settings that fit it and settings that do not.

use super::inputs::holds;
use super::*;

#[test]
fn the_socket_of_systemd_is_told_from_that_of_another_pinbad() {
    let active =
        "Listen=[::]:30002 (Datagram)\nListen=0.0.0.0:30003 (Datagram)\nActiveState=active\n";
    assert!(holds(active, 30_002) && holds(active, 30_003));
    assert!(!holds(active, 3_000) && !holds(active, 2));
    assert!(!holds(&active.replace("=active", "=inactive"), 30_002));
    assert!(!holds(&active.replace("Datagram", "Stream"), 30_002));
    assert!(!holds("Unit pinbad.socket could not be found.", 30_002));
}

#[test]
fn advice_names_the_flag_that_there_is() {
    let failure = Failure::failed("no answer; is pinbad running? --url or --http says where");
    let failure = with_flag(failure, "--ready URL");
    assert_eq!(failure.problems, ["no answer; is pinbad running? --ready URL says where"]);
    let flags = DoctorFlags {
        config: crate::config::ConfigFlags::default(),
        running: None,
        ready: Some(Some("ftp://x".to_owned())),
        access: AccessFlags::default(),
    };
    assert_has!(super::execute(&flags).unwrap_err().problems[0] => "--ready URL: \"ftp\" is not a scheme");
}

#[test]
fn a_folder_is_no_log_of_squids() {
    let squid = r#"squid=[{path = "/"}]"#;
    let squid = found(&examine(&config(&[FREE[0], FREE[1], FREE[2], squid]), None), "Squid");
    assert_eq!(
        (squid.verdict, &*squid.found),
        (Verdict::Better, "/ cannot be read now: not a file")
    );
}

#[test]
fn a_stat_socket_that_is_not_there_yet_is_no_trouble() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("stream");
    let stat = format!("stat=[{{stream = \"unix://{0}\", control = \"{0}\"}}]", socket.display());
    let settings = [FREE[0], FREE[1], FREE[2], &stat];
    for what in ["stat", "stat control"] {
        let absent = found(&examine(&config(&settings), None), what);
        assert_eq!((absent.verdict, &*absent.change), (Verdict::Right, ""));
        assert_has!(absent.found => "is not there yet");
    }
    // Nobody serves it.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let left = found(&examine(&config(&settings), None), "stat");
    assert_eq!(left.verdict, Verdict::Better);
    assert_has!(left.found => "Connection refused");
}

fn config(settings: &[&str]) -> Config {
    let flags = crate::config::ConfigFlags {
        set: settings.iter().map(|&setting| setting.to_owned()).collect(),
        ..crate::config::ConfigFlags::default()
    };
    Config::load(&flags, []).unwrap()
}

fn found(findings: &[Finding], what: &str) -> Finding {
    findings.iter().find(|finding| finding.what == what).unwrap().clone()
}

const FREE: [&str; 3] =
    ["ingest.listen=127.0.0.1:0", "http.listen=127.0.0.1:0", "mysql.listen=127.0.0.1:0"];

#[test]
fn a_machine_with_room_has_its_addresses() {
    let findings = examine(&config(&FREE), None);
    assert_eq!(found(&findings, "HTTP").verdict, Verdict::Right);
    assert_ne!(found(&findings, "UDP").verdict, Verdict::Wrong);
    assert!(found(&findings, "buffers").found.contains("/s"));
}

#[test]
fn the_daemon_to_ask_is_that_of_the_configuration() {
    let url = |settings: &[&str]| url(&config(settings));
    assert_eq!(url(&[]).as_deref(), Some("http://127.0.0.1:30080"));
    let everywhere = ["http.listen=[::]:1", "http.allow_anonymous=true"];
    assert_eq!(url(&everywhere).as_deref(), Some("http://[::1]:1"));
    let tls = ["http.listen=127.0.0.1:1", "http.tls_cert=/x", "http.tls_key=/y"];
    assert_eq!(url(&tls).as_deref(), Some("https://127.0.0.1:1"));
    assert_eq!(url(&["http.listen="]), None);
}

#[test]
fn what_is_found_in_several_lines_stands_in_a_column() {
    let lines = Finding::right("x", "a\nb".to_owned()).to_string();
    assert_eq!(lines, format!("ok      {:<17} a\n{:26}b", "x", ""));
}

#[test]
fn what_is_taken_is_named_with_its_setting() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let http = format!("http.listen={}", taken.local_addr().unwrap());
    let findings = examine(&config(&[FREE[0], &http, FREE[2]]), None);
    let http = found(&findings, "HTTP");
    assert_eq!(http.verdict, Verdict::Wrong);
    assert!(http.change.contains("http.listen"), "{http}");

    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let listen = format!("ingest.listen={}", udp.local_addr().unwrap());
    let findings = examine(&config(&[&listen, FREE[1], FREE[2]]), None);
    let udp = found(&findings, "UDP");
    assert_eq!(udp.verdict, Verdict::Wrong);
    assert!(udp.found.contains("ingest.listen"), "{udp}");
}

/// The seconds in the `buffers` line, at 10,000 requests a second.
fn seconds(findings: &[Finding]) -> f64 {
    let said = found(findings, "buffers").found;
    let spans = said.split_once("hold ").unwrap().1;
    spans.split_once(" s at ").unwrap().0.parse().unwrap()
}

#[test]
fn seconds_are_those_of_what_the_kernel_grants() {
    // More than most kernels allow all sockets together; the limit is known even if the address is
    // taken.
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = format!("ingest.listen={}", udp.local_addr().unwrap());
    for listen in [FREE[0], &taken] {
        let settings = [listen, FREE[1], FREE[2], "ingest.recv_buffer=1GB", "ingest.receivers=64"];
        let config = config(&settings);
        let granted = socket::grantable(config.ingest.recv_buffer).unwrap();
        let bytes = 64 * granted.kernel_bytes as u64;
        let bytes = bytes.min(kernel::udp_memory_max().unwrap_or(u64::MAX));
        let ring = MemoryPlan::of(&config).backlog[0].ring_secs;
        let packets = bytes / crate::daemon::memory_plan::TYPICAL_PACKET_CHARGE;
        let expected = ring + packets as f64 / 10_000.0;
        let seconds = seconds(&examine(&config, None));
        assert!((seconds - expected).abs() < 0.1, "{seconds} {expected}");
    }
}

#[test]
fn all_sockets_together_hold_what_the_machine_allows() {
    let Some(allowed) = kernel::udp_memory_max() else {
        return;
    };
    let each = 1_000_000_000;
    let buffer =
        socket::RecvBuffer { asked_bytes: each, granted_bytes: each, kernel_bytes: 2 * each };
    let sockets = vec![buffer; usize::try_from(allowed).unwrap() / each + 1];
    let plan = MemoryPlan::of(&config(&FREE)).granted(&sockets, Some(allowed));
    let kernel = udp_memory(&plan, allowed);
    assert_eq!(kernel.verdict, Verdict::Better, "{kernel}");
    assert!(kernel.change.contains("net.ipv4.udp_mem"), "{kernel}");
    let packets = allowed / crate::daemon::memory_plan::TYPICAL_PACKET_CHARGE;
    let expected = plan.backlog[0].ring_secs + packets as f64 / 10_000.0;
    let seconds = seconds(&[traffic(&plan)]);
    assert!((seconds - expected).abs() < 0.1, "{seconds} {expected}");
}

#[test]
fn fewer_receivers_are_advised_only_where_there_can_be_fewer() {
    for (cores, addresses, each, change) in [
        (4, 1, 3, ""),
        (4, 1, 4, "ingest.receivers = 3"),
        (4, 2, 3, "ingest.receivers = 1"),
        (2, 2, 2, "ingest.receivers = 1"),
        (2, 2, 1, "fewer addresses in ingest.listen"),
        (1, 1, 1, ""),
    ] {
        let finding = cores_of(cores, addresses, each);
        let verdict = if change.is_empty() { Verdict::Right } else { Verdict::Better };
        assert_eq!((finding.verdict, &*finding.change), (verdict, change), "{finding}");
    }
}

#[test]
fn a_plan_larger_than_the_machine_is_wrong() {
    let settings = [FREE[0], FREE[1], FREE[2], "reports.memory=1TiB"];
    let memory = found(&examine(&config(&settings), None), "memory");
    assert_eq!(memory.verdict, Verdict::Wrong, "{memory}");
}

#[test]
fn a_state_dir_is_there_or_can_be_made() {
    let folder = tempfile::tempdir().unwrap();
    let state_dir = |path: &std::path::Path| {
        let dir = format!("state.dir={}", path.display());
        found(&examine(&config(&[FREE[0], FREE[1], FREE[2], &dir]), None), STATE_DIR)
    };
    let there = state_dir(folder.path());
    assert_eq!(there.verdict, Verdict::Right, "{there}");
    assert!(there.found.contains("can be written; "), "{there}");
    let missing = folder.path().join("a/b");
    let made = state_dir(&missing);
    assert_eq!(made.verdict, Verdict::Right, "{made}");
    assert!(made.found.contains("a/b will be created; "), "{made}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);

    // Nobody can create one there, not even root.
    let not = state_dir(std::path::Path::new("/proc/1/pinbad"));
    assert_eq!(not.verdict, Verdict::Wrong, "{not}");
    assert!(not.found.starts_with("cannot make the folder /proc/1/"), "{not}");
    assert!(not.change.starts_with("mkdir -p /proc/1/"), "{not}");
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("below")] {
        let not = state_dir(&path);
        assert_eq!(not.verdict, Verdict::Wrong, "{not}");
        assert_has!(not.found => "is not a folder; accepted: a folder");
    }
}

#[test]
fn secrets_and_certificates_are_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = (folder.path().join("cert"), folder.path().join("key"));
    let pair = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    fs::write(&cert, params.self_signed(&pair).unwrap().pem()).unwrap();
    let secret = folder.path().join("secret");
    let settings = [
        FREE[0].to_owned(),
        FREE[1].to_owned(),
        FREE[2].to_owned(),
        format!("http.tls_cert={}", cert.display()),
        format!("http.tls_key={}", key.display()),
        format!(
            r#"user=[{{name = "ops", password_file = "{}"}}, {{name = "env", password_env = "PINBAD_NOBODY_SETS_THIS"}}]"#,
            secret.display()
        ),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let with_env = config(&settings);
    let mut without_env = with_env.clone();
    without_env.users.pop();
    let findings = examine(&without_env, None);
    for (what, part) in [(TLS, "http.tls_key = "), (USERS, "user.password_file = ")] {
        let finding = found(&findings, what);
        assert_eq!(finding.verdict, Verdict::Wrong, "{finding}");
        assert!(finding.found.contains(part), "{finding}");
    }
    fs::write(&key, pair.serialize_pem()).unwrap();
    fs::write(&secret, "secret").unwrap();
    let findings = examine(&without_env, None);
    for what in [TLS, USERS] {
        let finding = found(&findings, what);
        assert_eq!(finding.verdict, Verdict::Right, "{finding}");
    }
    let files = format!("tls_cert='{}',tls_key='{}'", cert.display(), key.display());
    let spans = format!("otlp_input=[{{listen='127.0.0.1:0',{files}}}]");
    let of_mysql = [&settings[3], &settings[4]].map(|it| it.replace("http", "mysql"));
    let each_once: [&[&str]; 2] =
        [&[&spans], &[settings[3], settings[4], &of_mysql[0], &of_mysql[1], &spans]];
    for more in each_once {
        let findings = examine(&config(&[&FREE[..], more].concat()), None);
        let said = findings.iter().filter(|it| it.what == TLS).map(|it| it.verdict);
        assert_eq!(said.collect::<Vec<_>>(), [Verdict::Right], "{more:?}");
    }
    let unset = found(&examine(&with_env, None), USERS);
    assert_eq!(unset.verdict, Verdict::Wrong, "{unset}");
    assert!(unset.found.contains("PINBAD_NOBODY_SETS_THIS"), "{unset}");
}
