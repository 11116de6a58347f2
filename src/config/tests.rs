//! Configuration from all its layers: who wins, what is refused, and the exact words of it.

use std::time::Duration;

use super::settings::{KEYS, find, sections, variable};
use super::*;
use crate::telemetry::log::LogFormat;

const FILE: &str = "pinbad.toml";

/// The lines that a file of this text is refused with.
fn errors_of(text: &str) -> Vec<String> {
    lines(Config::from_toml(FILE, text))
}

fn lines(loaded: Result<Config, ConfigErrors>) -> Vec<String> {
    match loaded {
        Ok(config) => panic!("accepted as {config:?}"),
        Err(errors) => errors.to_string().lines().map(str::to_owned).collect(),
    }
}

fn set(pairs: &[&str]) -> ConfigFlags {
    ConfigFlags {
        set: pairs.iter().map(|&pair| pair.to_owned()).collect(),
        ..ConfigFlags::default()
    }
}

fn variables(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    pairs
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE);
    std::fs::write(&path, text).unwrap();
    (dir, path)
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn defaults_are_those_of_the_contract() {
    let config = Config::default();
    assert_eq!(config.ingest.listen, [address("0.0.0.0:30002")]);
    assert!(config.ingest.receivers >= 1);
    assert_eq!(config.ingest.recv_buffer, 64_000_000);
    assert_eq!(config.ingest.temp_pool_size, 262_144);
    assert_eq!(config.ingest.temp_pool_bytes, 512 * 262_144);
    assert_eq!(
        config.ingest.stats_gathering_period,
        Duration::from_millis(10)
    );
    assert_eq!(
        (
            config.ingest.text_bytes_max,
            config.ingest.script_name_bytes_max
        ),
        (255, 512)
    );
    assert_eq!(config.pool.request_pool_size, 1_000_000);
    assert_eq!(config.pool.timer_pool_size, 5_000_000);
    assert_eq!(config.pool.stats_history, Duration::from_secs(900));
    assert_eq!(config.pool.words_memory, 64 << 20);
    assert_eq!(
        (config.reports.rows_max, config.reports.memory),
        (100_000, 256 << 20)
    );
    assert_eq!(config.reports.error_status, 500);
    assert_eq!(
        config.http,
        HttpConfig {
            listen: Some(address("127.0.0.1:30080")),
            allow_anonymous: false,
            tls_cert: None,
            tls_key: None,
            open_health: false,
            host_names: Vec::new(),
        }
    );
    assert_eq!(
        config.mysql,
        MySqlConfig {
            listen: Some(address("127.0.0.1:33306")),
            allow_anonymous: false,
            connections_max: 128,
            idle_max: Duration::from_hours(8),
            packet_max: 16 << 20,
            statements_max: 1000,
            memory: 32 << 20,
            tls_cert: None,
            tls_key: None,
        }
    );
    assert_eq!(config.state.dir, None);
    assert_eq!(
        config.log,
        LogConfig {
            format: LogFormat::Text,
            level: tracing::Level::INFO
        }
    );
    assert!(config.configured_reports.is_empty() && config.rewrites.is_empty());
    assert!(config.squids.is_empty());
    assert!(config.stats.is_empty());
}

/// The sections of `config/pinbad.toml` as `settings` declares them.
fn sample() -> String {
    let mut text = String::new();
    for section in sections() {
        text += &format!("[{section}]\n");
        for key in KEYS.iter().filter(|key| key.parts().0 == section) {
            assert!(!key.comment.is_empty(), "{} has no comment", key.name);
            for line in key.comment {
                // Double brackets are code only for rustdoc, which would take them for a link.
                text += &format!("#{}\n", line.replace("`[", "[").replace("]`", "]"));
            }
            text += &format!("{} = {}\n\n", key.parts().1, key.default);
        }
    }
    text
}

