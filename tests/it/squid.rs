//! Squid's logs: lines over UDP, over TCP and from a file, those of real captures and those of a
//! real Squid.
//!
//! The latter needs `squid` (Debian: the package of that name), which `tests/run.sh` installs where
//! it may. Where it may not, it skips that test and says so at its end; whoever runs it without
//! Squid sees it fail.

mod real;
mod recount;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value as Json;
use socket2::{Domain, Socket, Type};

use crate::harness::{
    Here, Program, Running, Site, Status, await_condition, await_until, free_address, pinbad, run,
};
use crate::packets::corpus_file;

fn corpus(name: &str) -> Vec<u8> {
    corpus_file(&format!("squid/{name}"))
}

/// The lines of a capture, each with its end.
fn lines_of(name: &str) -> Vec<Vec<u8>> {
    let bytes = corpus(name);
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    lines.map(<[u8]>::to_vec).collect()
}

/// The status of source `at`.
fn source(site: &Site, at: usize) -> Status {
    Status(site.status().0["squids"][at].clone())
}

/// Where source `at` listens.
fn address(site: &Site, at: usize) -> SocketAddr {
    let from = source(site, at).0["from"].as_str().unwrap().to_owned();
    from.split_once("://").unwrap().1.parse().unwrap()
}

/// The status of source `at` once it has received so many lines and nothing is under way: each line
/// is counted as what it is, and what became a request is merged.
#[track_caller]
fn received(site: &Site, at: usize, lines: u64) -> Status {
    await_condition("all lines have come", || {
        let status = site.status();
        let sources = status.0["squids"].as_array().unwrap();
        let taken = |source: &Json| source["requests"].as_u64().unwrap();
        let source = Status(sources[at].clone());
        let known = ["requests", "swaps", "lines_repeated", "lines_invalid"];
        let known: u64 = known.iter().map(|name| source.count(name)).sum();
        let decoded = status.count("requests_decoded");
        let is_merged = decoded >= sources.iter().map(taken).sum()
            && decoded == status.count("requests_merged") + status.count("requests_overwritten");
        match is_merged && known == lines && source.count("lines_received") == lines {
            true => Ok(source),
            false => Err(Box::new((source, status))),
        }
    })
}

/// The raw requests of a host, newest last.
fn requests(site: &Site, hostname: &str) -> Vec<Json> {
    let answer = site.json(&format!("/api/v1/requests?limit=5000&hostname={hostname}"));
    let mut rows = answer["rows"].as_array().unwrap().clone();
    rows.reverse();
    rows
}

const EVERY_WAY: &str = "squid=[{listen='udp://127.0.0.1:0',name='by-udp'},{listen='tcp://127.0.0.1:0',name='by-tcp'},\
                         {path='PATH',name='by-file',client=true}]";

/// Rows of a statement, as text.
fn sql(site: &Site, query: &str) -> Vec<String> {
    let rows = site.sql(query);
    let rows = rows.as_array().unwrap().iter();
    rows.map(Json::to_string).collect()
}

#[test]
fn its_reports_can_be_chosen_by_name() {
    let here = Here::start(&[
        "squid=[{listen='udp://127.0.0.1:0'}]",
        r#"metrics.reports=["squid_codes"]"#,
        r#"history.reports=["squid_codes"]"#,
    ]);
    let site = &here.site;
    let line =
        "1700000000.123 100 10.0.0.1 TCP_MISS/200 500 GET http://a/b - DIRECT/1.2.3.4 text/html\n";
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.send_to(line.as_bytes(), address(site, 0)).unwrap();
    received(site, 0, 1);
    await_until(
        "its rows are exported",
        || site.get("/metrics").body,
        |body| body.contains("report=\"squid_codes\""),
    );
    here.stop();
}

