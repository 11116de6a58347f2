//! Configuration from all its layers: precedence, refusals, and their exact wording.

mod precedence;

use std::time::Duration;

use super::key::{Key, find, sections, variable};
use super::settings::KEYS;
use super::*;
use crate::telemetry::log::LogFormat;

const FILE: &str = "pinbad.toml";

/// The error lines for a file with this text.
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
    pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
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
    assert_eq!(config.ingest.stats_gathering_period, Duration::from_millis(10));
    assert_eq!((config.ingest.text_bytes_max, config.ingest.script_name_bytes_max), (255, 512));
    assert_eq!(config.pool.request_pool_size, 1_000_000);
    assert_eq!(config.pool.timer_pool_size, 5_000_000);
    assert_eq!(config.pool.stats_history, Duration::from_secs(900));
    assert_eq!(config.pool.words_memory, 64 << 20);
    assert_eq!((config.reports.rows_max, config.reports.memory), (100_000, 256 << 20));
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
    assert_eq!(config.log, LogConfig { format: LogFormat::Text, level: tracing::Level::INFO });
    assert!(config.configured_reports.is_empty() && config.rewrites.is_empty());
    assert!(config.squids.is_empty());
    assert!(config.stats.is_empty());
}

#[test]
fn what_has_no_folder_of_its_own_lies_under_that_of_all_data() {
    let usual = || Some(PathBuf::from("/usual"));
    let dirs = |set_to: &[&str], usual: Option<PathBuf>| {
        let config = Config::load_beside(&set(set_to), [], usual.map(Ok)).unwrap();
        let shown =
            |dir: Option<PathBuf>| dir.map_or(String::new(), |dir| dir.display().to_string());
        [config.data.dir, config.state.dir, config.history.dir].map(shown)
    };
    let history = |dir: &'static str| if cfg!(feature = "sql") { dir } else { "" };
    assert_eq!(dirs(&[], None), ["", "", ""]);
    assert_eq!(dirs(&[], usual()), ["/usual", "/usual/state", history("/usual/history")]);
    assert_eq!(dirs(&["data.dir="], usual()), ["", "", ""]);
    assert_eq!(dirs(&["data.dir=/d"], usual()), ["/d", "/d/state", history("/d/history")]);
    assert_eq!(
        dirs(&["data.dir=/d", "state.dir=/s"], usual()),
        ["/d", "/s", history("/d/history")]
    );
    assert_eq!(dirs(&["data.dir=", "state.dir=/s"], usual()), ["", "/s", ""]);
    let flags = ConfigFlags { data: Some("/f".to_owned()), ..set(&[]) };
    let config = Config::load(&flags, variables(&[("PINBAD_DATA_DIR", "/v")])).unwrap();
    assert_eq!(config.state.dir, Some("/f/state".into()));
}

/// The sections of `config/pinbad.toml` as `settings` declares them.
fn sample() -> String {
    let mut text = String::new();
    for section in sections() {
        text += &format!("[{section}]\n");
        for key in KEYS.iter().filter(|key| key.parts().0 == section) {
            assert!(!key.comment.is_empty(), "{} has no comment", key.name);
            for line in key.comment {
                // Double brackets count as code for rustdoc only, which would take them for a link.
                text += &format!("#{}\n", line.replace("`[", "[").replace("]`", "]"));
            }
            text += &format!("{} = {}\n\n", key.parts().1, key.default);
        }
    }
    text
}

/// With `BLESS=1` in the environment, rewrites the sections of the file.
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
    assert!(written == declared, "write it anew with BLESS=1: {differs:?}");
    let mut read = Config::from_toml(FILE, &text).unwrap();
    read.locations.clear();
    assert_eq!(read, Config::default());
}

