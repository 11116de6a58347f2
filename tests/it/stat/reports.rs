//! Samples in reports, over time, on pages, in SQL and as a stream.

use super::*;
use crate::page::rows;

#[cfg(feature = "sql")]
#[test]
fn samples_are_a_table_of_sql() {
    use std::collections::BTreeMap;

    let extension = Extension::new();
    let here = Here::start(&[&extension.setting()]);
    let bytes = corpus("stat-samples.ndjson");
    extension.accept().write(&bytes);
    received(&here.site, 1_053);
    let mut counted = BTreeMap::new();
    for row in samples(&here.site) {
        let function = row["function"].as_str().map(str::to_owned);
        *counted.entry(function).or_insert(0_u64) += 1;
    }
    let query = "SELECT function, COUNT(*) FROM sample GROUP BY function ORDER BY 1";
    let rows = here.site.sql(query);
    let rows = rows.as_array().unwrap().iter();
    let rows: BTreeMap<_, _> =
        rows.map(|row| (row[0].as_str().map(str::to_owned), row[1].as_u64().unwrap())).collect();
    assert_eq!(rows, counted);
    let described = here.site.sql("SHOW CREATE TABLE sample").to_string();
    assert!(described.contains("`caller_function`"), "{described}");
}

/// Those that a snapshot brings back were counted before the stop.
#[cfg(feature = "sql")]
#[test]
fn samples_are_in_history_once_over_a_restart() {
    let (extension, dir) = (Extension::new(), tempfile::tempdir().unwrap());
    let data = format!("data.dir='{}'", dir.path().display());
    let bytes = corpus("stat-samples.ndjson");
    let by_function = "SELECT `function`, CAST(SUM(samples) AS SIGNED) FROM history.profile_functions GROUP BY 1 ORDER BY 1";
    let mut sent = 0;
    for _ in 0..2 {
        let mut daemon = crate::harness::Program::serve(&[&extension.setting(), &data]);
        // Open until the end: the daemon would connect again.
        let mut player = extension.accept();
        player.write(&bytes);
        sent += 1_053;
        let query = "SELECT CAST(SUM(samples) AS SIGNED) FROM history.profile_functions";
        await_condition("all are in history", || match daemon.site.sql(query)[0][0].as_u64() {
            Some(samples) if samples >= sent => Ok(()),
            samples => Err(samples),
        });
        let live = "SELECT COALESCE(`function`, ''), CAST(SUM(samples) AS SIGNED) FROM profile_functions GROUP BY 1 ORDER BY 1";
        assert_eq!(daemon.site.sql(by_function), daemon.site.sql(live));
        daemon.signal("TERM");
        assert!(daemon.wait().0.success());
    }
}

