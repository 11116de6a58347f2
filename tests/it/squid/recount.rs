//! Reports of what came by three ways, held against the lines of a capture.

use super::*;

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
                let who = if host == "by-file" { "client=127.0.0.1" } else { "" };
                assert_eq!(tags.contains("client"), !who.is_empty(), "{tags}");
                ["server_name", "script_name", "status", "req_time", "doc_size"]
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

/// An object that is all but alone in asking for each of two codes, among many others: its requests
/// are those of both.
#[test]
fn sums_of_the_page_are_over_all_rows() {
    let (_, setting) = tcp_port();
    let here = Here::start(&[&setting]);
    let line = |at: usize, code: &str, path: &str| {
        let time = 1_795_235_378_000 + at;
        let (secs, ms) = (time / 1_000, time % 1_000);
        format!(
            "{secs}.{ms:03}     10 127.0.0.1 {code}/200 5348 GET http://h/{path} - HIER_NONE/- text/plain\n"
        )
    };
    let (hits, others) = (3, 2_100);
    let mut lines: Vec<(&str, String)> = vec![("TCP_MEM_HIT", "hot".to_owned()); hits];
    lines.push(("TCP_MISS", "hot".to_owned()));
    lines.extend((0..2 * others).map(|at| ("TCP_DENIED", format!("other-{}", at % others))));
    let lines = lines.iter().enumerate().map(|(at, (code, path))| line(at, code, path));
    let mut squid = TcpStream::connect(address(&here.site, 0)).unwrap();
    squid.write_all(lines.collect::<String>().as_bytes()).unwrap();
    let all = (hits + 1 + 2 * others) as u64;
    assert_eq!(received(&here.site, 0, all).count("requests"), all);
    await_condition("all of them are in the report", || {
        let rows = here.site.rows("squid_objects");
        let counts = rows.iter().map(|row| row["req_count"].as_u64().unwrap());
        if counts.sum::<u64>() == all { Ok(()) } else { Err(rows.len()) }
    });
    let page = here.site.get("/squid").body;
    let table = page.split("aria-label=\"Hot objects, rows\"").nth(1).unwrap();
    let first = crate::page::rows(table, 1)[0].clone();
    assert_eq!(first[..4], ["h", "/hot", "4", "3"], "{first:?}");
    here.stop();
}

/// Requests of keys that did not fit are not those without a peer, and no object.
#[test]
fn keys_that_did_not_fit_are_a_row_of_their_own() {
    let (_, setting) = tcp_port();
    let here = Here::start(&[&setting, "reports.rows_max=1"]);
    let mut squid = TcpStream::connect(address(&here.site, 0)).unwrap();
    for (at, from) in
        ["HIER_NONE/-", "HIER_DIRECT/10.0.0.1", "HIER_DIRECT/10.0.0.2"].into_iter().enumerate()
    {
        let line = format!(
            "1795235378.{at:03}     10 127.0.0.1 TCP_MISS/200 5348 GET http://h/{at} - {from} text/plain\n"
        );
        squid.write_all(line.as_bytes()).unwrap();
        received(&here.site, 0, at as u64 + 1);
        await_condition("it is in the report", || {
            let rows = here.site.rows("squid_bottlenecks_by_peer");
            let counts = rows.iter().map(|row| row["req_count"].as_u64().unwrap());
            if counts.sum::<u64>() == at as u64 + 1 { Ok(()) } else { Err(rows.len()) }
        });
    }
    let page = here.site.get("/squid").body;
    let part = |name: &str| page.split(&format!("id=\"part-{name}\"")).nth(1).unwrap();
    let by_peer = part("squid_bottlenecks_by_peer");
    let others = ["(other)", "20.0 ms", "100 %", "\u{2013}"];
    let known = ["none", "10.0 ms", "\u{2013}", "100 %"];
    assert_eq!(crate::page::rows(by_peer, 1), [others, known]);
    assert_has!(by_peer.split("</thead>").next().unwrap() => "unknown</th>", "(other)</th>");
    let objects = crate::page::rows(part("squid_objects"), 1);
    assert_eq!(objects.len(), 1, "{objects:?}");
    assert_eq!(objects[0][..3], ["h", "/0", "1"], "{objects:?}");
    here.stop();
}

/// The fields of a line, by name.
fn fields(line: &str) -> BTreeMap<&str, &str> {
    let fields = line.split_whitespace().skip(1);
    fields.filter_map(|it| it.split_once('=')).collect()
}