#[test]
fn page_access_names_every_setting_that_listens_or_connects() {
    /// Entries that do neither, and a link that the daemon shows and does not follow.
    const QUIET: [&str; 6] = ["report", "rewrite", "user", "alert", "slo", "alerting.page"];
    let page = include_str!("../manual/access.md");
    let takes_address = |key: &&Key| {
        let (section, name) = key.parts();
        let refused = Config::from_toml(FILE, &format!("[{section}]\n{name} = true\n"));
        let accepted = refused.err().map(|errors| errors.to_string());
        accepted.is_some_and(|it| it.contains("URL") || it.contains("IP address"))
    };
    let settings = KEYS.iter().filter(takes_address).map(|key| key.name);
    let named: Vec<&str> = settings.filter(|it| !QUIET.contains(it)).collect();
    assert!(named.len() > 5, "{named:?}");
    for name in named {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
    for list in settings::LISTS.iter().filter(|it| !QUIET.contains(it)) {
        assert!(page.contains(&format!("`[[{list}]]")), "{list}");
    }
}

#[test]
fn no_two_keys_share_a_name_or_a_variable() {
    let mut variables: Vec<String> = KEYS.iter().map(|key| variable(key.name)).collect();
    variables.extend(settings::LISTS.map(variable));
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
    for (text, live, needs_restart) in cases![
        "" => &[][..], &[][..];
        "[ingest]\nlisten = [\"127.0.0.1:9\"]\n" => &[], &["ingest.listen"];
        "[pool]\nstats_history = \"7s\"\n[log]\nlevel = \"debug\"\n" => &["log.level"],
            &["pool.stats_history"];
        "[state]\ndir = \"/x\"\n" => &[], &["state.dir"];
        "[ingest]\nstats_gathering_period = \"1s\"\n[state]\nsnapshot_period = 0\n" =>
            &["ingest.stats_gathering_period", "state.snapshot_period"], &[];
        rule => &[], &["rewrite"];
        "[[user]]\nname = \"a\"\npassword_file = \"/x\"\n" => &["user"], &[];
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
    let user = "[[user]]\nname = \"a\"\npassword_file = \"/x\"\n";
    let moved = format!("# A comment.\n{user}");
    assert_eq!(config(user).reload(&config(&moved)), Changes::default());
    let role = format!("{user}role = \"admin\"\n");
    assert_eq!(config(user).reload(&config(&role)).live, ["user"]);
    for name in KEYS.iter().map(|key| key.name) {
        assert!(find(name).is_some(), "{name}");
    }
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
    let [a, b] = &config.configured_reports[..] else { panic!("{config:?}") };
    assert_eq!((a.location.line(), a.location.to_string()), (Some(4), "pinbad.toml:4".to_owned()));
    assert_eq!(a.table["comment"].as_str(), Some("tag_info:group"));
    assert_eq!(a.location_of("comment").line(), Some(6));
    assert_eq!(b.location.line(), Some(8));
    assert_eq!(b.table["keys"].as_array().unwrap().len(), 2);
    assert_eq!(b.table["percentiles"].as_array().unwrap()[1].as_float(), Some(99.9));
    assert_eq!(b.location_of("percentiles").to_string(), "pinbad.toml:12");
    assert_eq!(b.location_of("percentiles").given(), "[50, 99.9]");
    assert_eq!(b.location_of("window").to_string(), "pinbad.toml:8", "no such key: the entry");
    assert_eq!(config.rewrites[0].location.line(), Some(14));
}

#[test]
fn a_value_out_of_its_range_is_refused_with_the_range_and_its_reason() {
    for key in include_str!("tests/values.txt").split("\n\n").skip(1) {
        let (key, values) = key.split_once('\n').unwrap();
        let (key, accepted) = key.split_once(": ").unwrap();
        let (section, name) = key.split_once('.').unwrap();
        for value in values.lines() {
            let (value, problem) = value.trim_start().split_once(" | ").unwrap();
            let expected =
                format!("pinbad.toml:2: {key} = {value}: {problem}; accepted: {accepted}");
            assert_eq!(errors_of(&format!("[{section}]\n{name} = {value}\n")), [expected]);
        }
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
        [format!("--udp: ingest.listen = nowhere: not an address; {accepted}")]
    );
}

#[test]
fn no_item_of_a_list_is_empty_or_there_twice() {
    for (key, given, item, problem) in [
        ("releases.tag", r#"["a", "a"]"#, r#""a""#, "the same twice"),
        ("releases.tag", r#"[""]"#, r#""""#, "empty"),
        ("metrics.reports", r#"["*", "*"]"#, r#""*""#, "the same twice"),
        ("metrics.reports", r#"["info", ""]"#, r#""""#, "empty"),
        ("http.host_names", r#"["a.example", "A.example"]"#, r#""A.example""#, "the same twice"),
        ("http.host_names", r#"[""]"#, r#""""#, "not a host name"),
        ("ingest.allow", r#"["10.0.0.7", "10.0.0.7/32"]"#, r#""10.0.0.7/32""#, "the same twice"),
        ("instruments.enabled", r#"["idle", "idle"]"#, r#""idle""#, "the same twice"),
    ] {
        let (section, name) = key.split_once('.').unwrap();
        let errors = errors_of(&format!("[{section}]\n{name} = {given}\n"));
        let begin = format!("pinbad.toml:2: {key} = {item}: {problem}; accepted: ");
        assert!(errors.len() == 1 && errors[0].starts_with(&begin), "{begin}: {errors:?}");
    }
    let none = "[releases]\ntag = \"\"\n[http]\nhost_names = []\n";
    let config = Config::from_toml("pinbad.toml", none).unwrap();
    assert!(config.releases.tag.is_empty() && config.http.host_names.is_empty());
    for set in ["", "[]", "\"\"", "''"] {
        let flags =
            ConfigFlags { set: vec![format!("releases.tag={set}")], ..ConfigFlags::default() };
        assert!(Config::load(&flags, []).unwrap().releases.tag.is_empty(), "{set}");
    }
}

#[test]
fn an_unknown_name_is_answered_with_the_one_that_was_meant() {
    for case in include_str!("tests/names.txt").split("\n\n").skip(1) {
        let (text, expected) = case.split_once("=> ").unwrap();
        assert_eq!(errors_of(text), [expected.trim_end()]);
    }
}

#[test]
fn an_integer_beyond_64_bits_in_a_list_is_refused_at_its_key() {
    let large = "99999999999999999999";
    let text = format!("[[slo]]\nname = \"x\"\nmin_requests = {large}\n");
    let errors = errors_of(&text);
    let told = format!("pinbad.toml:3: slo.min_requests = {large}: too large");
    assert!(errors.iter().any(|error| error.starts_with(&told)), "{errors:?}");
}

#[test]
fn what_is_not_toml_is_refused_with_every_line_that_is_not() {
    let errors = errors_of("[pool]\nstats_history = 15m\nrequest_pool_size 5\n[http\n");
    let at: Vec<_> = errors.iter().map(|error| error.split(": ").next().unwrap()).collect();
    assert!(
        ["pinbad.toml:2", "pinbad.toml:3", "pinbad.toml:4"].iter().all(|line| at.contains(line)),
        "{errors:?}"
    );
    assert!(errors.iter().all(|error| error.contains(": not valid TOML: ")), "{errors:?}");
    let twice = errors_of("[pool]\nstats_history = 1\nstats_history = 2\n");
    assert_eq!(twice, ["pinbad.toml:3: not valid TOML: duplicate key"]);
    for line in ["level = info", "format=text"] {
        let word = errors_of(&format!("[log]\n{line}\n"));
        assert!(word.len() == 1 && word[0].ends_with("; a text stands in quotes"), "{word:?}");
    }
    let open = errors_of("[log]\nlevel = \"info\n");
    assert!(open.len() == 1 && !open[0].contains("quotes"), "{open:?}");
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
        for address in ["127.0.0.1:81", "127.9.9.9:81", "[::1]:81", "[::ffff:127.0.0.1]:81", ""] {
            let text = format!("[{section}]\nlisten = \"{address}\"\n");
            assert!(Config::from_toml(FILE, &text).is_ok(), "{address}");
        }
    }
}

/// Every spelling of an address at which this daemon itself listens.
#[test]
fn nothing_is_pushed_to_an_own_input() {
    for (listen, url, is_own) in [
        ("127.0.0.1:4318", "http://127.0.0.1:4318", true),
        ("127.0.0.1:4318", "http://LOCALHOST:4318/v1/traces", true),
        ("[::1]:4318", "http://[::1]:4318/", true),
        ("[::1]:443", "https://localhost", true),
        ("0.0.0.0:80", "http://127.0.0.2", true),
        ("[::]:4318", "http://127.0.0.1:4318", true),
        ("10.0.0.1:4318", "http://10.0.0.1:4318", true),
        ("127.0.0.1:4318", "http://0.0.0.0:4318", true),
        ("0.0.0.0:4318", "http://0.0.0.0:4318", true),
        ("0.0.0.0:4318", "http://[::1]:4318", false),
        ("127.0.0.1:4318", "http://127.0.0.1:4319", false),
        ("127.0.0.1:4318", "http://127.0.0.2:4318", false),
        ("0.0.0.0:4318", "http://collector:4318", false),
        ("10.0.0.1:4318", "http://localhost:4318", false),
    ] {
        let input = format!("[[otlp_input]]\nlisten = \"{listen}\"\nallow_anonymous = true\n");
        let text = format!("{input}[otlp]\nurl = \"{url}\"\n");
        match Config::from_toml(FILE, &text) {
            Ok(_) => assert!(!is_own, "{text}"),
            refused => assert_eq!(
                (lines(refused), is_own),
                (
                    vec![format!(
                        "pinbad.toml:5: otlp.url = \"{url}\": the daemon's own otlp_input.listen = {listen}, which \
                         takes spans of others; accepted: another server"
                    )],
                    true
                )
            ),
        }
    }
}

#[test]
fn shipping_from_a_folder_of_another_user_is_refused_to_a_start_alone() {
    let url = "clickhouse.url=http://127.0.0.1:8123";
    let load = |set_to: &[&str], refused: Option<&str>| {
        Config::load_beside(&set(set_to), [], refused.map(|why| Err(why.to_owned())))
    };
    let why = "/var/lib/pinbad cannot be used: it belongs to user 61234";
    assert_has!(lines(load(&[url], None))[0] => "clickhouse.url without history.dir");
    assert_has!(lines(load(&[url, "data.dir="], Some(why)))[0] => "clickhouse.url without history.dir");
    let problem = load(&[url], Some(why)).unwrap().shipping_refused().unwrap();
    assert_has!(problem => "clickhouse.url without history.dir", why);
    assert_eq!(load(&[], Some(why)).unwrap().shipping_refused(), None);
    #[cfg(feature = "sql")]
    assert_eq!(load(&[url, "data.dir=/d"], Some(why)).unwrap().shipping_refused(), None);
    let started = crate::daemon::Daemon::start(
        &load(&[url], Some(why)).unwrap(),
        std::sync::Arc::new(crate::clock::SystemClock::new()),
    );
    assert_has!(started.err().unwrap().to_string() => why);
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
    let taken = |text: &str, names: [&str; 2]| {
        let errors = errors_of(text);
        assert_eq!(errors.len(), 1, "{text}: {errors:?}");
        assert!(errors[0].starts_with("pinbad.toml:"), "{errors:?}");
        assert_has!(errors[0] => names[0], names[1], "take the same port");
    };
    for (text, names) in cases![
        "[[otlp_input]]\nlisten = \"127.0.0.1:30080\"\n" => ["otlp_input.listen", "http.listen"];
        "[[squid]]\nlisten = \"tcp://0.0.0.0:30080\"\n" => ["squid.listen", "http.listen"];
        "[[squid]]\nlisten = \"tcp://[::]:30080\"\n" => ["squid.listen", "http.listen"];
        "[[squid]]\nlisten = \"udp://127.0.0.1:30002\"\n" => ["ingest.listen", "squid.listen"];
        "[ingest]\nlisten = [\"0.0.0.0:5\", \"127.0.0.1:5\"]\n" => ["0.0.0.0:5", "127.0.0.1:5"];
    ] {
        taken(text, names);
    }
    for text in [
        "[ingest]\nlisten = [\"0.0.0.0:5\", \"[::]:5\"]\n",
        "[[squid]]\nlisten = \"udp://127.0.0.1:30080\"\n",
        "[[squid]]\nlisten = \"tcp://127.0.0.2:30080\"\n",
    ] {
        assert!(Config::from_toml(FILE, text).is_ok(), "{text}");
    }
    assert_eq!(
        errors_of("[data]\ndir = \"/d\"\n[history]\ndir = \"/d/state/\"\n"),
        ["pinbad.toml:4: history.dir = /d/state/ is state.dir too; accepted: a folder for each"]
    );
    assert_eq!(
        errors_of("[history]\nretention_minute = \"5d\"\nretention_hour = \"3d\"\n"),
        [
            "pinbad.toml:2: history.retention_minute = \"5d\" is longer than history.retention_hour = \"3d\"; \
             accepted: history.retention_hour of at least \"5d\""
        ]
    );
    let short =
        "[history]\nretention_minute = \"3d\"\nretention_hour = \"3d\"\nretention_day = \"62d\"\n";
    assert!(Config::from_toml(FILE, short).is_ok());
    assert_has!(errors_of("[ingest]\nlisten = \"239.7.7.7:5\"\n")[0] => "a multicast address");
    assert!(
        Config::from_toml(
            FILE,
            "[http]\nlisten = \"127.0.0.1:0\"\n[mysql]\nlisten = \"127.0.0.1:0\"\n"
        )
        .is_ok()
    );
    // It would get each alert twice.
    let twice = "[alerting]\nalertmanager = [\"http://h:9093\", \"http://h:9093/\"]\n";
    assert_has!(errors_of(twice)[0] => "alerting.alertmanager", "the same twice");
    let twice = "[[squid]]\npath = \"/log\"\n[[squid]]\npath = \"/log\"\nfrom = \"end\"\n";
    assert_eq!(
        errors_of(twice),
        [
            "pinbad.toml:4: squid.path = \"/log\": the entry at pinbad.toml:1 has it too; accepted: each once"
        ]
    );
    let addresses: Vec<String> = (1..=5).map(|port| format!("\"127.0.0.1:{port}\"")).collect();
    let text = format!("[ingest]\nreceivers = 256\nlisten = [{}]\n", addresses.join(", "));
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
        assert_eq!((config.ingest.temp_pool_bytes, config.ingest.receivers), (bytes, 2), "{text}");
    }
}