/// With `BLESS=1` in the environment it writes the sections of the file anew.
#[test]
fn the_sample_file_is_what_the_settings_declare() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/config/pinbad.toml");
    let text = std::fs::read_to_string(path).unwrap();
    let begin = text.find("[ingest]\n").unwrap();
    let end = text.find("# Reports beside those").unwrap();
    let (written, declared) = (&text[begin..end], sample());
    if written != declared && std::env::var_os("BLESS").is_some() {
        std::fs::write(path, [&text[..begin], &declared, &text[end..]].concat()).unwrap();
        return;
    }
    let line = written.lines().zip(declared.lines());
    let differs = line.enumerate().find(|(_, (a, b))| a != b);
    assert!(
        written == declared,
        "write it anew with BLESS=1: {differs:?}"
    );
    assert_eq!(Config::from_toml(FILE, &text).unwrap(), Config::default());
}

#[test]
fn no_two_keys_share_a_name_or_a_variable() {
    let mut variables: Vec<String> = KEYS.iter().map(|key| variable(key.name)).collect();
    variables.extend(layers::LISTS.map(variable));
    variables.push("PINBAD_CONFIG".to_owned());
    variables.push("PINBAD_TOKEN".to_owned());
    let count = variables.len();
    variables.sort();
    variables.dedup();
    assert_eq!(variables.len(), count);
}

#[test]
fn a_reload_takes_over_what_is_live_and_names_the_rest() {
    let config = |text: &str| Config::from_toml("x.toml", text).unwrap();
    let rule = "[[rewrite]]\nfield = \"schema\"\ncut = \"?\"\n";
    for (text, live, needs_restart) in [
        ("", &[][..], &[][..]),
        (
            "[ingest]\nlisten = [\"127.0.0.1:9\"]\n",
            &[],
            &["ingest.listen"],
        ),
        (
            "[pool]\nstats_history = \"7s\"\n[log]\nlevel = \"debug\"\n",
            &["log.level"],
            &["pool.stats_history"],
        ),
        ("[state]\ndir = \"/x\"\n", &[], &["state.dir"]),
        (
            "[ingest]\nstats_gathering_period = \"1s\"\n[state]\nsnapshot_period = 0\n",
            &["ingest.stats_gathering_period", "state.snapshot_period"],
            &[],
        ),
        (rule, &[], &["rewrite"]),
        (
            "[[user]]\nname = \"a\"\npassword_file = \"/x\"\n",
            &["user"],
            &[],
        ),
    ] {
        let (mut old, new) = (Config::default(), config(text));
        let changes = old.reload(&new);
        let found = (&changes.live[..], &changes.needs_restart[..]);
        assert_eq!(found, (live, needs_restart), "{text}");
        let again = old.reload(&new);
        let found = (&again.live[..], &again.needs_restart[..]);
        assert_eq!(found, (&[][..], needs_restart), "{text}");
    }
    let moved = format!("# moved down\n\n{rule}");
    assert_eq!(config(rule).reload(&config(&moved)), Changes::default());
    for name in KEYS.iter().map(|key| key.name) {
        assert!(find(name).is_some(), "{name}");
    }
}

#[test]
fn flags_win_over_environment_over_file_over_defaults() {
    let (_dir, path) = file(
        "[pool]\nstats_history = \"1m\"\nrequest_pool_size = 1\ntimer_pool_size = 1\n[http]\nlisten = \"127.0.0.1:1\"\n",
    );
    let flags = ConfigFlags {
        config: Some(path),
        http: Some("127.0.0.1:3".to_owned()),
        ..set(&["pool.request_pool_size=3", "pool.request_pool_size=4"])
    };
    let environment = variables(&[
        ("PINBAD_POOL_TIMER_POOL_SIZE", "2"),
        ("PINBAD_POOL_REQUEST_POOL_SIZE", "2"),
        ("PINBAD_HTTP_LISTEN", "127.0.0.1:2"),
        ("OTHER_POOL_SIZE", "9"),
    ]);
    let config = Config::load(&flags, environment).unwrap();
    assert_eq!(config.ingest.temp_pool_size, 262_144, "default");
    assert_eq!(config.pool.stats_history, Duration::from_secs(60), "file");
    assert_eq!(config.pool.timer_pool_size, 2, "environment");
    assert_eq!(config.pool.request_pool_size, 4, "flag, the last one");
    assert_eq!(
        config.http.listen,
        Some(address("127.0.0.1:3")),
        "flag of its own"
    );
}