const SAMPLE: [&str; 7] = [
    r#"["client_in","done",0,0.05532,0.05532,null]"#,
    r#"["client_out","done",0.072028,0.001395,0.038993,null]"#,
    r#"["server_out","done",0.057173,0.003795,0.004674,null]"#,
    r#"["server_in","done",0.061847,0.010181,0.02672,null]"#,
    r#"["disk_in","unknown",null,null,null,null]"#,
    r#"["disk_out","unfinished",0.088567,null,null,null]"#,
    r#"["dns","unknown",null,null,null,null]"#,
];

/// Asserts that the table holds the sample, and that the answers about a single request show it.
fn assert_sample(site: &Site) {
    let code = "TCP_CLIENT_REFRESH";
    let of_code = |what: &str| {
        format!(
            "SELECT {what} FROM squid_activity a JOIN request_tag t ON t.request_id = a.request_id \
             WHERE t.name = 'code' AND t.value = '{code}'"
        )
    };
    let columns = "activity, state, start, first_delay, total, resident";
    let (mut rows, mut sample) = (sql(site, &of_code(columns)), SAMPLE.map(str::to_owned));
    rows.sort();
    sample.sort();
    assert_eq!(rows, sample);
    let row = &requests(site, "proxy")[0];
    let detail = site.json(&format!("/api/v1/requests/{}", row["id"]));
    assert_eq!(detail["tags"]["code"], code);
    let shown = detail["activities"].as_array().unwrap().iter().map(|it| {
        let values = columns.split(", ").map(|name| it[name].clone());
        let text = values.collect::<Json>().to_string();
        text.replace(",0.0,", ",0,")
    });
    assert_eq!(shown.collect::<Vec<_>>(), SAMPLE);
    let page = site.get(&format!("/requests/{}", row["id"])).body;
    assert_has!(page => "own clock", "disk_out");
}

/// Swaps, and the page.
fn assert_page(site: &Site) {
    assert_eq!(
        sql(site, "SELECT * FROM squid_swap ORDER BY action"),
        [
            r#"["RELEASE","0-1 KiB","text/html",1,53,0,null,null]"#,
            r#"["SWAPIN","1-4 KiB","text/html",1,1718,1,0.017709,0.017709]"#,
            r#"["SWAPOUT","1-4 KiB","image/gif",1,2186,1,0.01324,0.01324]"#,
        ]
    );
    let page = site.get("/squid").body;
    assert_has!(page => "client+server", "client or proxy", "Bottlenecks by result code");
    assert_has!(page => "SWAPOUT", "disk_out", "38.0 s");
    assert!(!page.contains("does not exist"), "{page}");
    assert_eq!(site.delete("/api/v1/reports/squid_savings").status, 200);
    await_condition("the page says that it is gone", || {
        let page = site.get("/squid").body;
        let is_gone = page.contains("<code>squid_savings</code> does not exist");
        is_gone.then_some(()).ok_or(page)
    });
}

/// A port that stays the same over restarts, and a source there.
fn tcp_port() -> (u16, String) {
    let port = free_address("127.0.0.1").port();
    let setting = format!("squid=[{{listen='tcp://127.0.0.1:{port}',name='proxy'}}]");
    (port, setting)
}

