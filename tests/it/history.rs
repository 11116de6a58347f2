//! History as a daemon writes it: what lies on disk is a naive recount of what was sent, over
//! minutes, hours and days that the test lets pass, jumps of the wall clock and clean restarts;
//! what a folder that cannot be used does; what the status says.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pinbad::clock::{Clock, ManualClock};
use pinbad::history::parquet::Want;
use pinbad::history::{Resolution, Retention, Store};
use pinbad::report::row_key::key_texts;
use prost::Message as _;
use serde_json::Value as Json;

use crate::harness::{Here, Program, Sender, Site, await_condition, noticed, pass, pinbad, run};
use crate::packets::request;

mod killed;
mod requests;
mod trouble;

/// 2024-02-28 23:00:00 UTC: a leap day is near.
const START_MS: u64 = 1_709_161_200_000;

/// By resolution, time, report and key: requests.
type Rows = BTreeMap<(Resolution, u64, String, String), u64>;

fn settings(dir: &Path) -> Vec<String> {
    let history = format!("history.dir={}", dir.display());
    let report = r#"report=[{name = "groups", comment = "tag_info:group"}, {name = "not", comment = "report9", history = false}]"#;
    [&history, report, "history.flush_period=60s", "history.requests=none", "history.free_min=0"]
        .map(str::to_owned)
        .to_vec()
}

fn start(dir: &Path, clock: &Arc<ManualClock>) -> Here {
    let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(clock);
    let settings = settings(dir);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    Here::with_clock(&settings, clock)
}

fn of_history(site: &Site) -> Json {
    site.json("/api/v1/status")["history"].clone()
}

/// Returns the requests in the rows of a folder that no daemon has open, then those of its
/// coverage.
fn on_disk(dir: &Path) -> (Rows, Rows) {
    let retention = Retention { secs: [u64::MAX; 3], size_max: u64::MAX, free_min: 0 };
    let store = Store::open(dir, retention).unwrap();
    let (mut rows, mut coverage) = (Rows::new(), Rows::new());
    let parts = Arc::clone(&store.parts().read());
    for part in &*parts {
        for section in &part.sections {
            let dataset = &section.dataset;
            let want = Want::All;
            part.read(dataset, 0..u64::MAX, want, &mut |row| {
                let key: Vec<&str> = key_texts(&row.key).collect();
                let to = if dataset.is_coverage() { &mut coverage } else { &mut rows };
                let at = (part.resolution, row.time, dataset.report.clone(), key.join(" "));
                *to.entry(at).or_default() += row.gain.sum.totals.requests;
            })
            .unwrap();
        }
    }
    (rows, coverage)
}

#[test]
fn days_and_restarts_are_on_disk_as_they_were_sent() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(START_MS));
    let mut sent = Rows::new();
    let mut number = 0;
    let (mut passed_ms, mut steps) = (0_u64, 0);
    for run in 0..5 {
        let here = start(dir.path(), &clock);
        for step in 0..25 {
            let mut sender = Sender::new(&here.site);
            let minute = Resolution::Minute.begin(clock.unix_ms() / 1000);
            for _ in 0..number % 7 + 1 {
                number += 1;
                let script = format!("/{}", number % 13);
                sender.send(&request("web", "shop", &script).encode_to_vec());
                for (report, key) in [
                    ("info", ""),
                    ("report_by_script_name", &script),
                    ("report_by_hostname", "web"),
                    ("report_by_server_name", "shop"),
                    ("report_by_status", "200"),
                    ("groups", "cache"),
                    ("groups", "db"),
                ] {
                    let at = (Resolution::Minute, minute, report.to_owned(), key.to_owned());
                    *sent.entry(at).or_default() += 1;
                }
            }
            sender.at_rest();
            // Seconds, minutes, hours; once back by an hour.
            if step == 13 && run == 3 {
                clock.set_unix_ms(clock.unix_ms() - 3_600_000);
                noticed(&here.site);
            }
            let ms = [700, 20_000, 61_000, 900_000, 4_000_000][(step * 3 + run) % 5];
            pass(&here.site, &clock, ms);
            // Who does nothing for longer was stopped.
            passed_ms += ms.min(3_600_000);
            steps += 1;
        }
        here.stop();
        let (rows, coverage) = on_disk(dir.path());
        let minutes = |rows: &Rows| -> Rows {
            let of_minutes = rows.iter().filter(|(at, _)| at.0 == Resolution::Minute);
            of_minutes.map(|(at, count)| (at.clone(), *count)).collect()
        };
        assert_eq!(minutes(&rows), sent, "run {run}");
        let of_info = coverage
            .iter()
            .filter(|(at, _)| at.0 == Resolution::Minute && at.3.starts_with("info "));
        let seconds: u64 = of_info.map(|(_, seconds)| seconds).sum();
        let passed = passed_ms / 1000;
        assert!(seconds.abs_diff(passed) <= steps, "{seconds} of {passed}");
    }
    // Hours and days are what was added up to them; all that is over for long is.
    let here = start(dir.path(), &clock);
    pass(&here.site, &clock, 3 * 86_400_000);
    let (mut files, mut looks) = (0, 0);
    await_condition("nothing more is published", || {
        clock.advance_ms(300);
        let history = of_history(&here.site);
        let now = history["files_published"].as_u64().unwrap();
        looks = if now == files { looks + 1 } else { 0 };
        files = now;
        if looks > 600 && files > 0 { Ok(()) } else { Err(history) }
    });
    here.stop();
    let (rows, _) = on_disk(dir.path());
    let last = sent.keys().next_back().unwrap().1;
    for coarse in [Resolution::Hour, Resolution::Day] {
        let mut added = Rows::new();
        for ((_, time, report, key), count) in &sent {
            let at = (coarse, coarse.begin(*time), report.clone(), key.clone());
            *added.entry(at).or_default() += count;
        }
        let found = rows.iter().filter(|(at, _)| at.0 == coarse);
        let found: Rows = found.map(|(at, count)| (at.clone(), *count)).collect();
        assert_eq!(found, added, "{coarse:?} up to {last}");
    }
}