#[test]
fn the_file_is_named_by_flag_or_else_by_variable() {
    let (_dir, one) = file("[pool]\nrequest_pool_size = 1\n");
    let (_dir2, two) = file("[pool]\nrequest_pool_size = 2\n");
    let size = |flag: Option<&PathBuf>, variable: &std::path::Path| {
        let flags = ConfigFlags {
            config: flag.cloned(),
            ..ConfigFlags::default()
        };
        Config::load(
            &flags,
            [(
                OsString::from("PINBAD_CONFIG"),
                variable.as_os_str().to_owned(),
            )],
        )
        .map(|config| config.pool.request_pool_size)
    };
    assert_eq!(size(None, &two).unwrap(), 2);
    assert_eq!(size(Some(&one), &two).unwrap(), 1);
    assert_eq!(size(None, std::path::Path::new("")).unwrap(), 1_000_000);
    let missing = size(None, std::path::Path::new("/nowhere/pinbad.toml")).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "PINBAD_CONFIG: cannot read /nowhere/pinbad.toml: No such file or directory (os error 2)"
    );
}

#[test]
fn set_takes_lists_however_the_shell_left_them() {
    for value in [
        r#"["127.0.0.1:0","[::1]:0"]"#,
        r#"[ "127.0.0.1:0", "[::1]:0" ]"#,
        "[127.0.0.1:0,[::1]:0]",
        "127.0.0.1:0,[::1]:0",
    ] {
        let config = Config::load(&set(&[&format!("ingest.listen={value}")]), []).unwrap();
        assert_eq!(
            config.ingest.listen,
            [address("127.0.0.1:0"), address("[::1]:0")],
            "{value}"
        );
    }
    for value in ["[::1]:7", "\"[::1]:7\"", "[[::1]:7]", "[\"[::1]:7\"]"] {
        let config = Config::load(&set(&[&format!("ingest.listen={value}")]), []).unwrap();
        assert_eq!(config.ingest.listen, [address("[::1]:7")], "{value}");
    }
    let flags = ConfigFlags {
        udp: vec!["127.0.0.1:1".to_owned(), "[::1]:1".to_owned()],
        ..ConfigFlags::default()
    };
    let config = Config::load(&flags, []).unwrap();
    assert_eq!(
        config.ingest.listen,
        [address("127.0.0.1:1"), address("[::1]:1")]
    );
}

#[test]
fn set_takes_toml_and_bare_text() {
    let config = Config::load(
        &set(&[
            "pool.stats_history=60",
            "ingest.stats_gathering_period = 0.5",
            "ingest.recv_buffer=1MiB",
            "pool.words_memory=\"2MiB\"",
            "reports.rows_max=5_000",
            "http.listen=",
            "mysql.listen=\"\"",
            "mysql.allow_anonymous=true",
            "state.dir=2024",
            "log.format=json",
            "log.level='debug'",
        ]),
        [],
    )
    .unwrap();
    assert_eq!(config.pool.stats_history, Duration::from_secs(60));
    assert_eq!(
        config.ingest.stats_gathering_period,
        Duration::from_millis(500)
    );
    assert_eq!(config.ingest.recv_buffer, 1 << 20);
    assert_eq!(config.pool.words_memory, 2 << 20);
    assert_eq!(config.reports.rows_max, 5000);
    assert_eq!((config.http.listen, config.mysql.listen), (None, None));
    assert!(config.mysql.allow_anonymous);
    assert_eq!(
        config.state.dir,
        Some(PathBuf::from("2024")),
        "a directory may look like a number"
    );
    assert_eq!(
        config.log,
        LogConfig {
            format: LogFormat::Json,
            level: tracing::Level::DEBUG
        }
    );
}

