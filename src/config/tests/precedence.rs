//! Flags, environment, file and defaults: their precedence, syntax and names in errors.

use super::*;

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
    let own = Some(address("127.0.0.1:3"));
    assert_eq!(config.http.listen, own, "flag of its own");
}

#[test]
fn the_file_is_named_by_flag_or_else_by_variable() {
    let (_dir, one) = file("[pool]\nrequest_pool_size = 1\n");
    let (_dir2, two) = file("[pool]\nrequest_pool_size = 2\n");
    let size = |flag: Option<&PathBuf>, variable: &std::path::Path| {
        let flags = ConfigFlags { config: flag.cloned(), ..ConfigFlags::default() };
        let variable = variable.as_os_str().to_owned();
        let config = Config::load(&flags, [(OsString::from("PINBAD_CONFIG"), variable)]);
        config.map(|config| config.pool.request_pool_size)
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
        let both = ["127.0.0.1:0", "[::1]:0"].map(address);
        assert_eq!(config.ingest.listen, both, "{value}");
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
    assert_eq!(config.ingest.listen, ["127.0.0.1:1", "[::1]:1"].map(address));
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
    let period = config.ingest.stats_gathering_period;
    assert_eq!(period, Duration::from_millis(500));
    assert_eq!(config.ingest.recv_buffer, 1 << 20);
    assert_eq!(config.pool.words_memory, 2 << 20);
    assert_eq!(config.reports.rows_max, 5000);
    assert_eq!((config.http.listen, config.mysql.listen), (None, None));
    assert!(config.mysql.allow_anonymous);
    let numeric = Some(PathBuf::from("2024"));
    assert_eq!(config.state.dir, numeric, "a directory may look like a number");
    let (format, level) = (LogFormat::Json, tracing::Level::DEBUG);
    assert_eq!(config.log, LogConfig { format, level });
}

#[test]
fn report_entries_of_a_stronger_layer_replace_the_weaker() {
    let (_dir, path) = file("[[report]]\nname = \"of_file\"\n");
    let flags = ConfigFlags {
        config: Some(path),
        ..set(&[r#"report=[{name="x",comment="tag_info:group"},{name="y"}]"#])
    };
    let environment = variables(&[("PINBAD_REPORT", "[{name = 'of_variable'}]")]);
    let config = Config::load(&flags, environment).unwrap();
    let reports = config.configured_reports.iter();
    let names: Vec<_> = reports.map(|report| report.table["name"].as_str()).collect();
    assert_eq!(names, [Some("x"), Some("y")]);
    let location = &config.configured_reports[0].location;
    assert_eq!(location.to_string(), "--set");
    assert_eq!(location.given(), r#"{name="x",comment="tag_info:group"}"#);
    assert_eq!(location.line(), None);
}

#[test]
fn flags_and_variables_are_refused_by_their_own_name() {
    for (flags, environment, expected) in cases![
        set(&["pool.stats_histroy=60s"]) => variables(&[]),
            "--set: pool.stats_histroy = 60s: unknown setting; did you mean pool.stats_history?";
        set(&["pool.stats_history"]) => variables(&[]),
            "--set: pool.stats_history: no value; accepted: KEY=VALUE, as in pool.stats_history=60s";
        set(&["log.format=xml"]) => variables(&[]),
            "--set: log.format = xml: no such choice; accepted: text, json";
        ConfigFlags { log_format: Some("xml".to_owned()), ..ConfigFlags::default() } =>
            variables(&[]), "--log-format: log.format = xml: no such choice; accepted: text, json";
        ConfigFlags { http: Some("127.0.0.1:1".to_owned()), ..set(&["http.listen=127.0.0.1:2"]) } =>
            variables(&[]), "--http: http.listen is given by --set too; leave one of the two out";
        set(&["report=[{name=x}]"]) =>
            variables(&[]),
            "--set: report = [{name=x}]: not valid TOML; accepted: a list of tables, quoted for the shell: --set \
             'report=[{name = \"x\", ..}]'";
        set(&[]) => variables(&[("PINBAD_LOG_LEVEL", "loud")]),
            "PINBAD_LOG_LEVEL: log.level = loud: no such choice; accepted: error, warn, info, debug, trace";
        set(&[]) => variables(&[("PINBAD_POOL_STATS_HISTROY", "60s")]),
            "PINBAD_POOL_STATS_HISTROY: no setting has this variable; did you mean PINBAD_POOL_STATS_HISTORY?";
        set(&[]) => variables(&[("PINBAD_DATA", "/srv/pinbad")]),
            "PINBAD_DATA: no setting has this variable; did you mean PINBAD_DATA_DIR?";
        set(&[]) => variables(&[("PINBAD_FOO", "1")]),
            "PINBAD_FOO: no setting has this variable; accepted are PINBAD_CONFIG and PINBAD_SECTION_KEY, as in \
             PINBAD_POOL_STATS_HISTORY";
        set(&[]) =>
            variables(&[("PINBAD_VERBOSE", "1")]),
            "PINBAD_VERBOSE: no setting has this variable; accepted are PINBAD_CONFIG and PINBAD_SECTION_KEY, as in \
             PINBAD_POOL_STATS_HISTORY";
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
    let config = Config::load(&set(&[]), variables(&links)).unwrap();
    assert_eq!(config, Config::default());
    for slip in
        [("PINBAD_PORT", "30080"), ("PINBAD_HTTP_PORT", "30080"), ("PINBAD_PORT_X_TCP", "1")]
    {
        let errors = lines(Config::load(&set(&[]), variables(&[slip])));
        assert_eq!(errors.len(), 1, "{slip:?}");
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
        format!("{}:5: http.listen = \"0.0.0.0:80\": not a loopback", path.display()),
    ];
    assert_eq!(errors.len(), starts.len(), "{errors:#?}");
    for (error, start) in errors.iter().zip(&starts) {
        assert!(error.starts_with(start), "{error} / {start}");
    }
}
