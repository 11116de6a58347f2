//! Squid's logs: lines over UDP, over TCP and from a file, those of real captures and those of a real Squid.
//!
//! The latter needs `squid` (Debian: the package of that name), which `tests/run.sh` installs where it may. Where it may not,
//! it skips that test and says so at its end; whoever runs it without Squid sees it fail.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value as Json;

use crate::harness::{Here, Program, Site, Status, await_condition, pinbad, run};

fn corpus(name: &str) -> Vec<u8> {
    fs::read(format!(
        "{}/tests/corpus/squid/{name}",
        env!("CARGO_MANIFEST_DIR")
    ))
    .unwrap()
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

/// The status of source `at` once it has received so many lines and nothing is under way: each line is counted as what it is, and
/// what became a request is merged.
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

#[test]
fn a_capture_comes_to_the_same_by_every_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    fs::write(&path, corpus("udp.log")).unwrap();
    let here = Here::start(&[&EVERY_WAY.replace("PATH", path.to_str().unwrap())]);
    let site = &here.site;
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(address(site, 0)).unwrap();
    // As Squid packs them, and never more than a small buffer holds.
    let lines = lines_of("udp.log");
    for (number, lines) in lines.chunks(4).enumerate() {
        socket.send(&lines.concat()).unwrap();
        if number % 20 == 19 {
            received(site, 0, (number as u64 + 1) * 4);
        }
    }
    let mut stream = TcpStream::connect(address(site, 1)).unwrap();
    for piece in corpus("udp.log").chunks(1000) {
        stream.write_all(piece).unwrap();
    }
    let mut seen = Vec::new();
    for (at, host) in ["by-udp", "by-tcp", "by-file"].into_iter().enumerate() {
        let source = received(site, at, 613);
        assert_eq!(source.count("requests"), 613, "{source:?}");
        for none in ["lines_invalid", "lines_repeated", "lines_lost"] {
            assert_eq!(source.count(none), 0, "{source:?}");
        }
        let rows: Vec<_> = requests(site, host)
            .iter()
            .map(|row| {
                let tags = row["tags"].as_str().unwrap();
                let who = if host == "by-file" {
                    "client=127.0.0.1"
                } else {
                    ""
                };
                assert_eq!(tags.contains("client"), !who.is_empty(), "{tags}");
                [
                    "server_name",
                    "script_name",
                    "status",
                    "req_time",
                    "doc_size",
                ]
                .map(|it| row[it].clone())
            })
            .collect();
        seen.push(rows);
    }
    assert_eq!(seen[0].len(), 613);
    assert!(seen[0] == seen[1] && seen[1] == seen[2]);
    recount(site, &lines);
    recount_proxy(site, &lines);
    site.status().assert_accounted();
    here.stop();
}