#[test]
fn report_entries_keep_their_lines() {
    let config = Config::from_toml(
        FILE,
        "[pool]\nstats_history = 60\n\n[[report]]\nname = \"a\"\ncomment = \"tag_info:group\"\n\n\
         [[report]]\nname = \"b\"\nkeys = [\"host\",\n  \"@group\"]\npercentiles = [50, 99.9]\n\n\
         [[rewrite]]\nfield = \"script_name\"\ncut = \"?\"\n",
    )
    .unwrap();
    let [a, b] = &config.configured_reports[..] else {
        panic!("{config:?}")
    };
    assert_eq!(
        (a.location.line(), a.location.to_string()),
        (Some(4), "pinbad.toml:4".to_owned())
    );
    assert_eq!(a.table["comment"].as_str(), Some("tag_info:group"));
    assert_eq!(a.location_of("comment").line(), Some(6));
    assert_eq!(b.location.line(), Some(8));
    assert_eq!(b.table["keys"].as_array().unwrap().len(), 2);
    assert_eq!(
        b.table["percentiles"].as_array().unwrap()[1].as_float(),
        Some(99.9)
    );
    assert_eq!(b.location_of("percentiles").to_string(), "pinbad.toml:12");
    assert_eq!(b.location_of("percentiles").given(), "[50, 99.9]");
    assert_eq!(
        b.location_of("window").to_string(),
        "pinbad.toml:8",
        "no such key: the entry"
    );
    assert_eq!(config.rewrites[0].location.line(), Some(14));
}