#[test]
fn activities_are_in_a_table_of_their_own_and_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let state = format!("state.dir={}", folder.path().display());
    let (_, setting) = tcp_port();
    let here = Here::start(&[&setting, &state]);
    let mut squid = TcpStream::connect(address(&here.site, 0)).unwrap();
    squid.write_all(&corpus("patch-access.log")).unwrap();
    squid.write_all(&corpus("udp.log")).unwrap();
    squid.write_all(&corpus("patch-store.log")).unwrap();
    received(&here.site, 0, 2 + 613 + 3);
    assert_page(&here.site);
    let shown = |site: &Site| {
        let counts = sql(
            site,
            "SELECT state, count(*), count(start), count(total), sum(resident) FROM squid_activity GROUP BY state ORDER BY state",
        );
        let last = "SELECT request_id, activity FROM squid_activity ORDER BY request_id DESC, activity LIMIT 2";
        (counts, sql(site, last))
    };
    assert_sample(&here.site);
    let udp = String::from_utf8(corpus("udp.log")).unwrap();
    let known = |name: &str| {
        let lines = udp.lines().flat_map(|line| line.split(' '));
        lines.filter(|it| it.starts_with(name) && !it.ends_with("=-")).count()
    };
    // Of the patch's two lines seven are done, of which one is for an earlier request. What a
    // server was sent is known where its answer is.
    let done = 7 + known("dt=") + 2 * known("pt=");
    let before = shown(&here.site);
    assert_eq!(
        before.0,
        [
            format!(r#"["done",{done},6,{done},38.024]"#),
            r#"["unfinished",1,1,0,null]"#.to_owned(),
            format!(r#"["unknown",{},0,0,null]"#, 615 * 7 - done - 1),
        ]
    );
    assert!(sql(&here.site, "SHOW TABLES").contains(&r#"["squid_activity"]"#.to_owned()));
    here.stop();
    let here = Here::start(&[&setting, &state]);
    assert_eq!(shown(&here.site), before);
    assert_sample(&here.site);
    let id = &requests(&here.site, "proxy")[1]["id"];
    let resident = format!(
        "SELECT start, resident, total FROM squid_activity WHERE request_id = {id} AND resident IS NOT NULL"
    );
    assert_eq!(sql(&here.site, &resident), ["[null,38.024,0.016356]"]);
    here.stop();
    // Nobody else has the table.
    let here = Here::start(&[]);
    assert!(!sql(&here.site, "SHOW TABLES").contains(&r#"["squid_activity"]"#.to_owned()));
    here.stop();
}

#[test]
fn a_file_is_followed_through_rotation_and_restart() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let path = folder.path().join("access.log");
    let setting = format!("squid=[{{path='{}'}}]", path.display());
    let state = format!("state.dir={}", state.display());
    let lines = lines_of("access.log");
    let append = |path: &Path, range: std::ops::Range<usize>| {
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(&lines[range].concat()).unwrap();
    };
    let here = Here::start(&[&setting, &state]);
    append(&path, 0..10);
    // Half a line waits for the other half.
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(&lines[10][..20]).unwrap();
    received(&here.site, 0, 10);
    file.write_all(&lines[10][20..]).unwrap();
    received(&here.site, 0, 11);
    // Moved away: what its writer still writes is read before the next one.
    let moved = folder.path().join("access.log.1");
    fs::rename(&path, &moved).unwrap();
    append(&moved, 11..15);
    received(&here.site, 0, 15);
    append(&path, 15..20);
    received(&here.site, 0, 20);
    // Cut to nothing, as `copytruncate` does.
    fs::write(&path, lines[20..22].concat()).unwrap();
    received(&here.site, 0, 22);
    here.stop();
    // While nobody looks it grows, is moved away, and another one begins.
    append(&path, 22..25);
    fs::rename(&path, folder.path().join("access.log.0")).unwrap();
    append(&path, 25..30);
    let here = Here::start(&[&setting, &state]);
    let source = received(&here.site, 0, 30);
    assert_eq!(source.count("lines_invalid"), 0);
    assert_eq!(source.count("requests"), 30);
    let mut times: Vec<u64> = Vec::new();
    for row in requests(&here.site, "0.0.0.0") {
        times.push((row["req_time"].as_f64().unwrap() * 1000.0).round() as u64);
    }
    let said = lines[..30].iter().map(|line| {
        let text = String::from_utf8_lossy(line).into_owned();
        let elapsed = text.split_whitespace().nth(1).unwrap();
        elapsed.parse::<u64>().unwrap()
    });
    assert_eq!(times, said.collect::<Vec<_>>());
    here.stop();
}

/// What came later in a log that is not there any more is missing, and that is said.
#[test]
fn a_log_that_went_while_nobody_looked_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("access.log");
    let lines = lines_of("access.log");
    fs::write(&log, lines[..3].concat()).unwrap();
    let squid = format!("squid=[{{path='{}'}}]", log.display());
    let state = format!("state.dir={}", dir.path().join("state").display());
    let settings = [&*squid, &state];
    let mut program = Program::serve(&settings);
    received(&program.site, 0, 3);
    program.signal("TERM");
    assert_eq!(program.wait().0.code(), Some(0));
    fs::remove_file(&log).unwrap();
    fs::write(&log, &lines[3]).unwrap();
    let program = Program::serve(&settings);
    received(&program.site, 0, 4);
    let is_it = |line: &&Json| {
        let said = line["message"].as_str().unwrap_or_default();
        said.starts_with("The log of Squid's that was read up to this byte")
    };
    let log = program.log();
    let said = log.iter().find(is_it).unwrap();
    assert_eq!(said["level"], "WARN", "{said}");
    assert_eq!(said["offset"], lines[..3].concat().len(), "{said}");
}

#[test]
fn connections_break_repeat_and_never_end() {
    let folder = tempfile::tempdir().unwrap();
    let state = format!("state.dir={}", folder.path().display());
    let (port, setting) = tcp_port();
    let here = Here::start(&[&setting, &state]);
    let lines = lines_of("udp.log");
    let connect = |site: &Site| TcpStream::connect(address(site, 0)).unwrap();
    let mut squid = connect(&here.site);
    squid.write_all(&lines[..20].concat()).unwrap();
    squid.write_all(&lines[20][..30]).unwrap();
    received(&here.site, 0, 20);
    drop(squid);
    // It sends again what it does not know to have come.
    let mut squid = connect(&here.site);
    squid.write_all(&lines[18..25].concat()).unwrap();
    let source = received(&here.site, 0, 27);
    assert_eq!((source.count("lines_repeated"), source.count("requests")), (2, 25));
    assert_eq!(source.count("lines_lost"), 0);
    // Others: garbage, a line without end, nothing at all.
    let mut strangers: Vec<TcpStream> = (0..5).map(|_| connect(&here.site)).collect();
    strangers[0].write_all(b"\x16\x03\x01 hello <script>\x07\n").unwrap();
    let long = vec![b'x'; 1 << 20];
    strangers[1].write_all(&long).unwrap();
    strangers[1].write_all(b"\n").unwrap();
    strangers[2].write_all(&long[..5]).unwrap();
    let source = received(&here.site, 0, 29);
    let reasons = &source.0["lines_invalid_by_reason"];
    assert_eq!((&reasons["unknown_format"], &reasons["too_long"]), (&1.into(), &1.into()));
    assert!(source.0["last_invalid"]["line"].as_str().unwrap().len() < 1000);
    squid.write_all(&lines[25..27].concat()).unwrap();
    received(&here.site, 0, 31);
    let prometheus = here.site.get("/metrics").body;
    let metric = format!(
        "pinbad_squid_lines_received_total{{squid=\"0\",from=\"tcp://127.0.0.1:{port}\"}} 31"
    );
    assert!(prometheus.contains(&metric), "{prometheus}");
    here.stop();
    drop((squid, strangers));
    // What Squid could not send meanwhile is known to be missing; what comes again is not counted
    // again.
    let here = Here::start(&[&setting, &state]);
    let mut squid = connect(&here.site);
    squid.write_all(&lines[30..33].concat()).unwrap();
    squid.write_all(&lines[31]).unwrap();
    let source = received(&here.site, 0, 31 + 4);
    assert_eq!(source.count("lines_lost"), 3, "{source:?}");
    assert_eq!((source.count("lines_repeated"), source.count("requests")), (3, 30));
    here.stop();
}

/// Writes numbered lines to a file, and behind each `more`, the last of them at times in pieces,
/// until it is over; then how many.
fn write_lines(path: &Path, more: &str, is_over: &AtomicBool) -> u64 {
    let mut number = 0_u64;
    let file = OpenOptions::new().create(true).append(true).open(path);
    let mut file = file.unwrap();
    while !is_over.load(Ordering::SeqCst) {
        let mut lines = String::new();
        for _ in 0..1 + number % 37 {
            let start = 1_700_000_000 + number;
            lines += &format!(
                "sq1 start={start}.000 end={start}.004 tr=4 ss=TCP_MISS hs=200 rm=GET out=10 sn={number} \
                 url=http://origin.example/p/{number}\n{more}"
            );
            number += 1;
        }
        // A line may come in pieces.
        let (first, second) = lines.as_bytes().split_at(lines.len() / 3);
        for piece in [first, second] {
            file.write_all(piece).unwrap();
            std::thread::sleep(Duration::from_millis(3));
        }
    }
    number
}

/// An object that moved from the disk.
const SWAP: &str =
    "873497970.671 SWAPIN 200 873217707 872109850 -2 text/html 1718/1718 GET http://www.com/ 1/2\n";

/// Follows a file that grows in a daemon that is killed again and again; the last one, and how many
/// lines there are.
fn follow_through_kills(log: &Path, more: &str, settings: &[&str], kills: u64) -> (Program, u64) {
    let is_over = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writing = scope.spawn(|| write_lines(log, more, &is_over));
        for kill in 0..kills {
            let mut daemon = Program::serve(settings);
            std::thread::sleep(Duration::from_millis(900 + kill * 370));
            daemon.signal("KILL");
            daemon.wait();
        }
        is_over.store(true, Ordering::SeqCst);
        writing.join().unwrap()
    });
    (Program::serve(settings), written)
}

#[test]
fn a_followed_file_is_read_once_through_kills() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("access.log");
    let squid = format!("squid=[{{path='{}',name='proxy'}}]", log.display());
    let state = format!("state.dir={}", dir.path().join("state").display());
    let settings = [&*squid, &state, "state.snapshot_period=1s"];
    let (daemon, written) = follow_through_kills(&log, "", &settings, 5);
    let requests = || {
        let rows = daemon.site.rows("squid_codes");
        rows.first().map_or(0, |row| row["req_count"].as_u64().unwrap())
    };
    await_condition("all is read", || match requests() {
        count if count >= written => Ok(()),
        count => Err((count, written)),
    });
    assert_eq!(requests(), written);
    let all = daemon.site.json("/api/v1/requests?limit=100000");
    let rows = all["rows"].as_array().unwrap();
    let paths: BTreeSet<&str> =
        rows.iter().map(|row| row["script_name"].as_str().unwrap()).collect();
    assert_eq!((paths.len(), rows.len()), (written as usize, written as usize));
    let source = source(&daemon.site, 0);
    let counted = ["lines_received", "requests", "lines_lost", "lines_repeated"];
    assert_eq!(counted.map(|name| source.count(name)), [written, written, 0, 0], "{source:?}");
}