/// The reports of what three sources brought are what the lines add up to.
fn recount(site: &Site, lines: &[Vec<u8>]) {
    let mut by_script: BTreeMap<String, (u64, u64, u64)> = BTreeMap::new();
    let mut by_code: BTreeMap<String, u64> = BTreeMap::new();
    let mut server_in = (0, 0);
    for line in lines {
        let line = String::from_utf8(line.clone()).unwrap();
        let said: BTreeMap<&str, &str> = line
            .split_whitespace()
            .skip(1)
            .filter_map(|it| it.split_once('='))
            .collect();
        let path = match said["url"].strip_prefix("http://") {
            Some(rest) => &rest[rest.find('/').unwrap()..],
            None if said["rm"] == "CONNECT" => "",
            None => said["url"],
        };
        let path = path.split('?').next().unwrap().to_owned();
        let sums = by_script.entry(path).or_default();
        sums.0 += 3;
        sums.1 += 3 * said["tr"].parse::<u64>().unwrap();
        sums.2 += 3 * said["out"].parse::<u64>().unwrap();
        *by_code.entry(said["ss"].to_owned()).or_default() += 3;
        if let Ok(ms) = said["pt"].parse::<u64>() {
            server_in = (server_in.0 + 3, server_in.1 + 3 * ms);
        }
    }
    let number = |row: &Json, name: &str| row[name].as_f64().unwrap();
    let rows = site.rows("report_by_script_name");
    assert_eq!(rows.len(), by_script.len());
    for row in &rows {
        let (count, ms, bytes) = by_script[row["script_name"].as_str().unwrap()];
        assert_eq!(row["req_count"], count, "{row}");
        assert!(
            (number(row, "req_time_total") * 1000.0 - ms as f64).abs() < 0.01,
            "{row} {ms}"
        );
        // In KiB, as Pinba has it.
        assert!(
            (number(row, "traffic_total") * 1024.0 - bytes as f64).abs() < 512.0,
            "{row} {bytes}"
        );
    }
    let codes = await_condition("the codes add up", || {
        let rows = site.rows("squid_codes");
        let counts: BTreeMap<String, u64> = rows
            .iter()
            .map(|row| {
                (
                    row["tag_code"].as_str().unwrap().to_owned(),
                    row["req_count"].as_u64().unwrap(),
                )
            })
            .collect();
        if counts == by_code {
            Ok(counts)
        } else {
            Err(counts)
        }
    });
    assert_eq!(codes["TCP_MEM_HIT"], 3 * 515);
    let activities = await_condition("the activities add up", || {
        let rows = site.rows("squid_activities");
        let found = rows
            .iter()
            .find(|row| row["timer_activity"] == "server_in")
            .cloned();
        found
            .filter(|row| row["hit_count"] == server_in.0)
            .ok_or(rows)
    });
    let total = activities["timer_value"].as_f64();
    assert!(
        (total.unwrap() * 1000.0 - f64::from(server_in.1 as u32)).abs() < 0.01,
        "{activities}"
    );
}

/// The reports of where time went and of what was saved are what the lines add up to.
fn recount_proxy(site: &Site, lines: &[Vec<u8>]) {
    let mut sets: BTreeMap<(String, String), u64> = BTreeMap::new();
    let mut misses: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
    let mut asked: BTreeMap<[String; 3], (u64, f64, i64)> = BTreeMap::new();
    for line in lines {
        let line = String::from_utf8(line.clone()).unwrap();
        let said: BTreeMap<&str, &str> = line
            .split_whitespace()
            .skip(1)
            .filter_map(|it| it.split_once('='))
            .collect();
        let ms = |name: &str| said[name].parse::<u64>().unwrap_or(0);
        let code = said["ss"].to_owned();
        let all = ms("tr");
        let dns = ms("dt").min(all);
        let server = ms("tt").min(all - dns);
        for (set, ms) in [
            ("dns", dns),
            ("server", server),
            ("client or proxy", all - dns - server),
        ] {
            if ms > 0 {
                *sets.entry((code.clone(), set.to_owned())).or_default() += 3 * ms;
            }
        }
        let Some(rest) = said["url"].strip_prefix("http://") else {
            continue;
        };
        let host = rest.split(['/', ':']).next().unwrap().to_owned();
        // Of the one that was cut nothing is left of the type.
        let mime = said
            .get("mt")
            .filter(|it| **it != "-")
            .unwrap_or(&"")
            .to_string();
        if code == "TCP_MISS" {
            misses
                .entry((host, mime))
                .or_default()
                .extend([all as f64; 3]);
        } else if code.contains("IMS") || code.contains("REFRESH") {
            let row = asked.entry([host, mime, code]).or_default();
            let saved =
                said["out"].parse::<i64>().unwrap() - said["bs"].parse::<i64>().unwrap_or(0);
            *row = (row.0 + 3, row.1 + 3.0 * all as f64, row.2 + 3 * saved);
        }
    }
    let near = |value: &Json, ms: f64| {
        let secs = value.as_f64().unwrap_or(f64::NAN);
        assert!((secs * 1000.0 - ms).abs() < 0.01, "{value} is not {ms} ms");
    };
    let rows = site.rows("squid_bottlenecks_by_code");
    assert_eq!(rows.len(), sets.len(), "{rows:#?}");
    for row in &rows {
        let name = |name: &str| row[name].as_str().unwrap().to_owned();
        near(
            &row["timer_value"],
            sets[&(name("tag_code"), name("timer_bottleneck"))] as f64,
        );
    }
    for report in [
        "squid_bottlenecks",
        "squid_bottlenecks_by_server",
        "squid_bottlenecks_by_peer",
    ] {
        let rows = site.rows(report);
        let times = rows.iter().map(|row| row["timer_value"].as_f64().unwrap());
        near(
            &times.sum::<f64>().into(),
            sets.values().sum::<u64>() as f64,
        );
    }
    let rows = site.rows("squid_savings");
    assert_eq!(rows.len(), asked.len(), "{rows:#?}");
    let mut known = 0;
    for row in &rows {
        let [server, mime, code] =
            ["server_name", "mime", "code"].map(|name| row[name].as_str().unwrap().to_owned());
        let (count, ms, saved) = asked[&[server.clone(), mime.clone(), code]];
        assert_eq!(
            (&row["req_count"], &row["saved_bytes"]),
            (&count.into(), &saved.into()),
            "{row}"
        );
        near(&row["req_time"], ms);
        let mut times = misses.get(&(server, mime)).cloned().unwrap_or_default();
        times.sort_by(f64::total_cmp);
        assert_eq!(row["miss_count"], times.len(), "{row}");
        if times.len() < 10 {
            assert!(
                row["miss_median"].is_null() && row["saved_time"].is_null(),
                "{row}"
            );
            continue;
        }
        let median = f64::midpoint(times[(times.len() - 1) / 2], times[times.len() / 2]);
        near(&row["miss_median"], median);
        near(&row["saved_time"], median * count as f64 - ms);
        known += 1;
    }
    assert!(known > 0, "{rows:#?}");
}

