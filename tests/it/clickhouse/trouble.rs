//! Shipping where something is not as it should be: disks are full, tables are changed by hand or
//! older, a certificate is nobody's, two hosts have one name, a unit comes again when nobody
//! remembers it, retention takes what was not shipped.

use std::path::Path;
use std::sync::Arc;

use pinbad::clock::ManualClock;
use serde_json::{Value as Json, json};

use super::{
    ClickHouse, Sent, assert_same, at_home, drain, faults, print_tables, send, settle, start, there,
};
use crate::harness::{
    Here, Program, await_condition, await_until, nobody_listens, pass, pinbad, run,
};
use crate::past::START_SECS;
use crate::restart::SmallDisk;

fn new_clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(START_SECS * 1_000))
}

/// Requests, over some minutes.
fn minutes(here: &Here, clock: &ManualClock, steps: u64, sent: &mut Sent) {
    for step in 0..steps {
        send(here, step, sent);
        pass(&here.site, clock, 30_000);
    }
}

/// Lets time pass until the status of what is shipped is so.
#[track_caller]
fn until(here: &Here, clock: &ManualClock, what: &str, is: impl Fn(&Json) -> bool) -> Json {
    await_condition(what, || {
        clock.advance_ms(1_000);
        let shipped = here.site.json("/api/v1/status")["clickhouse"].clone();
        match is(&shipped) {
            true => Ok(shipped),
            false => Err(shipped),
        }
    })
}

fn says(status: &Json, what: &str) -> bool {
    status["error"].as_str().is_some_and(|error| error.contains(what))
}

/// A certificate for this name that is its own authority: its path, with the key beside it.
fn certificate(dir: &Path, file: &str, name: &str) -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let path = dir.join(file);
    std::fs::write(&path, certificate.pem()).unwrap();
    std::fs::write(dir.join("key.pem"), key.serialize_pem()).unwrap();
    path.display().to_string()
}

#[test]
fn a_server_that_speaks_tls_is_verified() {
    let (home, far) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let other = certificate(far.path(), "other.pem", "localhost");
    let its = certificate(far.path(), "cert.pem", "localhost");
    let Some(clickhouse) = ClickHouse::start(far.path(), 0) else {
        return;
    };
    let port = clickhouse.secure_port.unwrap();
    let password = far.path().join("password");
    std::fs::write(&password, "hunter2hunter2\n").unwrap();
    let secret = format!("clickhouse.password_file={}", password.display());
    let dir = format!("history.dir={}", home.path().display());
    let tables = || clickhouse.query("SELECT name FROM system.tables WHERE database = 'pinba'");
    // Signed by somebody else: in the file, and in what the system trusts. And with another name.
    for (host, ca_file, trusted, said) in [
        ("localhost", &*other, "", "certificate"),
        ("localhost", "", &*other, "certificate"),
        ("127.0.0.1", &*its, "", "certificate not valid for name"),
    ] {
        let mut command = pinbad();
        command.env("SSL_CERT_FILE", trusted);
        let url = format!("clickhouse.url=https://{host}:{port}");
        let ca_file = format!("clickhouse.ca_file={ca_file}");
        let settings = [
            &*dir,
            "history.free_min=0",
            "clickhouse.create_tables=true",
            "log.level=trace",
            &url,
            &ca_file,
            &secret,
        ];
        let program = Program::start_as(command, &["serve"], &settings);
        await_condition("the certificate is refused", || {
            let shipped = program.site.json("/api/v1/status")["clickhouse"].clone();
            let is_named = says(&shipped, said) && says(&shipped, "https://");
            match is_named && shipped["failures"] != 0 {
                true => Ok(()),
                false => Err(shipped),
            }
        });
        let log = await_until(
            "it is logged",
            || format!("{:?}", program.log()),
            |log| log.contains("Cannot ship to ClickHouse"),
        );
        assert!(!log.contains("hunter2"), "{log}");
    }
    assert_eq!(tables(), [] as [Json; 0]);
    let url = format!("clickhouse.url=https://localhost:{port}");
    let ca_file = format!("clickhouse.ca_file={its}");
    std::fs::write(far.path().join("key"), "hunter2hunter2").unwrap();
    let (clock, more) = (new_clock(), [&*url, &ca_file, &secret]);
    let here = start(home.path(), port, &clock, &more);
    minutes(&here, &clock, 20, &mut Sent::default());
    let before = settle(here, home.path(), port, &clock, &more);
    std::fs::remove_file(far.path().join("key")).unwrap();
    assert_same(&clickhouse, &[home.path()], before);
}

