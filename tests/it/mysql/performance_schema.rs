//! Database `performance_schema`: statements as a DBA of MySQL has them, over the wire, and what
//! they find.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use prost::Message as _;

use super::MYSQL;
use super::client::{Client, Outcome};
use crate::harness::{Here, Program, Sender, await_condition, await_until, pinbad, run};
use crate::mariadb::MariaDb;
use crate::packets::request;

fn schema(program: &Program) -> Client {
    let mut client = Client::connect(program.site.mysql.unwrap());
    client.assert_done("USE performance_schema");
    client
}

fn send(site: &crate::harness::Site, count: u32) {
    site.send((0..count).map(|number| request("h", "s", &format!("/{number}"))));
}

#[test]
fn five_statements_mean_what_they_mean_in_mysql() {
    let program = Program::serve(&[MYSQL, "instruments.max_stage_classes=3"]);
    let mut client = schema(&program);
    send(&program.site, 100);
    let timers = client.table("SELECT * FROM performance_timers");
    let names: Vec<_> = timers.iter().map(|row| &*row[0]).collect();
    assert_eq!(names, ["CYCLE", "NANOSECOND", "MICROSECOND", "MILLISECOND", "THREAD_CPU"]);
    assert_eq!(timers[1][1], "1000000000");

    let stuck =
        "SELECT * FROM events_waits_current WHERE END_EVENT_ID IS NULL AND TIMER_WAIT > 1000000000";
    client.table(stuck);

    let status = client.table("SHOW STATUS LIKE \"%performance%\"");
    let status: BTreeMap<_, _> = status.iter().map(|row| (&*row[0], &*row[1])).collect();
    let lost: u64 = status["Performance_schema_stage_classes_lost"].parse().unwrap();
    assert!(lost > 0, "{status:?}");
    assert_eq!(status["Performance_schema_file_classes_lost"], "0");
    let stages = client.number("SELECT count(*) FROM setup_instruments WHERE name LIKE 'stage/%'");
    assert_eq!(stages, 3);

    let off = "SELECT count(*) FROM setup_instruments WHERE name LIKE 'wait/io/%' AND enabled = 'NO' AND timed = 'NO'";
    let all = "SELECT count(*) FROM setup_instruments WHERE name LIKE 'wait/io/%'";
    assert_eq!(client.number(off), client.number(all));
    // A limit of answers is none of changes.
    client.assert_done("SET sql_select_limit = 1");
    client.assert_done(
        "UPDATE setup_instruments SET ENABLED='YES', TIMED='YES' WHERE NAME LIKE 'wait/io/%'",
    );
    client.assert_done("SET sql_select_limit = DEFAULT");
    let swapped = "UPDATE setup_instruments SET TIMED = ?, ENABLED = ? WHERE NAME = ?";
    let (swapped, ..) = client.prepare(swapped).unwrap();
    let one = "wait/synch/cond/sql/permit";
    let done = client.execute(swapped, &[Some("NO"), Some("YES"), Some(one)]);
    assert!(matches!(done, Outcome::Done { .. }), "{done:?}");
    let one = format!("SELECT enabled, timed FROM setup_instruments WHERE name = '{one}'");
    assert_eq!(client.table(&one), [["YES", "NO"]]);
    assert_eq!(client.number(off), 0);
    let waits = "SELECT COUNT_STAR FROM events_waits_summary_global_by_event_name WHERE EVENT_NAME = 'wait/io/socket/udp/receive'";
    // The wait that ran when they were switched on is not counted.
    await_condition("waits for packets are counted", || {
        send(&program.site, 1);
        match client.number(waits) {
            0 => Err("none"),
            _ => Ok(()),
        }
    });

    let sums = "SELECT EVENT_NAME, COUNT_STAR, SUM_TIMER_WAIT/1e12 FROM events_stages_summary_global_by_event_name ORDER BY 3 DESC";
    let sums = client.table(sums);
    assert_eq!(sums.len(), 3, "one row for each, whatever it counted");
    let decoded = sums.iter().find(|row| row[0] == "stage/receive/decode batch").unwrap();
    assert!(decoded[1].parse::<u64>().unwrap() > 0, "{sums:?}");
    let seconds: Vec<f64> = sums.iter().map(|row| row[2].parse().unwrap()).collect();
    assert!(seconds.is_sorted_by(|a, b| a >= b), "{sums:?}");
}