/// The files on disk record the offset in the log up to which their requests were read.
#[test]
fn a_followed_file_is_in_history_once_through_kills() {
    for with_state in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("access.log");
        let squid = format!("squid=[{{path='{}',name='proxy'}}]", log.display());
        let history = dir.path().join("history");
        let history = format!("history.dir={}", history.display());
        let state = format!("state.dir={}", dir.path().join("state").display());
        let mut settings = vec![&*squid, &history];
        settings.push("history.requests=all");
        match with_state {
            // More than one life is over before its second flush: then the log has more.
            true => settings.extend([
                &*state,
                "state.snapshot_period=1s",
                "history.flush_period=1500ms",
            ]),
            false => settings.push("history.flush_period=1s"),
        }
        let (daemon, written) = follow_through_kills(&log, SWAP, &settings, 4);
        let requests = || {
            let info = daemon.site.json("/api/v1/info?from=0&to=4000000000");
            info["req_count"].as_u64().unwrap_or(0)
        };
        await_condition("all is in history", || match requests() {
            count if count >= written => Ok(()),
            count => Err((count, written)),
        });
        assert_eq!(requests(), written, "state: {with_state}");
        let swaps = "SELECT SUM(count), SUM(bytes) FROM history.squid_swap WHERE action = 'SWAPIN'";
        await_condition("all swaps are", || match sql(&daemon.site, swaps) {
            rows if rows == [format!("[{written},{}]", written * 1_718)] => Ok(()),
            rows => Err((rows, written)),
        });
        // Raw requests come with the same position.
        let paths = || {
            let rows = "SELECT count(*), count(DISTINCT script_name) FROM history.request";
            sql(&daemon.site, rows)
        };
        await_condition("all requests are", || match paths() {
            rows if rows == [format!("[{written},{written}]")] => Ok(()),
            rows => Err((rows, written)),
        });
    }
}