/// Names of the threads of a program.
fn threads(program: &Program) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", program.id())).unwrap();
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default()
    };
    tasks.map(|task| name(task).trim().to_owned()).collect()
}

#[test]
fn without_a_url_there_is_no_thread() {
    let home = tempfile::tempdir().unwrap();
    let dir = format!("history.dir={}", home.path().display());
    let (nobody, _taken) = nobody_listens();
    let url = format!("clickhouse.url=http://{nobody}");
    for (url, has) in [("clickhouse.url=", false), (&*url, true)] {
        let program = Program::serve(&[&dir, "history.free_min=0", url]);
        await_until(
            "its threads have names",
            || threads(&program),
            |threads| threads.iter().any(|it| it == "clickhouse") == has,
        );
        let status = program.site.json("/api/v1/status");
        assert_eq!(status["clickhouse"].is_object(), has, "{status}");
        assert_eq!(home.path().join("unshipped").exists(), has);
    }
}

/// The pauses between tries are no stage that `pinbad doctor --running` could blame.
#[test]
#[cfg(feature = "sql")]
fn nothing_is_being_sent_while_nobody_takes_it() {
    let home = tempfile::tempdir().unwrap();
    let ((nobody, _taken), clock) = (nobody_listens(), new_clock());
    let more = ["clickhouse.create_tables=false"];
    let here = start(home.path(), nobody.port(), &clock, &more);
    minutes(&here, &clock, 6, &mut Sent::default());
    until(&here, &clock, "rows were not taken", |it| {
        it["failures"] != 0 && it["rows_waiting"] != 0
    });
    let sending = "SELECT COUNT(*) FROM performance_schema.events_stages_current
        WHERE EVENT_NAME = 'stage/clickhouse/ship' AND END_EVENT_ID IS NULL";
    let asked = json!({ "query": sending }).to_string();
    // A try lasts a moment, and the clock stands still: the pause has no end.
    await_condition("nothing is being sent", || {
        let answer = here.site.post("/api/v1/sql", &asked);
        match answer.json()["rows"] == json!([[0]]) {
            true => Ok(()),
            false => Err(answer.body),
        }
    });
}

#[test]
fn a_url_with_a_secret_is_refused_and_not_shown() {
    for url in [
        "http://pinbad:hunter2@clickhouse:8123",
        "https://clickhouse:8443/?password=hunter2",
        "ftp://pinbad:hunter2@clickhouse",
    ] {
        let set = format!("clickhouse.url={url}");
        let said = run(pinbad().args(["check", "--set", &set, "--set", "history.dir=/tmp"]));
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.err.contains("clickhouse.url"), "{said:?}");
        assert!(!said.err.contains("hunter2"), "{said:?}");
    }
}

#[test]
fn full_disks_there_and_here_lose_nothing() {
    let (large, far) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(clickhouse) = ClickHouse::start(far.path(), 0) else {
        return;
    };
    let small = SmallDisk::mount("8m");
    let place = small.as_ref().map_or(large.path(), SmallDisk::path);
    let home = place.join("home");
    let (port, clock) = (clickhouse.port, new_clock());
    let mut sent = Sent::default();
    let here = start(&home, port, &clock, &[]);
    for (word, name) in [("full", "NOT_ENOUGH_SPACE"), ("readonly", "TABLE_IS_READ_ONLY")] {
        faults(far.path(), &format!("{word} ").repeat(1_000));
        minutes(&here, &clock, 6, &mut sent);
        let shipped = until(&here, &clock, "it is tried again", |it| {
            says(it, name) && it["failures"].as_u64() > Some(2)
        });
        assert_ne!(shipped["rows_waiting"], 0, "{shipped}");
        assert_eq!(shipped["rows_refused"], 0, "{shipped}");
        faults(far.path(), "");
        until(&here, &clock, "it is taken", |it| it["error"].is_null());
    }
    if small.is_some() {
        // What waits is on disk; that it is on its way can no longer be.
        faults(far.path(), &"full ".repeat(1_000));
        minutes(&here, &clock, 6, &mut sent);
        until(&here, &clock, "it fails there", |it| says(it, "NOT_ENOUGH_SPACE"));
        std::fs::write(place.join("filler"), vec![1; 16 << 20]).unwrap_err();
        faults(far.path(), "");
        let shipped = until(&here, &clock, "it fails here", |it| says(it, "cursor"));
        assert_ne!(shipped["failures"], 0, "{shipped}");
        std::fs::remove_file(place.join("filler")).unwrap();
        until(&here, &clock, "it goes on", |it| it["error"].is_null());
    }
    let before = settle(here, &home, port, &clock, &[]);
    assert_same(&clickhouse, &[&home], before);
}