#[test]
fn reports_over_samples_are_read_and_made_like_others() {
    let extension = Extension::new();
    let mine = "report=[{name='mine',level='sample',keys=['script','line'],filters=['type=user']}]";
    let here = Here::start(&[&extension.setting(), mine]);
    let site = &here.site;
    let bytes = corpus("stat-samples.ndjson");
    extension.accept().write(&bytes);
    received(site, 1_053);
    // What was read a moment ago is given again.
    let rows = |report: &str| {
        await_condition("all samples are in the report", || {
            let rows = site.json(&format!("/api/v1/reports/{report}?limit=0"))["rows"]
                .as_array()
                .unwrap()
                .clone();
            let samples: u64 = rows.iter().map(|row| row["samples"].as_u64().unwrap()).sum();
            match samples {
                1_053 => Ok(rows),
                other => Err(other),
            }
        })
    };
    let all = samples(site);
    let types = rows("profile_types");
    for row in &types {
        let of = all.iter().filter(|it| it["type"] == row["type"]).count() as u64;
        assert_eq!(row["samples"], of);
        let is_idle = row["type"] == "memory";
        assert_eq!(
            row["samples_percent"].is_null() && row["seconds_estimated"].is_null(),
            is_idle,
            "{row}"
        );
    }
    let percent: f64 = types.iter().filter_map(|row| row["samples_percent"].as_f64()).sum();
    assert!((percent - 100.0).abs() < 1e-6);
    let functions = rows("profile_functions");
    assert!(
        functions.iter().any(|row| row["function"] == "{main}" && row["file"] == "/app/args.php")
    );
    assert!(functions.iter().any(|row| row["function"] == "(idle)"));
    let user = all.iter().filter(|it| it["type"] == "user").count() as u64;
    let mine = site.json("/api/v1/reports/mine?limit=0");
    let counted: u64 =
        mine["rows"].as_array().unwrap().iter().map(|row| row["samples"].as_u64().unwrap()).sum();
    assert_eq!(counted, user);
    let one = site.json("/api/v1/reports/profile_functions?function=md5&columns=function,samples");
    assert_eq!(one["rows"][0]["function"], "md5", "{one}");
    // Over time: the steps of a row together are the row, those of all rows the report.
    let series = |report: &str, rest: &str| {
        site.json(&format!("/api/v1/reports/{report}/series?metric=samples&from=-15m&{rest}"))
    };
    let all_steps = |report: &str, rest: &str, samples: u64| {
        await_condition("the second of the last sample is complete", || {
            let found = series(report, rest);
            let points = found["points"].as_array().unwrap();
            let sum: f64 = points.iter().filter_map(Json::as_f64).sum();
            match sum == samples as f64 {
                true => Ok(found),
                false => Err(found),
            }
        })
    };
    let md5 = functions.iter().find(|row| row["function"] == "md5");
    let md5 = md5.unwrap()["samples"].as_u64().unwrap();
    let row = "scope=&function=md5&file=";
    let found = all_steps("profile_functions", &format!("step=10&{row}"), md5);
    assert_eq!(
        (&found["step"], &found["unit"], &found["key"]["function"]),
        (&json!(10), &json!("samples"), &json!("md5"))
    );
    all_steps("profile_functions", "step=1", 1_053);
    all_steps("mine", "step=60", user);
    let path = "/api/v1/reports/profile_functions/series";
    for (rest, status, part) in [
        ("metric=p95", 400, "samples_per_sec"),
        ("scope=&function=nobody&file=", 404, "has these keys"),
        ("function=md5", 400, "all key columns"),
        ("from=-15d&step=1", 400, "too many points"),
    ] {
        let problem = site.get(&format!("{path}?{rest}")).problem(status);
        assert!(problem.contains(part), "{problem}");
    }
    // Its page: numbers, charts, and the way to the profile.
    let folder = "/reports/profile_functions";
    let page = site.get(&format!("{folder}/row?{row}")).body;
    for part in [
        "Samples per second",
        "Processes in it at once",
        "Memory in use",
        "/profile?scope=%28empty%29&amp;function=md5&amp;file=%28empty%29",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    for (chart, status) in [("traffic", 200), ("share", 200), ("errors", 404), ("spread", 404)] {
        let picture = site.get(&format!("{folder}/{chart}.svg?{row}"));
        assert_eq!(picture.status, status, "{chart}");
    }
    // Made at run time, listed, and dropped.
    let form = json!({"name": "by_opcode", "level": "sample", "keys": ["opcode"], "filters": ["type=user"], "window": "5m"});
    let made = site.post("/api/v1/reports", &form.to_string());
    assert_eq!(made.status, 201, "{}", made.json());
    let listed = site.json("/api/v1/reports");
    let listed = listed["reports"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["name"] == "by_opcode")
        .unwrap()
        .clone();
    assert_members!(listed => {"kind": "sample", "window_seconds": 300, "keys": ["opcode"]});
    assert_eq!(site.delete("/api/v1/reports/by_opcode").status, 200);
    for (form, part) in cases![
        json!({"name": "x", "level": "sample"}) => "at least one key";
        json!({"name": "x", "level": "sample", "keys": ["hostname"]}) =>
            "accepted: host, script";
        json!({"name": "x", "level": "sample", "keys": ["host"], "filters": ["line>3"]}) =>
            "KEY=prefix*";
        json!({"name": "x", "level": "sample", "keys": ["host"], "percentiles": [50]}) =>
            "level sample";
        json!({"name": "x", "level": "sample", "keys": ["host"], "history": true}) =>
            "/api/v1/stream/samples";
    ] {
        let problem = site.post("/api/v1/reports", &form.to_string()).problem(400);
        assert!(problem.contains(part), "{problem}");
    }
    // Requests: each is one of (pid, start).
    let requests =
        site.json("/api/v1/reports/stat_request?limit=0")["rows"].as_array().unwrap().clone();
    let mut keys: Vec<_> =
        all.iter().map(|it| (it["pid"].to_string(), it["request_elapsed"].to_string())).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(requests.len(), keys.len());
    for request in &requests {
        let of = all.iter().filter(|it| {
            it["pid"] == request["pid"] && it["request_elapsed"] == request["request_elapsed"]
        });
        let elapsed: Vec<f64> = of.map(|it| it["elapsed"].as_f64().unwrap()).collect();
        let (first, last) = (
            elapsed.iter().copied().fold(f64::MAX, f64::min),
            elapsed.iter().copied().fold(0.0, f64::max),
        );
        assert_eq!(request["samples"], elapsed.len());
        assert!((request["seconds"].as_f64().unwrap() - (last - first)).abs() < 1e-9);
    }
    // Their pages.
    let listed = site.get("/reports/sample").body;
    assert!(!listed.contains("/reports/sample/row"));
    // What a sample does not have is not what did not fit.
    assert!(!listed.contains("(other)"));
    for path in ["/reports/profile_functions", "/reports/stat_request"] {
        assert_eq!(site.get(path).status, 200, "{path}");
    }
}

#[test]
fn the_profile_is_a_page_with_boxes_and_a_text_for_flame_graphs() {
    let extension = Extension::new();
    let here = Here::start(&[&extension.setting()]);
    let site = &here.site;
    let text = |path: &str| site.get(path).body;
    extension.accept().write(&corpus("stat-samples.ndjson"));
    received(site, 1_053);
    let busy = samples(site).iter().filter(|it| it["type"] != "memory").count();
    let folded = await_condition("all samples are in it", || {
        let folded = text("/profile?format=folded");
        let counts =
            folded.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<usize>().unwrap());
        if counts.sum::<usize>() == busy { Ok(folded) } else { Err(folded) }
    });
    let md5 = folded.lines().find(|line| line.contains(";md5 ")).unwrap();
    assert!(md5.starts_with("/app/"), "{md5}");
    assert!(folded.lines().any(|line| line.contains(";burn;line 3 ")), "{folded}");
    // The tables below count as the reports do.
    let page = text("/profile");
    for (report, table) in [("profile_callers", 2), ("profile_lines", 3)] {
        let row = site.json(&format!("/api/v1/reports/{report}?limit=1&sort=-samples"))["rows"][0]
            .clone();
        let first = rows(&page, table)[0].clone();
        assert_eq!(first[2], row["samples"].to_string(), "{report}");
        let share = row["samples_percent"].as_f64().unwrap();
        assert_eq!(first[3], format!("{share:.1} %"), "{report}");
    }
    let page = text("/profile?script=/app/args.php&q=burn");
    assert_has!(page => "<svg", "class=\"marked\"");
    assert!(page.contains("no deeper stack"));
    assert!(
        page.contains("/reports/report_by_script_name/row?script_name=/app/args.php")
            || page.contains("script_name=%2Fapp%2Fargs.php"),
        "{page}"
    );
    assert!(!page.contains("<script>alert"));
    let other = text("/profile?script=/nothing");
    assert!(other.contains("No samples."));
    assert_eq!(site.get("/profile?format=svg").status, 400);
    // From the page of a script to its profile.
    let row = text("/reports/report_by_script_name/row?script_name=/app/args.php");
    assert!(row.contains("/profile?script="), "{row}");
    let keys = "hostname=web1&script_name=/app/args.php";
    let row = text(&format!("/reports/report_by_hostname_and_script/row?{keys}"));
    assert!(row.contains("/profile?host=web1&amp;script="), "{row}");
    let page = text("/profile?host=web1&script=/app/args.php");
    assert_has!(page =>
        "/reports/report_by_hostname_and_script/row?hostname=web1&amp;script_name=");
    let without = Here::start(&[]);
    let page = without.site.get("/profile").body;
    assert!(page.contains("None are taken: "));
}