/// A stop while history cannot be written, and a daemon that runs without it for a while.
#[cfg(feature = "sql")]
#[test]
fn requests_that_history_lacks_are_in_it_once_and_live_answers_say_that_they_count_again() {
    for meanwhile in ["history.free_min=1TiB", "history.dir="] {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("access.log");
        let squid = format!("squid=[{{path='{}'}}]", log.display());
        let state = format!("state.dir={}", dir.path().join("state").display());
        let clock = std::sync::Arc::new(pinbad::clock::ManualClock::new(1_709_161_200_000));
        let history = dir.path().join("history");
        let start = |other: &str| Here::with_history(&history, &clock, &[&*squid, &state, other]);
        let add = |lines: usize| {
            let mut file = OpenOptions::new().create(true).append(true).open(&log).unwrap();
            let line = "sq1 start=1709161200.000 tr=4 ss=TCP_MISS url=http://h/\n";
            file.write_all(line.repeat(lines).as_bytes()).unwrap();
        };
        let has = |here: &Here, requests: u64| {
            await_condition("all is counted", || {
                let answer = here.site.json("/api/v1/reports/report_by_script_name");
                let counted = &answer["rows"][0]["req_count"];
                match counted.as_u64() == Some(requests) {
                    true => Ok(answer["partial"].to_string()),
                    false => Err(counted.clone()),
                }
            })
        };
        add(10);
        let here = start("history.free_min=0");
        has(&here, 10);
        here.stop();
        let here = start(meanwhile);
        add(5);
        assert_lacks!(has(&here, 15) => "more than once"; "{meanwhile}");
        drop(here);
        let here = start("history.free_min=0");
        let said = format!("5 requests of {} may be counted more than once", log.display());
        assert_has!(has(&here, 20) => said; "{meanwhile}");
        here.stop();
        let here = start("history.free_min=0");
        let in_history = here.site.json("/api/v1/info?from=0&to=4000000000");
        assert_eq!(in_history["req_count"], 15, "{meanwhile}");
        here.stop();
    }
}