/// The statements that break the tables, those that mend them, the start of the engine's error
/// message, and whether rows are set aside until then.
type Break = (&'static [&'static str], &'static [&'static str], &'static str, bool);

const BREAKS: [Break; 7] = cases![
    &["ALTER TABLE pinba.rollup RENAME COLUMN memory_peak_max TO kept"] =>
        &["ALTER TABLE pinba.rollup RENAME COLUMN kept TO memory_peak_max"], "Code: 16.", true;
    &["ALTER TABLE pinba.rollup RENAME COLUMN histogram TO kept", "ALTER TABLE pinba.rollup ADD COLUMN histogram UUID"] =>
        &["ALTER TABLE pinba.rollup DROP COLUMN histogram",
        "ALTER TABLE pinba.rollup RENAME COLUMN kept TO histogram"], "Code: 43.", true;
    &["ALTER TABLE pinba.rollup ADD CONSTRAINT few CHECK hit_count > 1000000"] =>
        &["ALTER TABLE pinba.rollup DROP CONSTRAINT few"], "Code: 469.", true;
    &["RENAME TABLE pinba.rollup TO pinba.away", "CREATE VIEW pinba.rollup AS SELECT * FROM pinba.away"] =>
        &["DROP VIEW pinba.rollup", "RENAME TABLE pinba.away TO pinba.rollup"], "Code: 48.", true;
    &["RENAME TABLE pinba.rollup TO pinba.away"] => &["RENAME TABLE pinba.away TO pinba.rollup"],
        "Code: 60.", false;
    &["SYSTEM STOP MERGES pinba.rollup", "ALTER TABLE pinba.rollup MODIFY SETTING parts_to_throw_insert = 1"] =>
        &["ALTER TABLE pinba.rollup RESET SETTING parts_to_throw_insert",
        "SYSTEM START MERGES pinba.rollup"], "Code: 252.", false;
    &["readonly = 1"] => &[], "Code: 164.", false;
];

#[test]
fn what_the_engine_refuses_is_set_aside_and_what_passes_waits() {
    let (home, far) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(clickhouse) = ClickHouse::start(far.path(), 0) else {
        return;
    };
    // Numbers and names are its own.
    let refusals = include_str!("../../../src/clickhouse/refusals.txt");
    let lines = refusals.lines();
    for line in lines.filter(|line| line.starts_with(|it: char| it.is_ascii_digit())) {
        let (code, name) = line.split_once(' ').unwrap();
        let rows = clickhouse.query(&format!("SELECT errorCodeToName({code}) AS name"));
        assert_eq!(rows, [json!({"name": name})]);
    }
    let (port, clock) = (clickhouse.port, new_clock());
    let here = start(home.path(), port, &clock, &[]);
    let mut sent = Sent::default();
    minutes(&here, &clock, 8, &mut sent);
    until(&here, &clock, "tables are there", |it| it["rows_shipped"] != 0 && it["error"].is_null());
    for (breaks, mends, name, is_refused) in BREAKS {
        for change in breaks {
            match change.starts_with("readonly") {
                true => std::fs::write(far.path().join("settings"), change).unwrap(),
                false => drop(clickhouse.query(change)),
            }
        }
        minutes(&here, &clock, 4, &mut sent);
        let is_named = |refused: &Json| {
            let refused = refused.as_array().unwrap();
            refused.iter().any(|it| it["error"].as_str().unwrap().contains(name))
        };
        match is_refused {
            true => {
                let what = format!("{name} is set aside, and the rest goes on");
                let shipped = until(&here, &clock, &what, |it| {
                    is_named(&it["refused"]) && it["error"].is_null()
                });
                assert_ne!(shipped["rows_refused"], 0, "{shipped}");
                assert_eq!(shipped["refused"][0]["table"], "rollup", "{shipped}");
                let detail = here.site.json("/readyz")["detail"].clone();
                assert_has!(detail.as_str().unwrap() => "ClickHouse refused ", " rows for rollup: ", name);
            }
            false => {
                let what = format!("{name} is tried again");
                let shipped = until(&here, &clock, &what, |it| says(it, name));
                assert_eq!(shipped["rows_refused"], 0, "{shipped}");
            }
        }
        for mend in mends {
            clickhouse.query(mend);
        }
        let _was_none = std::fs::remove_file(far.path().join("settings"));
        // Within ten minutes.
        until(&here, &clock, "all is taken", |it| it["rows_refused"] == 0 && it["error"].is_null());
    }
    let before = settle(here, home.path(), port, &clock, &[]);
    assert_same(&clickhouse, &[home.path()], before);
}

