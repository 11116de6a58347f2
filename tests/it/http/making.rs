//! Reports made and dropped over HTTP.

use super::*;

#[test]
fn reports_are_made_filled_from_what_is_there_and_dropped() {
    let here = with_php();
    let site = &here.site;
    let body = json!({"name": "mine", "comment": "tag_info:group::95"}).to_string();
    let reply = site.post("/api/v1/reports", &body);
    assert_eq!(reply.status, 201, "{reply:?}");
    let made = reply.json();
    assert_members!(made => {"name": "mine", "persistent": false});
    let rows = site.rows("mine");
    assert_eq!(
        rows,
        site.rows("configured").iter().map(|row| with_p95(row, &rows)).collect::<Vec<_>>()
    );
    // What comes later counts too.
    let mut packet = request("h", "s", "/x");
    packet.add_timer(5, 1.0, &[("group", "mine-only")]);
    site.send([packet]);
    let found = site.json("/api/v1/reports/mine?tag_value=mine-only");
    assert_members!(found["rows"][0] => {"hit_count": 5, "timer_value": 1});

    site.post("/api/v1/reports", &body).problem(409);
    for (body, part) in [
        ("", "JSON object"),
        ("[]", "JSON object"),
        ("{\"name\": 1}", "name"),
        ("{\"comment\": \"report1\"}", "name"),
        ("{\"name\": \"x\"}", "comment"),
        ("{\"name\": \"x\", \"comment\": \"tag_info:\"}", "exactly 1 tag name"),
        ("{\"name\": \"x\", \"comment\": \"report1:\"}", "colon"),
        ("{\"name\": \"x\", \"comment\": \"nonsense\"}", "nonsense"),
        ("{\"name\": \"x\", \"colour\": \"red\"}", "colour"),
    ] {
        let detail = site.post("/api/v1/reports", body).problem(400);
        assert!(detail.contains(part), "{body}: {detail}");
    }
    site.post("/api/v1/reports", "{\"name").problem(400);
    let head = "POST /api/v1/reports HTTP/1.1\nHost: localhost\nContent-Type: application/json\n";
    let text = format!("{head}Content-Length: 3000000\nConnection: close\n\n{{");
    let (line, _) = talk(site.http, &text.replace('\n', "\r\n"));
    assert!(line.starts_with("http/1.1 413"), "{line}");

    let dropped = site.delete("/api/v1/reports/mine");
    assert_eq!(dropped.status, 200, "{dropped:?}");
    site.get("/api/v1/reports/mine").problem(404);
    site.delete("/api/v1/reports/mine").problem(404);
    for (fixed, part) in [("report_by_status", "built"), ("info", "built"), ("configured", "--set")]
    {
        let detail = site.delete(&format!("/api/v1/reports/{fixed}")).problem(409);
        assert!(detail.contains(part), "{fixed}: {detail}");
    }
    assert!(!site.rows("configured").is_empty());
    here.stop();
}

/// The row of a report without the percentile, with that of its fellow.
fn with_p95(row: &Json, rows: &[Json]) -> Json {
    let mut row = row.clone();
    let fellow = rows.iter().find(|other| other["tag_value"] == row["tag_value"]).unwrap();
    assert!(fellow["p95"].as_f64().unwrap() >= 0.0, "{fellow}");
    row["p95"] = fellow["p95"].clone();
    row
}

#[test]
fn reset_empties_rows_and_reports_and_keeps_counters() {
    let here = with_php();
    let site = &here.site;
    assert!(!site.rows("report_by_script_name").is_empty());
    assert_eq!(site.post("/api/v1/reset", "").status, 200);
    for (name, _, _) in REPORTS {
        assert!(site.rows(name).is_empty(), "{name}");
    }
    assert!(site.rows("configured").is_empty());
    assert!(ids(&site.json("/api/v1/requests")).is_empty());
    assert_eq!(site.json("/api/v1/info")["req_count"], 0);
    let status = site.status();
    assert_eq!(status.count("request_rows") + status.count("timer_rows"), 0);
    assert_eq!(status.count("requests_merged"), 17);
    // It goes on as before, with ids that go on too.
    site.send([corpus("spec-vector")]);
    assert_eq!(site.rows("report_by_script_name").len(), 1);
    assert_eq!(site.rows("configured").len(), 1);
    assert!(ids(&site.json("/api/v1/requests"))[0] >= 18);
    here.stop();
}