/// The position on disk is in each file soon after that is begun, long before a flush is due: the one
/// before may be gone by then, and the next one may be rotated away too.
#[test]
fn a_log_is_rotated_and_the_daemon_killed_before_history_is_flushed() {
    for is_kept in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("access.log");
        let moved = |number: u32| dir.path().join(format!("access.log.{number}"));
        let squid = format!("squid=[{{path='{}'}}]", log.display());
        let history = format!("history.dir={}", dir.path().join("history").display());
        let state = format!("state.dir={}", dir.path().join("state").display());
        let settings = [&*squid, &history, &state, "history.flush_period=1h"];
        let mut written = 0;
        let mut add = |lines: u64| {
            let file = OpenOptions::new().create(true).append(true).open(&log);
            let lines = written..written + lines;
            written = lines.end;
            let lines = lines.map(|number| {
                format!("sq1 start={number}.000 tr=4 ss=TCP_MISS sn={number} url=http://h/\n")
            });
            file.unwrap().write_all(lines.collect::<String>().as_bytes()).unwrap();
            written
        };
        let rotate = || {
            if moved(1).exists() {
                fs::rename(moved(1), moved(2)).unwrap();
            }
            fs::rename(&log, moved(1)).unwrap();
        };
        // The last position in the manifest is behind the first line of this file.
        let is_known = || {
            let manifest = fs::read_to_string(dir.path().join("history/manifest"));
            let manifest = manifest.unwrap_or_default();
            let last = manifest.rsplit("\"inode\":").next().unwrap_or_default();
            let start = format!("{},\"offset\":", fs::metadata(&log).unwrap().ino());
            last.strip_prefix(&start).is_some_and(|offset| !offset.starts_with("0,"))
        };
        // All are counted once, and the position is in the file that is followed.
        let settled = |daemon: &Program, written: u64, is_begun: bool| {
            await_condition("all is counted", || {
                let info = daemon.site.json("/api/v1/info?from=0&to=4000000000");
                let found = (info["req_count"].as_u64(), is_known());
                match found {
                    (Some(count), is_known) if count >= written && (is_known || !is_begun) => {
                        Ok(())
                    }
                    _ => Err((found, written)),
                }
            });
            let info = daemon.site.json("/api/v1/info?from=0&to=4000000000");
            assert_eq!(info["req_count"], written, "kept: {is_kept}");
        };
        let mut daemon = Program::serve(&settings);
        settled(&daemon, add(10), true);
        add(2);
        rotate();
        settled(&daemon, add(5), true);
        if is_kept {
            rotate();
            settled(&daemon, add(3), true);
        } else {
            fs::remove_file(moved(1)).unwrap();
        }
        daemon.signal("KILL");
        daemon.wait();
        let daemon = Program::serve(&settings);
        for lines in [4, 4] {
            settled(&daemon, add(lines), false);
        }
    }
}