/// Tables that an older pinbad made get the columns that they lack, with their rows; in those of a
/// newer one what is not known stays at its default. And what has a view's name and is none stays
/// as it is.
#[test]
fn older_and_newer_tables_are_shipped_into() {
    let (home, far) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(clickhouse) = ClickHouse::start(far.path(), 0) else {
        return;
    };
    let lacking = ["`has_histogram`", "`histogram`", "`ru_stime_total_us`", "`timers.tags`"];
    let statements = print_tables(&[]);
    let tables = statements.iter().filter(|it| it.starts_with("CREATE"));
    for statement in tables.filter(|it| !it.contains("VIEW")) {
        let lines = statement.lines();
        let lines = lines.filter(|line| !lacking.iter().any(|it| line.contains(&format!("{it} "))));
        let older: Vec<_> = lines.collect();
        clickhouse.query(&older.join("\n").replace(",\n)", "\n)"));
    }
    clickhouse.query("INSERT INTO pinba.rollup (report, t, store, key, req_count) VALUES ('old', 60, generateUUIDv4(), ['/a'], 7)");
    clickhouse.query("ALTER TABLE pinba.rollup ADD COLUMN of_the_future String DEFAULT 'new'");
    clickhouse.query("CREATE TABLE pinba.report_by_script_name (mine UInt8) ENGINE = Memory");
    let (port, clock) = (clickhouse.port, new_clock());
    let here = start(home.path(), port, &clock, &[]);
    minutes(&here, &clock, 20, &mut Sent::default());
    let before = settle(here, home.path(), port, &clock, &[]);
    let old = "SELECT key, toUInt32(req_count) AS requests, has_histogram, histogram, of_the_future FROM pinba.rollup FINAL \
               WHERE report = 'old'";
    assert_eq!(
        clickhouse.query(old),
        [
            json!({"key": ["/a"], "requests": 7, "has_histogram": false, "histogram": {}, "of_the_future": "new"})
        ]
    );
    clickhouse
        .query("ALTER TABLE pinba.rollup DELETE WHERE report = 'old' SETTINGS mutations_sync = 2");
    assert_same(&clickhouse, &[home.path()], before);
    let mine = "SELECT name FROM system.columns WHERE database = 'pinba' AND table = 'report_by_script_name'";
    assert_eq!(clickhouse.query(mine), [json!({"name": "mine"})]);
    let hours = "SELECT sum(req_count) > 0 AS has FROM pinba.report_by_script_name_hour";
    assert_eq!(clickhouse.query(hours), [json!({"has": 1})]);
}

/// A report that is defined anew under its name counts something else: its views have what it
/// counts now.
#[test]
fn views_do_not_add_up_two_definitions_of_a_name() {
    let (home, far) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(clickhouse) = ClickHouse::start(far.path(), 0) else {
        return;
    };
    let (port, clock) = (clickhouse.port, new_clock());
    let mut counts = Vec::new();
    for keys in ["script_name", "hostname"] {
        let report = format!(
            r#"report=[{{name = "mine", level = "request", keys = ["{keys}"], history = true}}]"#
        );
        let here = start(home.path(), port, &clock, &[&report]);
        let mut sent = Sent::default();
        minutes(&here, &clock, 6, &mut sent);
        settle(here, home.path(), port, &clock, &[&report]);
        counts.push(sent.0);
    }
    let rows = clickhouse.query(
        "SELECT hostname, toUInt32(sum(req_count)) AS requests FROM pinba.mine_day GROUP BY hostname",
    );
    assert_eq!(rows, [json!({"hostname": "h", "requests": counts[1]})]);
    let all =
        "SELECT toUInt32(sum(req_count)) AS requests FROM pinba.rollup FINAL WHERE report = 'mine'";
    assert_eq!(clickhouse.query(all), [json!({"requests": counts[0] + counts[1]})]);
}