#[test]
fn instruments_and_consumers_are_switched_events_and_sums_truncated() {
    let program =
        Program::serve(&[MYSQL, "instruments.enabled=['stage/%=counted', 'statement/%']"]);
    let mut client = schema(&program);
    send(&program.site, 50);
    let decode = "EVENT_NAME = 'stage/receive/decode batch'";
    let counted = format!(
        "SELECT COUNT_STAR > 0, SUM_TIMER_WAIT, AVG_TIMER_WAIT FROM events_stages_summary_global_by_event_name WHERE {decode}"
    );
    assert_eq!(client.table(&counted), [["1", "0", "0"]]);
    let untimed = format!(
        "SELECT DISTINCT TIMER_START, TIMER_END, TIMER_WAIT FROM events_stages_history WHERE {decode}"
    );
    assert_eq!(client.table(&untimed), [["NULL", "NULL", "NULL"]]);
    // Timed from now on: the mean is that of those that are.
    client.assert_done("UPDATE performance_schema.setup_instruments SET timed = 'yes' WHERE name = 'stage/receive/decode batch'",
    );
    send(&program.site, 50);
    let mean = format!(
        "SELECT SUM_TIMER_WAIT > 0, AVG_TIMER_WAIT >= MIN_TIMER_WAIT, AVG_TIMER_WAIT <= MAX_TIMER_WAIT
         FROM events_stages_summary_global_by_event_name WHERE {decode}"
    );
    assert_eq!(client.table(&mean), [["1", "1", "1"]]);
    // Off: nothing is added, and zeroes stay.
    client.assert_done("UPDATE setup_instruments SET enabled = 'NO' WHERE name LIKE 'stage/%'");
    let counted = || {
        let metrics = program.site.get("/metrics").body;
        let decode = "pinbad_instrument_events_total{instrument=\"stage/receive/decode batch\"}";
        metrics.lines().find(|it| it.starts_with(decode)).map(str::to_owned)
    };
    let before = counted();
    assert!(before.is_some());
    client.assert_done("TRUNCATE TABLE events_stages_summary_global_by_event_name");
    assert_eq!(counted(), before, "counters of metrics go on");
    client.assert_done("TRUNCATE events_stages_history_long");
    send(&program.site, 50);
    let zero = "SELECT count(*) > 5, sum(COUNT_STAR), sum(MAX_TIMER_WAIT) FROM events_stages_summary_global_by_event_name";
    assert_eq!(client.table(zero), [["1", "0", "0"]]);
    assert_eq!(client.number("SELECT count(*) FROM events_stages_history_long"), 0);
    assert!(client.number("SELECT count(*) FROM events_stages_history") > 0);
    // A consumer governs those below.
    client.assert_done("TRUNCATE events_statements_history_long");
    client.assert_done(
        "UPDATE setup_consumers SET enabled = 'NO' WHERE name = 'events_statements_current'",
    );
    client.table("SELECT 'unseen'");
    client.assert_done("UPDATE setup_consumers SET enabled = 'YES'");
    client.table("SELECT 'seen'");
    let texts = client.table("SELECT SQL_TEXT FROM events_statements_history_long");
    assert!(texts.contains(&vec!["SELECT 'seen'".to_owned()]), "{texts:?}");
    assert!(!texts.contains(&vec!["SELECT 'unseen'".to_owned()]), "{texts:?}");
    for (statement, code) in [
        ("UPDATE setup_instruments SET name = 'x'", 1683),
        ("UPDATE setup_instruments SET enabled = 'MAYBE'", 1265),
        ("UPDATE setup_instruments SET colour = 'YES'", 1054),
        ("UPDATE events_waits_current SET event_id = 1", 1290),
        ("TRUNCATE setup_instruments", 1683),
        ("TRUNCATE performance_timers", 1683),
        ("DELETE FROM events_waits_history", 1290),
        ("UPDATE pinba.setup_instruments SET enabled = 'YES'", 1290),
    ] {
        assert_eq!(client.refused(statement).0, code, "{statement}");
    }
}