#[test]
fn report_entries_of_a_stronger_layer_replace_the_weaker() {
    let (_dir, path) = file("[[report]]\nname = \"of_file\"\n");
    let flags = ConfigFlags {
        config: Some(path),
        ..set(&[r#"report=[{name="x",comment="tag_info:group"},{name="y"}]"#])
    };
    let config = Config::load(
        &flags,
        variables(&[("PINBAD_REPORT", "[{name = 'of_variable'}]")]),
    )
    .unwrap();
    let names: Vec<_> = config
        .configured_reports
        .iter()
        .map(|report| report.table["name"].as_str())
        .collect();
    assert_eq!(names, [Some("x"), Some("y")]);
    let location = &config.configured_reports[0].location;
    assert_eq!(
        (location.to_string(), location.given()),
        (
            "--set".to_owned(),
            r#"{name="x",comment="tag_info:group"}"#.to_owned()
        )
    );
    assert_eq!(location.line(), None);
}

#[test]
fn a_value_out_of_its_range_is_refused_with_the_range_and_its_reason() {
    let period = "a duration from 1ms to 10s, as in \"10ms\", \"1h30m\" or a plain number of seconds (shorter keeps a \
                  core busy with nothing, longer shows readers old news)";
    let history = "a duration from 1s to 7d, as in \"10ms\", \"1h30m\" or a plain number of seconds (in whole seconds, \
                   which is how finely reports expire)";
    let temp = "a whole number from 16 to 16777216 (requests between receivers and merger)";
    let buffer = "a size from 64KiB to 1GB, as in 64MB (x 1000), 64MiB (x 1024) or plain bytes (less does not \
                  hold the largest packet, more the kernel cannot grant)";
    let listen = "1 to 64 IP addresses with ports, as in [\"0.0.0.0:30002\", \"[::]:30002\"]";
    let front = "an IP address with a port, as in \"127.0.0.1:30080\" or \"[::1]:30080\"; \"\" switches it off";
    for (section, line, problem, accepted) in [
        (
            "ingest",
            "stats_gathering_period = \"1m\"",
            "too long",
            period,
        ),
        (
            "ingest",
            "stats_gathering_period = 10000",
            "too long",
            period,
        ),
        (
            "ingest",
            "stats_gathering_period = \"0s\"",
            "too short",
            period,
        ),
        (
            "ingest",
            "stats_gathering_period = true",
            "not a duration",
            period,
        ),
        ("pool", "stats_history = \"0s\"", "too short", history),
        ("pool", "stats_history = \"8d\"", "too long", history),
        (
            "pool",
            "stats_history = \"1500ms\"",
            "not in whole seconds",
            history,
        ),
        (
            "pool",
            "stats_history = \"15 minutes\"",
            "\"minutes\" is no unit of time",
            history,
        ),
        ("ingest", "temp_pool_size = 15", "too small", temp),
        ("ingest", "temp_pool_size = -1", "too small", temp),
        ("ingest", "temp_pool_size = 16777217", "too large", temp),
        (
            "ingest",
            "temp_pool_size = 99999999999999999999",
            "too large",
            temp,
        ),
        (
            "ingest",
            "temp_pool_size = \"1000\"",
            "not a whole number",
            temp,
        ),
        (
            "ingest",
            "temp_pool_size = 16.5",
            "not a whole number",
            temp,
        ),
        (
            "ingest",
            "recv_buffer = \"64M\"",
            "\"M\" may mean 1000 or 1024, write MB or MiB",
            buffer,
        ),
        ("ingest", "recv_buffer = 1000", "too small", buffer),
        ("ingest", "recv_buffer = -1", "not a size", buffer),
        (
            "ingest",
            "temp_pool_bytes = 4096",
            "too small",
            "a size from 256KiB to 64GiB, as in 64MB (x 1000), 64MiB (x 1024) or plain bytes, or 0: 512 bytes per \
             request of ingest.temp_pool_size (receivers hand over blocks of 256KiB)",
        ),
        (
            "reports",
            "rows_max = 0",
            "too small",
            "a whole number from 1 to 10000000 (rows per report before new keys fold into (other))",
        ),
        (
            "pool",
            "request_pool_size = 1000000001",
            "too large",
            "a whole number from 0 to 1000000000 (rows; 0 keeps no raw data)",
        ),
        ("ingest", "listen = []", "no address at all", listen),
        (
            "ingest",
            "listen = \"localhost:30002\"",
            "not an IP address (names are not looked up)",
            listen,
        ),
        (
            "ingest",
            "listen = 30002",
            "a port without an address",
            listen,
        ),
        (
            "ingest",
            "listen = \":30002\"",
            "a port without an address",
            listen,
        ),
        (
            "ingest",
            "listen = \"::1\"",
            "an address without a port",
            listen,
        ),
        (
            "http",
            "listen = \"127.0.0.1\"",
            "an address without a port",
            front,
        ),
        (
            "http",
            "listen = [\"127.0.0.1:1\"]",
            "not an address",
            front,
        ),
        (
            "http",
            "allow_anonymous = \"yes\"",
            "neither true nor false",
            "true, false",
        ),
        ("log", "format = \"xml\"", "no such choice", "text, json"),
        (
            "log",
            "level = 3",
            "no such choice",
            "error, warn, info, debug, trace",
        ),
        (
            "state",
            "dir = 1",
            "not a path",
            "the path of a directory, or \"\" for none",
        ),
    ] {
        let (name, value) = line.split_once(" = ").unwrap();
        let expected =
            format!("pinbad.toml:2: {section}.{name} = {value}: {problem}; accepted: {accepted}");
        assert_eq!(errors_of(&format!("[{section}]\n{line}\n")), [expected]);
    }
}

#[test]
fn the_wrong_item_of_a_list_is_pointed_at() {
    let accepted =
        "accepted: 1 to 64 IP addresses with ports, as in [\"0.0.0.0:30002\", \"[::]:30002\"]";
    assert_eq!(
        errors_of("[ingest]\nlisten = [\n  \"127.0.0.1:1\",\n  \"127.0.0.1\",\n]\n"),
        [format!(
            "pinbad.toml:4: ingest.listen = \"127.0.0.1\": an address without a port; {accepted}"
        )]
    );
    assert_eq!(
        errors_of("[ingest]\nlisten = [\"127.0.0.1:1\", \"127.0.0.1:1\"]\n"),
        [format!(
            "pinbad.toml:2: ingest.listen = \"127.0.0.1:1\": the same address twice; {accepted}"
        )]
    );
    let flags = ConfigFlags {
        udp: vec!["127.0.0.1:1".to_owned(), "nowhere".to_owned()],
        ..ConfigFlags::default()
    };
    assert_eq!(
        lines(Config::load(&flags, [])),
        [format!(
            "--udp: ingest.listen = nowhere: not an address; {accepted}"
        )]
    );
}

#[test]
fn an_unknown_name_is_answered_with_the_one_that_was_meant() {
    for (text, expected) in [
        (
            "[pool]\nstats_histroy = \"15m\"\n",
            "pinbad.toml:2: pool.stats_histroy = \"15m\": unknown setting; did you mean pool.stats_history?",
        ),
        (
            "stats_history = \"15m\"\n",
            "pinbad.toml:1: stats_history = \"15m\": unknown setting; did you mean pool.stats_history?",
        ),
        (
            "[ingest]\n\npinba_stats_history = 900\n",
            "pinbad.toml:3: ingest.pinba_stats_history = 900: unknown setting; did you mean pool.stats_history?",
        ),
        (
            "[http]\ncertificate = \"x\"\n",
            "pinbad.toml:2: http.certificate = \"x\": unknown setting; [http] takes listen, allow_anonymous, tls_cert, tls_key, open_health, \
             host_names",
        ),
        (
            "[htpp]\nlisten = \"\"\n",
            "pinbad.toml:1: [htpp]: unknown section; did you mean [http]?",
        ),
        (
            "[[reprot]]\nname = \"x\"\n",
            "pinbad.toml:1: [reprot]: unknown section; did you mean [[report]]?",
        ),
        (
            "[graphite]\nurl = \"\"\n",
            "pinbad.toml:1: [graphite]: unknown section; accepted are [ingest], [pool], [reports], [series], [metrics], [http], \
             [mysql], [sql], [profile], [state], [history], [clickhouse], [instruments], [log] and [[report]], [[squid]], [[stat]], [[rewrite]], [[user]]",
        ),
        (
            "[[reports]]\nname = \"x\"\n",
            "pinbad.toml:1: reports = [[reports]]: a section stands once; accepted: [reports] for settings, \
             [[report]] for each report",
        ),
        (
            "[report]\nname = \"x\"\n",
            "pinbad.toml:1: report = [report]: not a list of tables; accepted: [[report]] once for each, or report = \
             [{name = \"x\", ..}]",
        ),
        (
            "http = 1\n",
            "pinbad.toml:1: http = 1: a section stands once; accepted: [http]",
        ),
    ] {
        assert_eq!(errors_of(text), [expected]);
    }
}

#[test]
fn flags_and_variables_are_refused_by_their_own_name() {
    for (flags, environment, expected) in [
        (
            set(&["pool.stats_histroy=60s"]),
            variables(&[]),
            "--set: pool.stats_histroy = 60s: unknown setting; did you mean pool.stats_history?",
        ),
        (
            set(&["pool.stats_history"]),
            variables(&[]),
            "--set: pool.stats_history: no value; accepted: KEY=VALUE, as in pool.stats_history=60s",
        ),
        (
            set(&["log.format=xml"]),
            variables(&[]),
            "--set: log.format = xml: no such choice; accepted: text, json",
        ),
        (
            ConfigFlags {
                log_format: Some("xml".to_owned()),
                ..ConfigFlags::default()
            },
            variables(&[]),
            "--log-format: log.format = xml: no such choice; accepted: text, json",
        ),
        (
            ConfigFlags {
                http: Some("127.0.0.1:1".to_owned()),
                ..set(&["http.listen=127.0.0.1:2"])
            },
            variables(&[]),
            "--http: http.listen is given by --set too; leave one of the two out",
        ),
        (
            set(&["report=[{name=x}]"]),
            variables(&[]),
            "--set: report = [{name=x}]: not valid TOML; accepted: a list of tables, quoted for the shell: --set \
             'report=[{name = \"x\", ..}]'",
        ),
        (
            set(&[]),
            variables(&[("PINBAD_LOG_LEVEL", "loud")]),
            "PINBAD_LOG_LEVEL: log.level = loud: no such choice; accepted: error, warn, info, debug, trace",
        ),
        (
            set(&[]),
            variables(&[("PINBAD_POOL_STATS_HISTROY", "60s")]),
            "PINBAD_POOL_STATS_HISTROY: no setting has this variable; did you mean PINBAD_POOL_STATS_HISTORY?",
        ),
        (
            set(&[]),
            variables(&[("PINBAD_VERBOSE", "1")]),
            "PINBAD_VERBOSE: no setting has this variable; accepted are PINBAD_CONFIG and PINBAD_SECTION_KEY, as in \
             PINBAD_POOL_STATS_HISTORY",
        ),
    ] {
        assert_eq!(lines(Config::load(&flags, environment)), [expected]);
    }
}

#[test]
fn what_an_orchestrator_puts_into_the_environment_is_passed_over() {
    let links = [
        ("PINBAD_SERVICE_HOST", "10.0.0.7"),
        ("PINBAD_SERVICE_PORT", "30080"),
        ("PINBAD_SERVICE_PORT_HTTP", "30080"),
        ("PINBAD_PORT", "tcp://10.0.0.7:30080"),
        ("PINBAD_PORT_30002_UDP", "udp://10.0.0.7:30002"),
        ("PINBAD_PORT_30002_UDP_ADDR", "10.0.0.7"),
        ("PINBAD_HTTP_PORT_30080_TCP_PROTO", "tcp"),
    ];
    assert_eq!(
        Config::load(&set(&[]), variables(&links)).unwrap(),
        Config::default()
    );
    for slip in [
        ("PINBAD_PORT", "30080"),
        ("PINBAD_HTTP_PORT", "30080"),
        ("PINBAD_PORT_X_TCP", "1"),
    ] {
        assert_eq!(
            lines(Config::load(&set(&[]), variables(&[slip]))).len(),
            1,
            "{slip:?}"
        );
    }
}

#[test]
fn all_errors_are_reported_in_the_order_of_the_layers() {
    let (_dir, path) =
        file("[pool]\nstats_histroy = 1\nwords_memory = \"1\"\n[http]\nlisten = \"0.0.0.0:80\"\n");
    let flags = ConfigFlags {
        config: Some(path.clone()),
        ..set(&["log.level=loud", "pool.stats_history=0"])
    };
    let errors = lines(Config::load(&flags, variables(&[("PINBAD_X", "1")])));
    let starts = [
        format!("{}:2: pool.stats_histroy", path.display()),
        "PINBAD_X:".to_owned(),
        "--set: pool.stats_history = 0: too short".to_owned(),
        format!("{}:3: pool.words_memory = \"1\": too small", path.display()),
        "--set: log.level = loud".to_owned(),
        format!(
            "{}:5: http.listen = \"0.0.0.0:80\": not a loopback",
            path.display()
        ),
    ];
    assert_eq!(errors.len(), starts.len(), "{errors:#?}");
    for (error, start) in errors.iter().zip(&starts) {
        assert!(error.starts_with(start), "{error} / {start}");
    }
}

#[test]
fn what_is_not_toml_is_refused_with_every_line_that_is_not() {
    let errors = errors_of("[pool]\nstats_history = 15m\nrequest_pool_size 5\n[http\n");
    let at: Vec<_> = errors
        .iter()
        .map(|error| error.split(": ").next().unwrap())
        .collect();
    assert!(
        ["pinbad.toml:2", "pinbad.toml:3", "pinbad.toml:4"]
            .iter()
            .all(|line| at.contains(line)),
        "{errors:?}"
    );
    assert!(
        errors
            .iter()
            .all(|error| error.contains(": not valid TOML: ")),
        "{errors:?}"
    );
    let twice = errors_of("[pool]\nstats_history = 1\nstats_history = 2\n");
    assert_eq!(twice, ["pinbad.toml:3: not valid TOML: duplicate key"]);
}

#[test]
fn beyond_loopback_only_with_the_operators_word() {
    for (section, proof) in [("http", "password or token"), ("mysql", "password")] {
        for (address, loopback) in [
            ("0.0.0.0:81", "127.0.0.1:81"),
            ("10.1.2.3:81", "127.0.0.1:81"),
            ("[::]:81", "[::1]:81"),
            ("[::ffff:10.1.2.3]:81", "[::1]:81"),
        ] {
            let text = format!("[{section}]\nlisten = \"{address}\"\n");
            assert_eq!(
                errors_of(&text),
                [format!(
                    "pinbad.toml:2: {section}.listen = \"{address}\": not a loopback address, and no credentials are \
                     configured, so anyone who reaches it could read everything; accepted: {section}.listen = \
                     \"{loopback}\", or a [[user]] with a {proof}, or {section}.allow_anonymous = true if that is \
                     wanted"
                )]
            );
            assert!(Config::from_toml(FILE, &format!("{text}allow_anonymous = true\n")).is_ok());
        }
        for address in [
            "127.0.0.1:81",
            "127.9.9.9:81",
            "[::1]:81",
            "[::ffff:127.0.0.1]:81",
            "",
        ] {
            let text = format!("[{section}]\nlisten = \"{address}\"\n");
            assert!(Config::from_toml(FILE, &text).is_ok(), "{address}");
        }
    }
}

#[test]
fn settings_that_do_not_go_together_are_refused() {
    assert_eq!(
        errors_of("[http]\nlisten = \"127.0.0.1:33306\"\n"),
        [
            "pinbad.toml:2: mysql.listen = 127.0.0.1:33306 and http.listen = 127.0.0.1:33306 take the same port; \
          accepted: another port for one of them, or \"\" to switch one off"
        ]
    );
    assert!(
        Config::from_toml(
            FILE,
            "[http]\nlisten = \"127.0.0.1:0\"\n[mysql]\nlisten = \"127.0.0.1:0\"\n"
        )
        .is_ok()
    );
    let addresses: Vec<String> = (1..=5)
        .map(|port| format!("\"127.0.0.1:{port}\""))
        .collect();
    let text = format!(
        "[ingest]\nreceivers = 256\nlisten = [{}]\n",
        addresses.join(", ")
    );
    assert_eq!(
        errors_of(&text),
        [
            "pinbad.toml:2: 5 addresses in ingest.listen with 256 receivers each are 1280 sockets; accepted: up to 1024, \
          by fewer addresses or a smaller ingest.receivers"
        ]
    );
}

#[test]
fn the_temporary_pool_follows_its_size_unless_told() {
    for (text, bytes) in [
        ("temp_pool_size = 100000", 51_200_000),
        ("temp_pool_size = 16", 256 << 10),
        ("temp_pool_size = 16\ntemp_pool_bytes = \"1MiB\"", 1 << 20),
    ] {
        let config =
            Config::from_toml(FILE, &format!("[ingest]\n{text}\nreceivers = 2\n")).unwrap();
        assert_eq!(
            (config.ingest.temp_pool_bytes, config.ingest.receivers),
            (bytes, 2),
            "{text}"
        );
    }
}