/// Rows of a statement, as text.
fn sql(site: &Site, query: &str) -> Vec<String> {
    let answer = site.post(
        "/api/v1/sql",
        &serde_json::json!({ "query": query }).to_string(),
    );
    assert_eq!(answer.status, 200, "{query}: {answer:?}");
    let rows = answer.json()["rows"].clone();
    rows.as_array()
        .unwrap()
        .iter()
        .map(Json::to_string)
        .collect()
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

/// What the table has of the sample, and what the answers about one request have.
fn assert_sample(site: &Site) {
    let code = "TCP_CLIENT_REFRESH";
    let of_code = |what: &str| {
        format!(
            "SELECT {what} FROM squid_activity a JOIN request_tag t ON t.request_id = a.request_id \
             WHERE t.name = 'code' AND t.value = '{code}'"
        )
    };
    let rows = sql(
        site,
        &of_code("activity, state, start, first_delay, total, resident"),
    );
    let (mut rows, mut sample) = (rows, SAMPLE.map(str::to_owned));
    rows.sort();
    sample.sort();
    assert_eq!(rows, sample);
    let row = &requests(site, "proxy")[0];
    let detail = site.json(&format!("/api/v1/requests/{}", row["id"]));
    assert_eq!(detail["tags"]["code"], code);
    let names = [
        "activity",
        "state",
        "start",
        "first_delay",
        "total",
        "resident",
    ];
    let shown = detail["activities"].as_array().unwrap().iter().map(|it| {
        let values = names.map(|name| it[name].clone());
        let text = Json::from(values.to_vec()).to_string();
        text.replace(",0.0,", ",0,")
    });
    assert_eq!(shown.collect::<Vec<_>>(), SAMPLE);
    let page = site.get(&format!("/requests/{}", row["id"])).body;
    assert!(
        page.contains("own clock") && page.contains("disk_out"),
        "{page}"
    );
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
    for part in [
        "client+server",
        "client or proxy",
        "Bottlenecks by result code",
        "SWAPOUT",
        "disk_out",
        "38.0 s",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("is not there"), "{page}");
    assert_eq!(site.delete("/api/v1/reports/squid_savings").status, 200);
    await_condition("the page says that it is gone", || {
        let page = site.get("/squid").body;
        let is_gone = page.contains("<code>squid_savings</code> is not there");
        is_gone.then_some(()).ok_or(page)
    });
}

/// A port that stays the same over restarts, and a source there.
fn tcp_port() -> (u16, String) {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
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
        lines
            .filter(|it| it.starts_with(name) && !it.ends_with("=-"))
            .count()
    };
    // Of the patch's two lines seven are done, of which one is for an earlier request. What a server was sent is known where its
    // answer is.
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
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
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
        text.split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<u64>()
            .unwrap()
    });
    assert_eq!(times, said.collect::<Vec<_>>());
    here.stop();
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
    assert_eq!(
        (source.count("lines_repeated"), source.count("requests")),
        (2, 25)
    );
    assert_eq!(source.count("lines_lost"), 0);
    // Others: garbage, a line without end, nothing at all.
    let mut strangers: Vec<TcpStream> = (0..5).map(|_| connect(&here.site)).collect();
    strangers[0]
        .write_all(b"\x16\x03\x01 hello <script>\x07\n")
        .unwrap();
    let long = vec![b'x'; 1 << 20];
    strangers[1].write_all(&long).unwrap();
    strangers[1].write_all(b"\n").unwrap();
    strangers[2].write_all(&long[..5]).unwrap();
    let source = received(&here.site, 0, 29);
    let reasons = &source.0["lines_invalid_by_reason"];
    assert_eq!(
        (&reasons["unknown_format"], &reasons["too_long"]),
        (&1.into(), &1.into())
    );
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
    // What Squid could not send meanwhile is known to be missing; what comes again is not counted again.
    let here = Here::start(&[&setting, &state]);
    let mut squid = connect(&here.site);
    squid.write_all(&lines[30..33].concat()).unwrap();
    squid.write_all(&lines[31]).unwrap();
    let source = received(&here.site, 0, 31 + 4);
    assert_eq!(source.count("lines_lost"), 3, "{source:?}");
    assert_eq!(
        (source.count("lines_repeated"), source.count("requests")),
        (3, 30)
    );
    here.stop();
}