#[test]
fn samples_are_followed_as_they_come() {
    let extension = Extension::new();
    let here = Here::start(&[&extension.setting()]);
    let site = &here.site;
    let mut player = extension.accept();
    player.write((line(1.0, "/a", "before") + "\n").as_bytes());
    received(site, 1);
    // Behind the sample of before, those of a function, and the end after three.
    let follow = |search: &str| {
        let url = format!("http://{}/api/v1/stream/samples?{search}", site.http);
        std::thread::spawn(move || {
            let mut answer = ureq::get(&url).call().unwrap();
            answer.body_mut().read_to_string().unwrap()
        })
    };
    let following = follow("after_id=0&limit=3&function=md5");
    for number in 0..5 {
        let function = if number % 2 == 0 { "md5" } else { "sha1" };
        player.write((line(2.0 + f64::from(number), "/a?\"b\"", function) + "\n").as_bytes());
    }
    let answer = following.join().unwrap();
    let rows: Vec<Json> = answer
        .lines()
        .filter(|it| !it.is_empty())
        .map(|it| serde_json::from_str(it).unwrap())
        .collect();
    let seen: Vec<_> = rows
        .iter()
        .map(|row| (row["id"].as_u64().unwrap(), row["function"].as_str().unwrap()))
        .collect();
    assert_eq!(seen, [(2, "md5"), (4, "md5"), (6, "md5")]);
    assert_eq!(rows[0]["uri"], "/a?\"b\"");
    // A reader that is ahead, since ids started again, gets those that come next.
    let ahead = follow(&format!("after_id={}&limit=1", u64::MAX));
    for sent in 7_u32.. {
        player.write((line(f64::from(sent), "/a", "md5") + "\n").as_bytes());
        received(site, sent.into());
        if ahead.is_finished() {
            break;
        }
    }
    let row: Json = serde_json::from_str(ahead.join().unwrap().trim()).unwrap();
    assert!(row["id"].as_u64().unwrap() > 6, "{row}");
    assert_eq!(site.get("/api/v1/stream/samples?since=1").status, 400);
    let without = Here::start(&[]);
    assert_eq!(without.site.get("/api/v1/stream/samples").status, 404);
}
