//! Annotations: noted over HTTP, found again over HTTP and SQL, there after a restart, refused
//! where they cannot be kept.

use std::path::Path;
use std::sync::Arc;

use pinbad::clock::ManualClock;
use serde_json::{Value as Json, json};

use crate::harness::{Here, Site};

const ALL: &str = "/api/v1/annotations";
/// 2024-02-28 22:00:00 UTC.
const NOW: u64 = 1_709_157_600;

fn start(setting: &str) -> Here {
    let clock = Arc::new(ManualClock::new(NOW * 1_000));
    let settings = [setting];
    Here::with_clock(&settings[..usize::from(!setting.is_empty())], clock)
}

#[track_caller]
fn note(site: &Site, annotation: &Json) -> Json {
    let reply = site.post(ALL, &annotation.to_string());
    assert_eq!(reply.status, 201, "{annotation}: {reply:?}");
    reply.json()
}

/// The texts of those that are found.
fn texts(site: &Site, query: &str) -> Vec<String> {
    let found = site.json(&format!("{ALL}?{query}"));
    let rows = found["rows"].as_array().unwrap().iter();
    rows.map(|row| row["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn they_are_noted_found_and_removed() {
    let here = start("");
    let site = &here.site;
    let made = note(site, &json!({"text": "shop 2.4 \"<b>\"\n", "tags": ["deploy", "the shop"]}));
    assert_eq!(
        made,
        json!({"id": 1, "time": NOW, "text": "shop 2.4 \"<b>\"\n", "tags": ["deploy", "the shop"], "author": null,
            "persistent": false})
    );
    for (text, time) in [
        ("in words", json!("2024-02-28T21:00:00Z")),
        ("with decimals", json!(NOW as f64 - 1_800.5)),
        ("as text", json!((NOW - 7_200).to_string())),
        ("to come", json!(NOW + 3_600)),
    ] {
        note(site, &json!({"text": text, "time": time, "tags": null}));
    }
    let first = "shop 2.4 \"<b>\"\n";
    let all = ["to come", first, "with decimals", "in words", "as text"];
    assert_eq!(texts(site, ""), all);
    assert_eq!(texts(site, "limit=2"), all[..2]);
    assert_eq!(site.json(&format!("{ALL}?limit=2"))["total_rows"], 5);
    assert_eq!(texts(site, "from=-1h&to=now"), all[1..4]);
    assert_eq!(texts(site, &format!("to={}", NOW - 3_600)), ["in words", "as text"]);
    assert_eq!(texts(site, "tag=the+shop"), [first]);
    assert!(texts(site, "tag=shop").is_empty());
    let by_time = site.json(&format!("{ALL}?from={}&limit=1", NOW - 1_801));
    assert_eq!(by_time["rows"][0]["time"], NOW + 3_600);

    // A mark is no traffic.
    assert_eq!(site.post("/api/v1/reset", "").status, 200);
    assert_eq!(site.delete(&format!("{ALL}/1")).json(), json!({"deleted": 1, "persistent": false}));
    site.delete(&format!("{ALL}/1")).problem(404);
    assert_eq!(texts(site, "").len(), 4);
    here.stop();
}

#[test]
fn what_cannot_be_noted_is_said() {
    let here = start("");
    let site = &here.site;
    let fits = "x".repeat(4_089);
    note(site, &json!({"text": fits, "tags": ["a", "bcdef"]}));
    for (body, parts) in cases![
        json!(7) => &["JSON object", "deploy"][..];
        json!({}) => &["text", "is missing"];
        json!({"text": 7}) => &["text", "not empty"];
        json!({"text": " \n"}) => &["text", "not empty"];
        json!({"text": fits, "tags": ["a", "bcdefg"]}) => &["4097 bytes", "up to 4096"];
        json!({"text": "a", "time": "noon"}) => &["time", "noon", "2023-11-14"];
        json!({"text": "a", "time": -1}) => &["time", "-1"];
        json!({"text": "a", "time": 1e300}) => &["time"];
        json!({"text": "a", "time": 253_402_300_800_u64}) => &["time"];
        json!({"text": "a", "time": [1]}) => &["time"];
        json!({"text": "a", "tags": "deploy"}) => &["tags", "list"];
        json!({"text": "a", "tags": [7]}) => &["tags", "list"];
        json!({"text": "a", "tags": ["a,b"]}) => &["tags", "commas"];
        json!({"text": "a", "tags": [""]}) => &["tags", "not empty"];
        json!({"text": "a", "when": 1}) => &["when", "unknown", "time"];
    ] {
        let detail = site.post(ALL, &body.to_string()).problem(400);
        for part in parts {
            assert!(detail.contains(part), "{body}: {detail}");
        }
    }
    for query in "from=x limit=0 limit=1001 tz=Nowhere x=1 compare=-1w".split(' ') {
        site.get(&format!("{ALL}?{query}")).problem(400);
    }
    site.delete(&format!("{ALL}/x")).problem(400);
    site.ask("DELETE", ALL, None).problem(405);
    assert_eq!(texts(site, "").len(), 1);
    here.stop();
}

/// Where they are kept: in `state.dir`, and without one in `history.dir`.
#[test]
fn they_are_there_after_a_restart() {
    let settings = ["state.dir", "history.dir"];
    for setting in &settings[..if cfg!(feature = "sql") { 2 } else { 1 }] {
        let dir = tempfile::tempdir().unwrap();
        let with_dir = format!("{setting}={}", dir.path().display());
        let here = start(&with_dir);
        for text in ["a", "b", "c"] {
            let made = note(&here.site, &json!({"text": text, "tags": [text]}));
            assert_eq!(made["persistent"], true);
        }
        assert_eq!(here.site.delete(&format!("{ALL}/3")).status, 200);
        here.stop();
        let here = start(&with_dir);
        assert_eq!(texts(&here.site, ""), ["b", "a"]);
        // Numbers are not used again.
        assert_eq!(note(&here.site, &json!({"text": "d"}))["id"], 4);
        cannot_be_kept(&here.site, dir.path(), setting);
        here.stop();
        // What cannot be read is set aside and named, and the daemon goes on.
        let file = dir.path().join("annotations.json");
        std::fs::write(&file, "{").unwrap();
        let here = start(&with_dir);
        assert!(texts(&here.site, "").is_empty());
        note(&here.site, &json!({"text": "e"}));
        let aside = file.with_added_extension(format!("corrupt-{NOW}"));
        assert_eq!(std::fs::read_to_string(aside).unwrap(), "{");
        here.stop();
    }
}

fn cannot_be_kept(site: &Site, dir: &Path, setting: &str) {
    let before = texts(site, "");
    // Not a matter of permissions, so that it holds for root too.
    let new = dir.join("annotations.json.new");
    std::fs::create_dir(&new).unwrap();
    let detail = site.post(ALL, r#"{"text": "x"}"#).problem(507);
    assert_has!(detail => setting, "nothing was changed");
    site.delete(&format!("{ALL}/1")).problem(507);
    assert_eq!(texts(site, ""), before);
    std::fs::remove_dir(new).unwrap();
}

/// As Grafana reads them.
#[cfg(feature = "sql")]
#[test]
fn they_are_a_table() {
    let here = start("");
    let site = &here.site;
    note(site, &json!({"text": "a", "time": 20, "tags": ["x", "y z"]}));
    note(site, &json!({"text": "b", "time": 10}));
    let rows = |query: &str| site.sql(query);
    assert_eq!(
        rows(
            "SELECT time, text, tags, id, author FROM annotation WHERE time >= 10 AND time <= 20 ORDER BY time"
        ),
        json!([[10, "b", "", 2, null], [20, "a", "x,y z", 1, null]])
    );
    assert_eq!(
        rows("SELECT count(*) FROM pinba.annotation WHERE FIND_IN_SET('y z', tags)"),
        json!([[1]])
    );
    let columns = rows("DESCRIBE annotation");
    assert_eq!(columns[2], json!(["text", "text", "NO", "", null, ""]), "{columns}");
    assert_eq!(site.rows("annotation").len(), 2);
    here.stop();
}