#[test]
fn a_followed_file_is_read_once_through_kills() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("access.log");
    let squid = format!("squid=[{{path='{}',name='proxy'}}]", log.display());
    let state = format!("state.dir={}", dir.path().join("state").display());
    let settings = [&*squid, &state, "state.snapshot_period=1s"];
    let is_over = Arc::new(AtomicBool::new(false));
    let (over, path) = (Arc::clone(&is_over), log.clone());
    let writing = std::thread::spawn(move || {
        let mut number = 0_u64;
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let mut file = file.unwrap();
        while !over.load(Ordering::SeqCst) {
            let mut lines = String::new();
            for _ in 0..1 + number % 37 {
                let start = 1_700_000_000 + number;
                lines += &format!(
                    "sq1 start={start}.000 end={start}.004 tr=4 ss=TCP_MISS hs=200 rm=GET out=10 sn={number} \
                     url=http://origin.example/p/{number}\n"
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
    });
    for kill in 0..5 {
        let mut daemon = Program::serve(&settings);
        std::thread::sleep(Duration::from_millis(900 + kill * 370));
        daemon.signal("KILL");
        daemon.wait();
    }
    is_over.store(true, Ordering::SeqCst);
    let written = writing.join().unwrap();
    let daemon = Program::serve(&settings);
    let requests = || {
        let rows = daemon.site.rows("squid_codes");
        rows.first()
            .map_or(0, |row| row["req_count"].as_u64().unwrap())
    };
    await_condition("all is read", || match requests() {
        count if count >= written => Ok(()),
        count => Err((count, written)),
    });
    assert_eq!(requests(), written);
    let all = daemon.site.json("/api/v1/requests?limit=100000");
    let rows = all["rows"].as_array().unwrap();
    let paths: BTreeSet<&str> = rows
        .iter()
        .map(|row| row["script_name"].as_str().unwrap())
        .collect();
    assert_eq!(
        (paths.len(), rows.len()),
        (written as usize, written as usize)
    );
    let source = source(&daemon.site, 0);
    let counted = ["lines_received", "requests", "lines_lost", "lines_repeated"];
    assert_eq!(
        counted.map(|name| source.count(name)),
        [written, written, 0, 0],
        "{source:?}"
    );
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
        match (
            status.reason("datagrams_invalid", "source_not_allowed"),
            refused,
        ) {
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
    let said = run(pinbad()
        .args(["import-log", "--live", "--to", &to])
        .args(&files));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(
        said.out.contains(&format!("lines sent to {to}")),
        "{said:?}"
    );
    let source = received(&here.site, 0, 2 + 625 + 3 + 71);
    assert_eq!((source.count("requests"), source.count("swaps")), (627, 3));
    let reasons = &source.0["lines_invalid_by_reason"];
    assert_eq!(reasons["store_log_without_timings"], 71);
    for (arguments, problem) in [
        (&["import-log", "--to", &to, &files[0]][..], "--live"),
        (&["import-log", "--live", &files[0]], "give --to"),
        (
            &["import-log", "--live", "--to", &to, "/nowhere.log"],
            "cannot read /nowhere.log",
        ),
    ] {
        let said = run(pinbad().args(arguments));
        assert!(
            said.code != Some(0) && said.err.contains(problem),
            "{said:?}"
        );
    }
    here.stop();
}

/// A server of the test's own behind the proxy.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Most bytes of an answer that are sent, whatever was promised.
const SENT_MAX: usize = 1_000_000;

/// Answers one request; what goes wrong is the client's business.
fn serve(mut stream: TcpStream) {
    let mut head = String::new();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Ok(1..) = reader.read_line(&mut head) {
        if head.ends_with("\r\n\r\n") {
            break;
        }
    }
    let path = head.split(' ').nth(1).unwrap_or_default();
    let modified = "Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT";
    let (status, headers, bytes) = match path {
        "/cache" => ("200 OK", "Cache-Control: max-age=600", 5000),
        "/big" => ("200 OK", "Cache-Control: max-age=600", 1_000_000),
        "/reval" if head.contains("If-Modified-Since") => ("304 Not Modified", modified, 0),
        "/reval" => (
            "200 OK",
            "Cache-Control: max-age=0\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT",
            3000,
        ),
        "/endless" => ("200 OK", "Cache-Control: no-store", 1 << 30),
        _ => ("200 OK", "Cache-Control: no-store", 1000),
    };
    let length = if status.starts_with("304") {
        String::new()
    } else {
        format!("Content-Length: {bytes}\r\n")
    };
    // Without it Squid takes what it has for stale.
    let now = chrono::Utc::now().format("%a, %d %b %Y %H:%M:%S GMT");
    let answer = format!(
        "HTTP/1.1 {status}\r\nDate: {now}\r\n{headers}\r\n{length}Content-Type: text/plain\r\nConnection: close\r\n\r\n"
    );
    let mut sent = stream.write_all(answer.as_bytes());
    let piece = [b'x'; 10_000];
    let mut left = bytes.min(SENT_MAX);
    while left > 0 && sent.is_ok() {
        let now = left.min(piece.len());
        sent = stream.write_all(&piece[..now]);
        left -= now;
    }
    if bytes > SENT_MAX {
        // Who waits for the rest has to go first.
        let _closed = stream.read(&mut [0]);
    }
}

/// A Squid of the test's own.
struct Squid {
    child: Child,
    port: u16,
}

impl Squid {
    fn start(folder: &Path, udp: SocketAddr, tcp: SocketAddr) -> Self {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        // It does not stay root.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
        let dir = folder.display();
        let config = format!(
            "http_port 127.0.0.1:{port}\nvisible_hostname proxy.test\npid_filename {dir}/squid.pid\n\
             cache_log {dir}/cache.log\ncoredump_dir {dir}\ncache_mem 8 MB\nmaximum_object_size_in_memory 64 KB\n\
             cache_dir ufs {dir}/cache 50 4 4\npinger_enable off\nshutdown_lifetime 1 seconds\n\
             acl denied urlpath_regex ^/denied\nhttp_access deny denied\nhttp_access allow all\n\
             logformat collector sq1 start=%tS end=%ts.%03tu tr=%tr dt=%dt pt=%<pt tt=%<tt ss=%Ss hs=%03>Hs ohs=%<Hs \
             rm=%rm in=%>st out=%<st bs=%<bs sh=%Sh peer=%<a:%<p cl=%>a:%>p err=%err_code tx=%master_xaction sn=%sn \
             mt=%#mt host=%#>rd url=%#>ru ua=%#{{User-Agent}}>h\n\
             access_log udp://{udp} logformat=collector buffer-size=0bytes\n\
             access_log tcp://{tcp} logformat=collector on-error=drop\n\
             access_log stdio:{dir}/collector.log logformat=collector\n\
             access_log stdio:{dir}/access.log logformat=squid\ncache_store_log none\nlogfile_rotate 0\n"
        );
        let path = folder.join("squid.conf");
        fs::write(&path, config).unwrap();
        let squid = || {
            let mut squid = Command::new("/usr/sbin/squid");
            squid.arg("-N").arg("-f").arg(&path);
            squid
        };
        let made = run(squid().arg("-z"));
        assert_eq!(
            made.code,
            Some(0),
            "squid, which Debian has as a package: {}",
            made.err
        );
        let child = squid()
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let squid = Self { child, port };
        await_condition("squid listens", || {
            TcpStream::connect(squid.address()).map(drop)
        });
        squid
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Sends this and reads at most so much of the answer.
    fn say(&self, text: &str, bytes: u64) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.take(bytes).read_to_end(&mut answer).unwrap();
        answer
    }

    fn get(&self, url: &str) -> Vec<u8> {
        self.say(
            &format!("GET {url} HTTP/1.0\r\nUser-Agent: a test\r\n\r\n"),
            u64::MAX,
        )
    }
}

impl Drop for Squid {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[test]
fn real_squid_arrives_with_its_own_times_and_codes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("collector.log");
    let here = Here::start(&[&EVERY_WAY.replace("PATH", file.to_str().unwrap())]);
    let site = &here.site;
    let squid = Squid::start(folder.path(), address(site, 0), address(site, 1));
    let origin = origin();
    let url = |path: &str| format!("http://{origin}{path}");
    assert!(squid.get(&url("/cache")).len() > 5000);
    squid.get(&url("/cache"));
    // Too large for the memory of the cache.
    squid.get(&url("/big"));
    await_condition("it is on disk", || {
        let answer = String::from_utf8_lossy(&squid.get(&url("/big"))[..600]).into_owned();
        if answer.contains("X-Cache: HIT") {
            Ok(())
        } else {
            Err(answer)
        }
    });
    squid.get(&url("/reval"));
    squid.get(&url("/reval"));
    squid.get(&url("/nocache?user=1"));
    squid.get(&url("/denied"));
    // A client that goes while Squid writes to it is none that aborted, to Squid.
    let own_log = || fs::read_to_string(folder.path().join("access.log")).unwrap();
    let mut asked = 0;
    while !own_log().contains("_ABORTED") {
        asked += 1;
        assert!(asked < 50, "{}", own_log());
        let endless = format!("GET {} HTTP/1.0\r\n\r\n", url("/endless"));
        squid.say(&endless, SENT_MAX as u64);
        await_condition("Squid has seen that the client went", || match own_log() {
            own if own.matches("/endless").count() == asked => Ok(()),
            own => Err(own),
        });
    }
    let tunnel = format!(
        "CONNECT {origin} HTTP/1.1\r\nHost: {origin}\r\n\r\nGET /tunnelled HTTP/1.0\r\n\r\n"
    );
    squid.say(&tunnel, u64::MAX);
    squid.say("NONSENSE\r\n\r\n", u64::MAX);
    let own = await_condition("Squid has logged all", || {
        let own = own_log();
        let mut all = ["TCP_TUNNEL", "NONE_NONE/400"].iter();
        if all.all(|it| own.contains(it)) {
            Ok(own)
        } else {
            Err(own)
        }
    });
    let mut expected: Vec<String> = own
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (code, status) = words[3].split_once('/').unwrap();
            let status: u32 = status.parse().unwrap();
            format!("{code} {status} {} {} {}", words[1], words[4], words[5])
        })
        .collect();
    expected.sort();
    for code in [
        "TCP_MISS ",
        "TCP_MEM_HIT",
        "TCP_HIT",
        "TCP_REFRESH_UNMODIFIED",
        "TCP_DENIED",
        "_ABORTED",
        "TCP_TUNNEL",
        "NONE_NONE",
    ] {
        assert!(
            expected.iter().any(|line| line.contains(code)),
            "{code} in {expected:#?}"
        );
    }
    for (at, host) in ["by-udp", "by-tcp", "by-file"].into_iter().enumerate() {
        let source = received(site, at, expected.len() as u64);
        assert_eq!(
            source.count("requests"),
            expected.len() as u64,
            "{source:?}"
        );
        let mut came: Vec<String> = requests(site, host)
            .iter()
            .map(|row| {
                let id = row["id"].as_u64().unwrap();
                let tags = site.json(&format!("/api/v1/requests/{id}"))["tags"].clone();
                let text = |name: &str| tags[name].as_str().unwrap_or("-").to_owned();
                let ms = (row["req_time"].as_f64().unwrap() * 1000.0).round();
                let bytes = (row["doc_size"].as_f64().unwrap() * 1024.0).round();
                format!(
                    "{} {} {ms} {bytes} {}",
                    text("code"),
                    row["status"],
                    text("method")
                )
            })
            .collect();
        came.sort();
        assert_eq!(came, expected, "{host}");
    }
    drop(squid);
    here.stop();
}

/// Ends what waits for it, also when a test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What came by any way and what is said to be lost are all that Squid logged, while pinbad was stopped and started anew.
#[test]
fn a_restart_loses_what_squid_drops_and_says_how_much() {
    let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = folder.path().join("collector.log");
    let udp = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let ways = format!(
        "squid=[{{listen='udp://{udp}',name='by-udp'}},{{listen='tcp://{tcp}',name='by-tcp'}},{{path='{}',name='by-file'}}]",
        file.display()
    );
    let state = format!("state.dir={}", state.path().display());
    let start = || Here::start(&[&ways, &state]);
    let here = start();
    let squid = Squid::start(folder.path(), udp, tcp);
    let url = format!("http://{}/nocache", origin());
    let logged = || {
        let own = fs::read_to_string(folder.path().join("access.log"));
        own.unwrap_or_default().lines().count() as u64
    };
    let more = |count: u64| {
        let until = logged() + count;
        await_condition("Squid has logged more", || match logged() {
            now if now >= until => Ok(()),
            now => Err(now),
        });
    };
    let taken = |site: &Site, at: usize| source(site, at).count("requests");
    let ended = AtomicBool::new(false);
    let here = std::thread::scope(|scope| {
        let _ends = Ends(&ended);
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                squid.get(&url);
                // Each leaves two ports that rest for a minute.
                std::thread::sleep(Duration::from_millis(8));
            }
        });
        more(50);
        await_condition("all ways bring lines", || {
            let all = [0, 1, 2].map(|at| taken(&here.site, at));
            if all.iter().all(|count| *count > 0) {
                Ok(())
            } else {
                Err(all)
            }
        });
        here.stop();
        more(50);
        let here = start();
        let before = taken(&here.site, 1);
        await_condition("Squid has connected again", || match taken(&here.site, 1) {
            now if now > before => Ok(()),
            now => Err(now),
        });
        more(50);
        here
    });
    for (at, host) in ["by-udp", "by-tcp", "by-file"].into_iter().enumerate() {
        let source = await_condition("all lines have come, or are said to be lost", || {
            let source = source(&here.site, at);
            let lost = source.count("lines_lost") - source.count("lines_late");
            let rows = requests(&here.site, host).len() as u64;
            match rows == taken(&here.site, at) && rows + lost == logged() {
                true => Ok(source),
                false => Err((rows, logged(), source)),
            }
        });
        match host {
            "by-udp" => assert!(source.count("lines_lost") >= 50, "{source:?}"),
            "by-file" => assert_eq!(source.count("lines_lost"), 0, "{source:?}"),
            _ => {}
        }
    }
    drop(squid);
    here.stop();
}