/// The reports of what three sources brought are what the lines add up to.
fn recount(site: &Site, lines: &[Vec<u8>]) {
    let mut by_script: BTreeMap<String, (u64, u64, u64)> = BTreeMap::new();
    let mut by_code: BTreeMap<String, u64> = BTreeMap::new();
    let mut server_in = (0, 0);
    for line in lines {
        let line = String::from_utf8(line.clone()).unwrap();
        let said = fields(&line);
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
        assert!((number(row, "req_time_total") * 1000.0 - ms as f64).abs() < 0.01, "{row} {ms}");
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
                (row["tag_code"].as_str().unwrap().to_owned(), row["req_count"].as_u64().unwrap())
            })
            .collect();
        if counts == by_code { Ok(counts) } else { Err(counts) }
    });
    assert_eq!(codes["TCP_MEM_HIT"], 3 * 515);
    let activities = await_condition("the activities add up", || {
        let rows = site.rows("squid_activities");
        let found = rows.iter().find(|row| row["timer_activity"] == "server_in").cloned();
        found.filter(|row| row["hit_count"] == server_in.0).ok_or(rows)
    });
    let total = activities["timer_value"].as_f64();
    assert!((total.unwrap() * 1000.0 - f64::from(server_in.1 as u32)).abs() < 0.01, "{activities}");
}

/// The reports of where time went and of what was saved are what the lines add up to.
fn recount_proxy(site: &Site, lines: &[Vec<u8>]) {
    let mut sets: BTreeMap<(String, String), u64> = BTreeMap::new();
    let mut misses: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
    let mut asked: BTreeMap<[String; 3], (u64, f64, i64)> = BTreeMap::new();
    for line in lines {
        let line = String::from_utf8(line.clone()).unwrap();
        let said = fields(&line);
        let ms = |name: &str| said[name].parse::<u64>().unwrap_or(0);
        let code = said["ss"].to_owned();
        let all = ms("tr");
        let dns = ms("dt").min(all);
        let server = ms("tt").min(all - dns);
        for (set, ms) in [("dns", dns), ("server", server), ("client or proxy", all - dns - server)]
        {
            if ms > 0 {
                *sets.entry((code.clone(), set.to_owned())).or_default() += 3 * ms;
            }
        }
        let Some(rest) = said["url"].strip_prefix("http://") else {
            continue;
        };
        let host = rest.split(['/', ':']).next().unwrap().to_owned();
        // Of the one that was cut nothing is left of the type.
        let mime = said.get("mt").filter(|it| **it != "-").unwrap_or(&"").to_string();
        if code == "TCP_MISS" {
            misses.entry((host, mime)).or_default().extend([all as f64; 3]);
        } else if code.contains("IMS") || code.contains("REFRESH") {
            let row = asked.entry([host, mime, code.clone()]).or_default();
            let sent = said["out"].parse::<i64>().unwrap();
            let is_new = ["_MODIFIED", "_MISS", "_ERR"].iter().any(|it| code.contains(it));
            let saved = match said["bs"].parse::<i64>().unwrap_or(0) {
                0 if is_new => 0,
                0 => sent,
                body => (sent - body).min(0),
            };
            *row = (row.0 + 3, row.1 + 3.0 * all as f64, row.2 + 3 * saved);
        }
    }
    let near = |value: &Json, ms: f64| {
        let secs = value.as_f64().unwrap_or(f64::NAN);
        assert!((secs * 1000.0 - ms).abs() < 0.01, "{value} is not {ms} ms");
    };
    // Lines tell neither CPU times nor memory.
    for row in site.rows("squid_codes") {
        let is_known = |name: &str| !row[name].is_null();
        assert!(is_known("traffic_total") && is_known("req_time_total"), "{row}");
        assert!(!is_known("ru_utime_total") && !is_known("memory_footprint_total"), "{row}");
    }
    let dash = "<td data-l=\"User cores\"><span class=\"none\">";
    for report in ["squid_codes", "report_by_server_name"] {
        assert_has!(site.get(&format!("/reports/{report}")).body => dash);
    }
    assert_has!(site.get("/").body => "<dt>CPU</dt><dd class=\"big\">\u{2013}</dd>");
    let rows = site.rows("squid_bottlenecks_by_code");
    assert_eq!(rows.len(), sets.len(), "{rows:#?}");
    for row in &rows {
        let name = |name: &str| row[name].as_str().unwrap().to_owned();
        near(&row["timer_value"], sets[&(name("tag_code"), name("timer_bottleneck"))] as f64);
    }
    for report in ["squid_bottlenecks", "squid_bottlenecks_by_server", "squid_bottlenecks_by_peer"]
    {
        let rows = site.rows(report);
        let times = rows.iter().map(|row| row["timer_value"].as_f64().unwrap());
        near(&times.sum::<f64>().into(), sets.values().sum::<u64>() as f64);
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
            assert!(row["miss_median"].is_null() && row["saved_time"].is_null(), "{row}");
            continue;
        }
        let median = f64::midpoint(times[(times.len() - 1) / 2], times[times.len() / 2]);
        near(&row["miss_median"], median);
        near(&row["saved_time"], median * count as f64 - ms);
        known += 1;
    }
    assert!(known > 0, "{rows:#?}");
}