/// Two hosts have one name, and the same minutes and keys. What one of them sent comes again when
/// others have filled any window.
#[test]
fn two_hosts_with_one_name_are_told_apart_and_a_late_repetition_changes_nothing() {
    let far = tempfile::tempdir().unwrap();
    let homes = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let Some(clickhouse) = ClickHouse::start(far.path(), 0) else {
        return;
    };
    for statement in print_tables(&[]) {
        let window = "non_replicated_deduplication_window = ";
        clickhouse.query(&statement.replace(&format!("{window}1000"), &format!("{window}1")));
    }
    let port = clickhouse.port;
    let more = ["clickhouse.collector=web", "clickhouse.dc=ams"];
    let mut sent = [Sent::default(); 2];
    // All rows of the first are taken, which it is never told.
    let first_clock = new_clock();
    let here = start(homes[0].path(), port, &first_clock, &more);
    faults(far.path(), &"lose@rollup torn@rollup ".repeat(1_000));
    minutes(&here, &first_clock, 16, &mut sent[0]);
    until(&here, &first_clock, "answers are lost", |it| it["failures"].as_u64() > Some(3));
    here.stop();
    faults(far.path(), "");
    let stored = || clickhouse.query("SELECT toUInt32(count()) AS rows FROM pinba.rollup FINAL");
    assert_ne!(stored(), [json!({"rows": 0})]);
    let second_clock = new_clock();
    let here = start(homes[1].path(), port, &second_clock, &more);
    minutes(&here, &second_clock, 16, &mut sent[1]);
    settle(here, homes[1].path(), port, &second_clock, &more);
    let here = start(homes[0].path(), port, &first_clock, &more);
    // The minutes in which both ran.
    let before = START_SECS + 420;
    drain(&here, &first_clock, pinbad::clock::Clock::unix_ms(&*first_clock) / 1_000);
    let [first, second] = [&homes[0], &homes[1]].map(tempfile::TempDir::path);
    here.stop();
    assert_same(&clickhouse, &[first, second], before);
    let stores = "SELECT collector, dc, toUInt32(uniqExact(store)) AS stores FROM pinba.rollup GROUP BY collector, dc";
    let named = json!({"collector": "web", "dc": "ams", "stores": 2});
    assert_eq!(clickhouse.query(stores), [named]);
    let requests =
        clickhouse.query("SELECT toUInt32(count()) AS requests FROM pinba.request FINAL");
    assert_eq!(requests, [json!({"requests": sent[0].0 + sent[1].0})]);
}

/// Nobody takes it for longer than it is kept: what goes is counted, what is left is shipped.
#[test]
fn what_retention_takes_before_it_is_shipped_is_counted() {
    let (home, far) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ((nobody, taken), clock) = (nobody_listens(), new_clock());
    let more = ["history.retention_minute=2d"];
    let here = start(home.path(), nobody.port(), &clock, &more);
    let mut sent = Sent::default();
    minutes(&here, &clock, 4, &mut sent);
    for _ in 0..30 {
        pass(&here.site, &clock, 3_600_000);
        pass(&here.site, &clock, 3_600_000);
        minutes(&here, &clock, 2, &mut sent);
    }
    let shipped = until(&here, &clock, "it is too old", |it| it["rows_dropped"] != 0);
    assert_eq!(shipped["rows_shipped"], 0, "{shipped}");
    assert_ne!(shipped["rows_waiting"], 0, "{shipped}");
    let metrics = here.site.get("/metrics").body;
    let counter = "pinbad_clickhouse_rows_dropped_total ";
    let dropped = metrics.lines().find_map(|line| line.strip_prefix(counter));
    assert!(dropped.unwrap().parse::<f64>().unwrap() > 0.0);
    drop(taken);
    let Some(clickhouse) = ClickHouse::start(far.path(), nobody.port()) else {
        return;
    };
    let before = settle(here, home.path(), nobody.port(), &clock, &more);
    let (ours, theirs) = (at_home(&[home.path()], before), there(&clickhouse, before));
    assert!(ours.len() > 100, "{}", ours.len());
    for (id, row) in &ours {
        assert_eq!(theirs.get(id), Some(row), "what retention still has: {id}");
    }
}

/// The page of Squid is of one daemon, so it does not ask ClickHouse.
#[test]
fn the_page_of_squid_needs_no_fleet() {
    let home = tempfile::tempdir().unwrap();
    let (nobody, _kept) = nobody_listens();
    let url = format!("clickhouse.url=http://{nobody}/");
    let squid = "squid=[{listen='udp://127.0.0.1:0'}]";
    let more = [&*url, "clickhouse.what=[]", squid];
    let here = Here::with_history(home.path(), &new_clock(), &more);
    here.site.get("/api/v1/reports/squid_codes?fleet=true").problem(503);
    let page = here.site.get("/squid?fleet=true");
    assert_eq!(page.status, 200, "{}", page.body);
    assert_has!(page.body => "This daemon only", "aria-label=\"Result codes, rows\"");
    assert!(!page.body.contains("has no past"), "{}", page.body);
    here.stop();
}