#[test]
fn statements_have_texts_digests_errors_and_rows() {
    let program = Program::serve(&[MYSQL]);
    let mut client = schema(&program);
    client.table("SELECT 1 UNION ALL SELECT 2");
    client.refused("SELECT nothing FROM nowhere");
    let last = "SELECT EVENT_NAME, SQL_TEXT, DIGEST_TEXT, CURRENT_SCHEMA, MYSQL_ERRNO, ERRORS, ROWS_SENT, TIMER_WAIT > 0,
        length(DIGEST) FROM events_statements_history WHERE SQL_TEXT LIKE 'SELECT 1%' OR SQL_TEXT LIKE 'SELECT nothing%'
        ORDER BY EVENT_ID";
    let [fine, failed] = &client.table(last)[..] else {
        panic!("two statements");
    };
    let wanted = [
        "statement/sql/select",
        "SELECT 1 UNION ALL SELECT 2",
        "SELECT ? UNION ALL SELECT ?",
        "performance_schema",
        "0",
        "0",
        "2",
        "1",
        "32",
    ];
    assert_eq!(*fine, wanted);
    assert_eq!([&*failed[4], &*failed[5], &*failed[6]], ["1146", "1", "0"]);
    let digest = "SELECT COUNT_STAR, SUM_ROWS_SENT, FIRST_SEEN <= LAST_SEEN FROM events_statements_summary_by_digest
        WHERE DIGEST_TEXT = 'SELECT ? UNION ALL SELECT ?'";
    client.table("SELECT 3 UNION ALL SELECT 4");
    assert_eq!(client.table(digest), [["2", "4", "1"]]);
    // The statement that asks is one that goes on; its connection is a thread.
    let own = "SELECT t.PROCESSLIST_COMMAND, t.TYPE, t.NAME, e.END_EVENT_ID FROM threads t
        JOIN events_statements_current e ON e.THREAD_ID = t.THREAD_ID
        WHERE e.SQL_TEXT LIKE 'SELECT t.PROCESSLIST_COMMAND%' AND t.PROCESSLIST_ID = connection_id()";
    let wanted = ["Query", "FOREGROUND", "thread/pinbad/mysql/connection", "NULL"];
    assert_eq!(client.table(own), [wanted]);
    // HTTP's routes are statements too, and what they run is within them.
    let over_http = program.site.get("/api/v1/sql?query=SELECT%20'over%20http'");
    assert_eq!(over_http.status, 200);
    let nested = "SELECT o.EVENT_NAME, i.NESTING_EVENT_TYPE FROM events_statements_history i
        JOIN events_statements_history o ON o.THREAD_ID = i.THREAD_ID AND o.EVENT_ID = i.NESTING_EVENT_ID
        WHERE i.SQL_TEXT = 'SELECT ''over http'''";
    let wanted = ["statement/http/api/v1/sql", "STATEMENT"];
    await_until("the answer has been sent", || client.table(nested), |found| *found == [wanted]);
}