/// Whoever may send can hold all connections; neither silence nor their number keeps others out for
/// ever.
#[test]
fn connections_that_bring_nothing_keep_nobody_out() {
    let (here, clock) = Here::with_manual_clock(&["squid=[{listen='tcp://127.0.0.1:0'}]"]);
    let to = address(&here.site, 0);
    let lines = lines_of("udp.log");
    let connect = |from: [u8; 4], line: usize| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
        socket.connect(&to.into()).unwrap();
        let mut stream = TcpStream::from(socket);
        // One that is refused may be closed already.
        let _closed = stream.write_all(&lines[line]);
        stream
    };
    let (here_again, elsewhere) = ([127, 0, 0, 1], [127, 0, 0, 2]);
    let mut open: Vec<TcpStream> = (0..64).map(|at| connect(here_again, at)).collect();
    received(&here.site, 0, 64);
    let came = |open: &mut Vec<TcpStream>, from, line: usize, expected: [u64; 3]| {
        open.push(connect(from, line));
        await_condition("it is taken or refused", || {
            let source = source(&here.site, 0);
            let names = ["requests", "connections_refused", "connections_closed"];
            let counts = names.map(|name| source.count(name));
            (counts == expected).then_some(()).ok_or(counts)
        });
    };
    came(&mut open, here_again, 64, [64, 1, 0]);
    // An address has no more than its share while others have less.
    came(&mut open, elsewhere, 65, [65, 1, 1]);
    // What has been silent for a minute is dead, or connects again when it has something to say.
    clock.advance_ms(59_000);
    open[63].write_all(&lines[66]).unwrap();
    received(&here.site, 0, 66);
    came(&mut open, here_again, 67, [66, 2, 1]);
    clock.advance_ms(1_000);
    for at in 0..63 {
        came(&mut open, here_again, 68 + at, [67 + at as u64, 2, 2 + at as u64]);
    }
    open[63].write_all(&lines[200]).unwrap();
    received(&here.site, 0, 130);
    here.stop();
}