/// With nothing to write, nothing waits: the age of the last flush is that of the last look.
#[test]
fn an_idle_daemon_is_not_behind() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(START_MS));
    let here = start(dir.path(), &clock);
    for _ in 0..3 {
        pass(&here.site, &clock, 3_600_000);
        await_condition("it has looked again", || {
            let age = of_history(&here.site)["flush_age_seconds"].as_f64().unwrap();
            if age <= 60.0 { Ok(()) } else { Err(age) }
        });
    }
    here.stop();
}

#[test]
fn a_report_has_a_past_from_when_it_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(START_MS));
    let here = start(dir.path(), &clock);
    let send = |site: &Site| {
        site.send([request("web", "shop", "/x")]);
        pass(site, &clock, 1_000);
    };
    send(&here.site);
    for (name, said) in [("made", ""), ("unwanted", r#", "history": false"#)] {
        let form = format!(r#"{{"name": "{name}", "comment": "report7"{said}}}"#);
        let made = here.site.post("/api/v1/reports", &form);
        assert_eq!(made.status, 201, "{made:?}");
        let shown = &made.json()["definition"]["history"];
        assert_eq!(shown.as_bool(), (!said.is_empty()).then_some(false));
    }
    send(&here.site);
    let history = await_condition("rows in memory", || {
        let history = of_history(&here.site);
        match history["memory_bytes"].as_u64() {
            Some(1..) => Ok(history),
            _ => Err(history),
        }
    });
    assert_eq!(history["error"], Json::Null, "{history}");
    let flushed = history["flushes"].as_u64().unwrap();
    pass(&here.site, &clock, 60_000);
    await_condition("a flush", || match of_history(&here.site)["flushes"].as_u64() {
        Some(now) if now > flushed => Ok(()),
        now => Err(now),
    });
    here.stop();
    let (rows, _) = on_disk(dir.path());
    let of = |name: &str| -> u64 {
        let rows = rows.iter().filter(|(at, _)| at.2 == name);
        rows.map(|(_, count)| count).sum()
    };
    assert_eq!((of("info"), of("made"), of("unwanted"), of("not")), (2, 1, 0, 0));
}

#[test]
fn a_folder_that_cannot_be_used_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(START_MS));
    let here = start(dir.path(), &clock);
    let file = dir.path().join("manifest");
    let setting = |dir: &Path| format!("history.dir={}", dir.display());
    for (command, dir, said) in [
        ("doctor", dir.path(), "is in use by another pinbad"),
        ("serve", &*file, "is not a folder"),
        ("check", &*file, "is not a folder"),
    ] {
        let mut other = pinbad();
        other.args([
            command,
            "--set",
            &setting(dir),
            "--set",
            "ingest.listen=127.0.0.1:0",
            "--set",
            "http.listen=127.0.0.1:0",
            "--set",
            "mysql.listen=127.0.0.1:0",
        ]);
        let ended = run(&mut other);
        let text = format!("{}{}", ended.out, ended.err);
        assert!(ended.code != Some(0) && text.contains(said), "{command}: {text}");
        assert!(text.contains("history.dir"), "{command}: {text}");
    }
    // Whoever comes second receives, and has the folder when the first has gone.
    let mut second = Program::serve(&[&setting(dir.path())]);
    let off = of_history(&second.site)["off"].to_string();
    assert!(off.contains("is in use by another pinbad"), "{off}");
    here.stop();
    await_condition("it has the folder", || {
        let history = of_history(&second.site);
        history["off"].is_null().then_some(()).ok_or(history)
    });
    second.signal("TERM");
    second.wait();
    // A manifest with which history would be off.
    let command = |command: &str| {
        let listen = ["ingest", "http", "mysql"].map(|it| format!("{it}.listen=127.0.0.1:0"));
        let mut other = pinbad();
        other.args([command, "--set", &setting(dir.path())]);
        listen.iter().for_each(|it| {
            other.args(["--set", it]);
        });
        run(&mut other)
    };
    assert_eq!(command("check").code, Some(0));
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    for name in ["doctor", "check"] {
        let ended = command(name);
        let text = format!("{}{}", ended.out, ended.err);
        assert_eq!(ended.code, Some(1), "{name}: {text}");
        assert_has!(text => "manifest is damaged", "history is off with it");
    }
}