/// In one statement both are of one moment, whatever happens and is switched meanwhile.
#[test]
fn sums_of_threads_are_the_global_ones_under_load() {
    let program = Program::serve(&[MYSQL, "ingest.receivers=2"]);
    let mut client = schema(&program);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut sender = Sender::new(&program.site);
            while !stop.load(Ordering::Relaxed) {
                sender.send(&request("h", "s", "/x").encode_to_vec());
            }
        });
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                program.site.get("/api/v1/info");
            }
        });
        let mut dice = 1_u64;
        for _ in 0..20 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            let yes = |bit: u32| {
                if dice >> (40 + bit) & 1 == 1 { "YES" } else { "NO" }
            };
            let what = ["wait/%", "stage/%", "statement/%", "%"][(dice >> 60) as usize % 4];
            let switch = format!(
                "UPDATE setup_instruments SET ENABLED = '{}', TIMED = '{}' WHERE NAME LIKE '{what}'",
                yes(0),
                yes(1)
            );
            client.assert_done(&switch);
            for kind in ["waits", "stages", "statements"] {
                let sums = "sum(COUNT_STAR), sum(SUM_TIMER_WAIT), max(MAX_TIMER_WAIT)";
                let both = format!(
                    "SELECT {sums} FROM events_{kind}_summary_global_by_event_name
                     UNION ALL SELECT {sums} FROM events_{kind}_summary_by_thread_by_event_name"
                );
                let both = client.table(&both);
                assert_eq!(both[0][0], both[1][0], "{kind}");
                assert_eq!(both[0][2], both[1][2], "{kind}");
                // Each sum is cut to whole picoseconds by itself.
                let [all, apart] = [0, 1].map(|row: usize| both[row][1].parse::<u64>().unwrap());
                assert!(all.abs_diff(apart) < 100_000, "{kind}: {all} {apart}");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// Somebody holds the lock that the merger needs: one query says so, though everybody else who
/// needs it waits as well.
#[test]
fn a_merger_that_stands_still_is_found() {
    let here = Here::start(&[MYSQL]);
    let mut client = Client::connect(here.site.mysql.unwrap());
    let stuck = "SELECT count(*) FROM performance_schema.events_waits_current e JOIN performance_schema.threads t
        ON t.THREAD_ID = e.THREAD_ID WHERE e.END_EVENT_ID IS NULL AND e.TIMER_WAIT > 1000000000
        AND e.EVENT_NAME = 'wait/synch/rwlock/live/write' AND t.NAME = 'thread/pinbad/merge'";
    await_condition("the merger is seen to wait", || {
        // Again each time: other daemons of this process switch instruments when they start.
        let on = "UPDATE performance_schema.setup_instruments SET ENABLED = 'YES', TIMED = 'YES'";
        client.assert_done(on);
        let held = here.catalog().live.read();
        let found = (0..100).any(|_| client.number(stuck) > 0);
        drop(held);
        if found { Ok(()) } else { Err("it does not wait") }
    });
}

/// The program where functions of the C library are others.
fn on_another_machine(dir: &std::path::Path, functions: &str) -> std::process::Command {
    let (source, library) = (dir.join("other.c"), dir.join("other.so"));
    let headers = ["fcntl.h", "stdarg.h", "string.h", "sys/syscall.h", "time.h", "unistd.h"];
    let headers = headers.map(|it| format!("#include <{it}>\n")).concat();
    std::fs::write(&source, format!("#define _GNU_SOURCE\n{headers}{functions}\n")).unwrap();
    let mut compile = std::process::Command::new("cc");
    compile.args(["-shared", "-fPIC", "-o"]).args([&library, &source]);
    let compiled = run(&mut compile);
    assert_eq!(compiled.code, Some(0), "{compiled:?}");
    let mut command = pinbad();
    command.env("LD_PRELOAD", &library);
    command
}

/// A processor that says nothing of its counter, and a clock of microseconds: others are used, and
/// the log says so.
#[test]
fn a_machine_without_timers_is_timed_with_others() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"
        int open64(const char *path, int flags, ...) {
            va_list more;
            va_start(more, flags);
            path = strcmp(path, "/proc/cpuinfo") ? path : "/dev/null";
            return syscall(SYS_openat, AT_FDCWD, path, flags, va_arg(more, int));
        }
        int clock_gettime(clockid_t clock, struct timespec *time) {
            int done = syscall(SYS_clock_gettime, clock, time);
            time->tv_nsec -= time->tv_nsec % 1000;
            return done;
        }"#;
    let command = on_another_machine(dir.path(), text);
    let program = Program::start_as(command, &["serve"], &[MYSQL]);
    let warned = |what: &str| {
        let is_warning = |line: &serde_json::Value| line.to_string().contains(what);
        program.log().iter().any(is_warning)
    };
    assert!(warned("waits are timed with MICROSECOND"));
    assert!(warned("stages and statements are timed in microseconds"));
    let mut client = schema(&program);
    let timers = "SELECT * FROM performance_timers WHERE TIMER_NAME = 'CYCLE'";
    assert_eq!(client.table(timers), [["CYCLE", "NULL", "NULL", "NULL"]]);
    let times = "SELECT count(*), sum(TIMER_WAIT % 1000000) FROM events_statements_history";
    assert_eq!(client.table(times)[0][1], "0", "whole microseconds");
}

/// A disk that takes three seconds to sync.
#[test]
fn a_disk_that_stands_still_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let text = "int fsync(int fd) { sleep(3); return syscall(SYS_fsync, fd); }";
    let command = on_another_machine(dir.path(), text);
    let state = format!("state.dir={}", dir.path().join("state").display());
    let settings = [MYSQL, &state, "state.snapshot_period=1s", "instruments.enabled=['wait/%']"];
    let program = Program::start_as(command, &["serve"], &settings);
    let mut client = schema(&program);
    let stuck = "SELECT EVENT_NAME, OPERATION FROM events_waits_current
        WHERE END_EVENT_ID IS NULL AND TIMER_WAIT > 1000000000 AND EVENT_NAME LIKE 'wait/io/file/%'";
    await_condition("the snapshot is seen to wait for the disk", || {
        let found = client.table(stuck);
        let wanted = ["wait/io/file/state/sync", "sync"];
        if found == [wanted] { Ok(()) } else { Err(found) }
    });
}