#[test]
fn who_may_not_send_packets_may_not_send_lines() {
    let udp = "{listen='udp://127.0.0.1:0'}";
    let tcp = "{listen='tcp://127.0.0.1:0'}";
    let squids = format!("squid=[{udp},{tcp}]");
    let here = Here::start(&[&squids, "ingest.allow=['192.0.2.0/24']"]);
    let line = &lines_of("udp.log")[0];
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(line, address(&here.site, 0)).unwrap();
    let mut connection = TcpStream::connect(address(&here.site, 1)).unwrap();
    // Closed unread.
    let _reset = connection.read_to_end(&mut Vec::new());
    await_condition("both are refused", || {
        let status = here.site.status();
        let refused = source(&here.site, 1).count("connections_refused");
        match (status.reason("datagrams_invalid", "source_not_allowed"), refused) {
            (1, 1) => Ok(()),
            other => Err(other),
        }
    });
    assert_eq!(source(&here.site, 0).count("lines_received"), 0);
    here.stop();
}

#[test]
fn a_ready_made_report_that_is_dropped_stays_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let state = format!("state.dir={}", dir.path().display());
    let settings = [&*state, "squid=[{listen='udp://127.0.0.1:0'}]"];
    for path in ["/api/v1/reports/squid_peers", "/api/v1/reports/squid_codes"] {
        let here = Here::start(&settings);
        assert_eq!(here.site.get(path).status, 200);
        assert_eq!(here.site.delete(path).status, 200);
        here.stop();
        let here = Here::start(&settings);
        assert_eq!(here.site.get(path).status, 404);
        here.stop();
    }
    let here = Here::start(&settings);
    let again = r#"{"name": "squid_codes", "level": "request", "keys": ["status"]}"#;
    assert_eq!(here.site.post("/api/v1/reports", again).status, 201);
    here.stop();
    let here = Here::start(&settings);
    let columns = &here.site.rows("squid_codes");
    assert!(columns.is_empty());
    assert_eq!(here.site.delete("/api/v1/reports/squid_codes").status, 200);
    here.stop();
    let here = Here::start(&settings);
    assert_eq!(here.site.get("/api/v1/reports/squid_codes").status, 404);
    here.stop();
}

#[test]
fn logs_are_imported_through_a_connection() {
    let here = Here::start(&["squid=[{listen='tcp://127.0.0.1:0',name='proxy'}]"]);
    let to = address(&here.site, 0).to_string();
    let folder = tempfile::tempdir().unwrap();
    let without_end = folder.path().join("patch.log");
    let mut patch = corpus("patch-access.log");
    patch.pop();
    fs::write(&without_end, patch).unwrap();
    let corpus = format!("{}/tests/corpus/squid", env!("CARGO_MANIFEST_DIR"));
    let files = [
        without_end.to_str().unwrap().to_owned(),
        format!("{corpus}/access.log"),
        format!("{corpus}/patch-store.log"),
        format!("{corpus}/store.log"),
    ];
    let said = run(pinbad().args(["import-log", "--live", "--to", &to]).args(&files));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_has!(said.out => format!("lines sent to {to}"));
    let source = received(&here.site, 0, 2 + 625 + 3 + 71);
    assert_eq!((source.count("requests"), source.count("swaps")), (627, 3));
    let reasons = &source.0["lines_invalid_by_reason"];
    assert_eq!(reasons["store_log_without_timings"], 71);
    for (arguments, problem) in cases![
        &["import-log", "--to", &to, &files[0]][..] => "--live";
        &["import-log", "--live", &files[0]] => "give --to";
        &["import-log", "--live", "--to", &to, "/nowhere.log"] => "cannot read /nowhere.log";
    ] {
        let said = run(pinbad().args(arguments));
        assert!(said.code != Some(0) && said.err.contains(problem), "{said:?}");
    }
    here.stop();
}