/// A client that does not take its answer.
#[test]
fn a_reader_that_stands_still_is_found() {
    let program = Program::serve(&[MYSQL]);
    send(&program.site, 2_000);
    let mut client = schema(&program);
    let mut reader = std::net::TcpStream::connect(program.site.http).unwrap();
    let target =
        "/api/v1/sql?query=SELECT+a.script_name,b.script_name+FROM+request+a+JOIN+request+b";
    write!(reader, "GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let stuck = "SELECT EVENT_NAME FROM events_statements_current
        WHERE END_EVENT_ID IS NULL AND TIMER_WAIT > 1000000000000 ORDER BY EVENT_ID";
    let wanted = [["statement/http/api/v1/sql"], ["statement/sql/select"]];
    await_until(
        "the answer is seen to wait for its reader",
        || client.table(stuck),
        |found| *found == wanted,
    );
    drop(reader);
    await_until("it has ended", || client.table(stuck), |found| found.is_empty());
}

/// The instruments on the page, in `/metrics` and in `pinbad doctor`.
#[test]
fn page_metrics_and_doctor_show_where_the_time_goes() {
    let program = Program::serve(&[MYSQL]);
    send(&program.site, 100);
    let page = program.site.get("/daemon/inside").body;
    for wanted in ["Stages and waits", "stage/merge/merge block", "Slowest statements"] {
        assert!(page.contains(wanted), "{wanted} in {page}");
    }
    // Pools of memory are those of the memory plan.
    let pools = "SELECT EVENT_NAME FROM performance_schema.memory_summary_global_by_event_name";
    let pools = Client::connect(program.site.mysql.unwrap()).rows(pools);
    assert!(pools.len() > 5, "{pools:?}");
    for pool in pools.iter().flatten().flatten() {
        let name = pool.strip_prefix("memory/pinbad/").unwrap();
        assert!(page.contains(&format!(">{name}<")), "{name} in {page}");
    }
    let metrics = program.site.get("/metrics").body;
    for wanted in [
        "pinbad_instrument_events_total{instrument=\"stage/receive/decode batch\"}",
        "pinbad_instrument_time_seconds_total{instrument=\"stage/merge/merge block\"}",
    ] {
        assert!(metrics.contains(wanted), "{wanted} in {metrics}");
    }
    let url = format!("http://{}", program.site.http);
    let mut doctor = pinbad();
    doctor.args(["doctor", "--running", &url]);
    let said = run(&mut doctor);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_has!(said.out => "bottleneck", "stage/");
    // Without a URL it is the daemon of the configuration that is asked, and no other.
    let http = program.site.http.to_string();
    for what in ["--running", "--ready"] {
        let own = run(pinbad().args(["doctor", what, "--http", &http]));
        assert!(own.out.starts_with(&format!("{url}: ")), "{own:?}");
        assert_eq!(own.code, Some(0), "{own:?}");
        let other = run(pinbad().args(["doctor", what, "--http", "127.0.0.1:1"]));
        assert_eq!(other.code, Some(1), "{other:?}");
        assert!(other.err.contains("http://127.0.0.1:1: "), "{other:?}");
    }
    // Beside the daemon the machine is examined all the same.
    let mysql = program.site.mysql.unwrap().to_string();
    let udp = program.site.udp[0].to_string();
    let addresses = ["--http", &http, "--mysql", &mysql, "--udp", &udp];
    let log = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let squid = format!("squid=[{{listen='tcp://{}'}}]", log.local_addr().unwrap());
    let beside = run(pinbad().arg("doctor").args(addresses).args(["--set", &squid]));
    assert_eq!(beside.out.matches("pinbad serves at").count(), 4, "{beside:?}");
    assert_has!(beside.out => format!("daemon            {url} is ready"), "--ready and --running");
    let nobody = run(pinbad().args(["doctor", "--running", "http://127.0.0.1:1"]));
    assert_eq!(nobody.code, Some(1), "{nobody:?}");
}

/// Names, types and order of all columns.
#[test]
fn columns_are_those_of_mariadb() {
    let mariadb = MariaDb::start(&["--performance-schema=ON"]);
    mariadb.sql("CREATE DATABASE IF NOT EXISTS performance_schema");
    let program = Program::serve(&[MYSQL]);
    let mut client = schema(&program);
    let columns =
        "SELECT TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE FROM information_schema.COLUMNS
        WHERE TABLE_SCHEMA = 'performance_schema' ORDER BY TABLE_NAME, ORDINAL_POSITION";
    let theirs = mariadb.sql(columns);
    let theirs: Vec<Vec<&str>> = theirs.lines().map(|line| line.split('\t').collect()).collect();
    let ours = client.table(columns);
    let tables = client.table("SHOW TABLES");
    assert_eq!(tables.len(), 26);
    for table in tables {
        let of = |row: &[&str]| row[0] == table[0];
        let theirs: Vec<String> =
            theirs.iter().filter(|row| of(row)).map(|row| row.join(" ")).collect();
        // MariaDB has a timer more in that place, and not that one.
        let theirs = theirs.into_iter().map(|row| row.replace("'TICK'", "'THREAD_CPU'"));
        let theirs: Vec<String> = theirs.collect();
        let ours = ours.iter().filter(|row| row[0] == table[0]);
        let ours: Vec<String> = ours.map(|row| row.join(" ")).collect();
        assert_eq!(ours, theirs);
    }
}
