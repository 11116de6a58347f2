//! Where data is kept: one folder for all of it, the one that systemd names, a demo's own; and what
//! is said when it cannot be written.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value as Json, json};

use crate::harness::{Here, Program, await_until, pinbad, run};
use crate::packets::request;
use crate::restart::SmallDisk;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A daemon that finds its folder itself, as the units start it.
fn as_a_unit(folder: Option<&Path>) -> Command {
    let mut command = pinbad();
    command.env_remove("PINBAD_DATA_DIR");
    if let Some(folder) = folder {
        command.env("STATE_DIRECTORY", folder);
    }
    command
}

fn stop(mut program: Program) -> Vec<Json> {
    program.signal("TERM");
    let (status, _) = program.wait();
    assert_eq!(status.code(), Some(0), "{:?}", program.log());
    program.log()
}

#[test]
fn one_folder_has_what_survives_a_restart_and_the_past() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let dir = format!("data.dir={}", data.display());
    let program = Program::serve(&[&dir]);
    program.site.send([request("web", "shop", "/x")]);
    let log = stop(program);
    let kept =
        |line: &Json| line["message"] == "Keeping data on disk." && line["data"] == text(&data);
    assert!(log.iter().any(kept), "{log:?}");
    assert!(data.join("state/snapshot").is_file());
    assert_eq!(data.join("history/manifest").is_file(), cfg!(feature = "sql"));
    let program = Program::serve(&[&dir]);
    assert_eq!(program.site.status().count("requests_merged"), 1);
    if cfg!(feature = "sql") {
        let past = program.site.json("/api/v1/info?from=-1h");
        assert_eq!(past["req_count"], 1, "{past}");
    }
    stop(program);
    // What an older one kept in the folder itself is found there.
    let old = place.path().join("old");
    std::fs::create_dir(&old).unwrap();
    std::fs::copy(data.join("state/snapshot"), old.join("snapshot")).unwrap();
    let program = Program::serve(&[&format!("data.dir={}", old.display())]);
    assert_eq!(program.site.status().count("requests_merged"), 1);
    assert!(!old.join("state").exists());
}

#[test]
fn systemds_folder_is_taken_unless_the_configuration_names_another() {
    let place = tempfile::tempdir().unwrap();
    let [units, files] = ["units", "files"].map(|name| place.path().join(name));
    let config = place.path().join("pinbad.toml");
    std::fs::write(&config, format!("[data]\ndir = \"{}\"\n", files.display())).unwrap();
    let settings = ["data.dir=auto"];
    stop(Program::start_as(as_a_unit(Some(&units)), &["serve"], &settings));
    assert!(units.join("state/snapshot").is_file() && !files.exists());
    std::fs::remove_dir_all(&units).unwrap();
    // `--set` would win over the file: of it there is nothing here.
    let said = run(as_a_unit(Some(&units)).args(["check", "--config", text(&config)]));
    assert_eq!(said.code, Some(0), "{said:?}");
    let kept = format!("\n  data   state in {}/state", files.display());
    assert!(said.out.contains(&kept), "{said:?}");
    // Without any everything is in memory, and it is said what keeps it.
    let said = run(pinbad().args(["check"]));
    assert_has!(said.out => "--data DIR (data.dir) keeps it");
    let program = Program::serve(&[]);
    let refused = program.site.get("/api/v1/info?from=-1h");
    if cfg!(feature = "sql") {
        let detail = refused.problem(404);
        assert!(detail.contains("--data DIR (data.dir)"), "{detail}");
        let page = program.site.get("/").body;
        assert!(page.contains("--data DIR (data.dir)"), "{page}");
    }
    let log = stop(program);
    let said = |line: &Json| {
        line["message"].as_str().unwrap_or_default().ends_with("--data DIR (data.dir) keeps it.")
    };
    assert!(log.iter().any(said), "{log:?}");
}

#[cfg(feature = "sql")]
#[test]
fn a_demo_keeps_its_past_in_a_folder_that_goes_with_it() {
    let place = tempfile::tempdir().unwrap();
    let mut command = as_a_unit(None);
    command.env("TMPDIR", place.path());
    let program = Program::start_as(command, &["demo", "--rate", "200"], &["data.dir=auto"]);
    let count =
        |program: &Program| program.site.json("/api/v1/info?from=-1h")["req_count"].as_u64();
    await_until("it has a past", || count(&program), |count| *count > Some(100));
    let folders = || std::fs::read_dir(place.path()).unwrap().count();
    assert_eq!(folders(), 1);
    program.signal("HUP");
    let log = stop(program);
    assert!(!log.iter().any(|line| line["level"] == "ERROR" || line["level"] == "WARN"), "{log:?}");
    assert_eq!(folders(), 0);
}

/// `check` fails where the daemon could not write, and warns of secrets that everybody may read.
#[test]
fn check_tries_to_write_and_looks_at_who_may_read_secrets() {
    // Not even root makes a folder there.
    let said = run(pinbad().args(["check", "--data", "/sys/none"]));
    assert_eq!(said.code, Some(1), "{said:?}");
    let found = "state.dir: cannot make the folder /sys/none/state";
    assert_has!(said.err => found);
    assert_has!(said.out => "Settings are valid, but a folder cannot be used");
    let dir = tempfile::tempdir().unwrap();
    let [token, config] = ["token", "pinbad.toml"].map(|name| dir.path().join(name));
    std::fs::write(&token, "0123456789abcdef0123456789abcdef").unwrap();
    let user = format!("[[user]]\nname = \"a\"\ntoken_file = {token:?}\n");
    std::fs::write(&config, user).unwrap();
    for (mode, is_open) in [(0o644, true), (0o640, false)] {
        std::fs::set_permissions(&token, Permissions::from_mode(mode)).unwrap();
        let said = run(pinbad().args(["check", "--config", text(&config)]));
        assert_eq!(said.code, Some(0), "{said:?}");
        let warns = said.err.contains("Everybody on this machine can read this file");
        assert_eq!(warns && said.err.contains(text(&token)), is_open, "{said:?}");
    }
}

/// A read-only and a small disk: start, `check` and `doctor` find out, and pages and `/readyz` say
/// it; and no more once there is room.
#[test]
fn folders_that_cannot_be_written_are_found_at_the_start() {
    let Some(place) = SmallDisk::mount("8m") else {
        return;
    };
    let dir = format!("data.dir={}", place.path().display());
    let settings = [&*dir, "history.free_min=4MiB", "history.flush_period=1s"];
    stop(Program::serve(&settings));
    let beside = |http: &str, wrong: &[&str]| {
        for command in ["check", "doctor"] {
            let sets = settings.iter().flat_map(|setting| ["--set", setting]);
            let own = ["--udp", "127.0.0.1:0", "--http", http, "--mysql", "127.0.0.1:0"];
            let said = run(pinbad().arg(command).args(sets).args(own));
            let all = format!("{}{}", said.out, said.err);
            let is_wrong = !wrong.is_empty();
            assert_eq!(said.code, Some(i32::from(is_wrong)), "{said:?}");
            for wrong in wrong {
                assert!(all.contains(wrong), "{wrong}: {said:?}");
            }
        }
    };
    let commands = |wrong: &[&str]| beside("127.0.0.1:0", wrong);
    let detail = |program: &Program| program.site.get("/readyz").json()["detail"].clone();
    commands(&[]);
    // The last snapshot is small.
    let doctor = run(pinbad().arg("doctor").args(["--set", &dir]));
    assert_has!(doctor.out => "better  state.dir", "but a snapshot of full pools takes about 119.2 MiB");
    for (how, said, undo, advice) in [
        (
            "ro",
            "Read-only file system",
            "rw",
            "; mount it read-write; in a unit of systemd: ReadWritePaths=",
        ),
        (
            "full",
            "are needed (history.free_min)",
            "",
            "; make room on that disk, lower history.free_min",
        ),
    ] {
        let filler = place.path().join("filler");
        if how == "ro" {
            place.remount("ro");
            commands(&["state.dir", "ReadWritePaths="]);
        } else {
            std::fs::write(&filler, vec![1; 6 << 20]).unwrap();
            if cfg!(feature = "sql") {
                commands(&[
                    "history.dir",
                    "4MiB are needed (history.free_min)",
                    "make room on that disk",
                ]);
            }
        }
        let program = Program::serve(&settings);
        if how == "ro" {
            let log = program.log();
            let found = |line: &Json| {
                line["message"]
                    .as_str()
                    .unwrap_or_default()
                    .starts_with("No snapshot can be written")
            };
            let line = log.iter().find(|line| found(line)).unwrap();
            assert_has!(line["error"].to_string() => advice);
            let keeps =
                |line: &Json| line["message"].as_str().unwrap_or_default().starts_with("Keeping");
            assert!(!log.iter().any(keeps), "it cannot: {log:?}");
            let status = program.site.status();
            assert_eq!(status.0["snapshot"]["failing"], 1, "{status:?}");
        }
        if cfg!(feature = "sql") {
            let detail = detail(&program);
            assert_has!(detail.as_str().unwrap_or_default() => said, advice);
            let log = program.log();
            let lines = log.iter().filter(|line| line["level"] == "ERROR").map(Json::to_string);
            assert!(lines.clone().any(|line| line.contains("istory")), "{log:?}");
            lines.for_each(|line| assert_has!(line => advice));
            for page in ["/", "/daemon"] {
                let page = program.site.get(page).body;
                assert!(page.contains("istory is"), "{page}");
                assert_has!(page => said, advice);
            }
            assert_eq!(program.site.status().0["history"]["failing"], 1);
            let page = program.site.get("/daemon").body;
            let told = page.contains("The disk for history is full: ");
            assert_eq!(told, how == "full", "{how}: {page}");
            let wrong = if how == "ro" { "ReadWritePaths=" } else { "make room on that disk" };
            beside(&program.site.http.to_string(), &[wrong]);
        }
        program.site.send([request("web", "shop", "/x")]);
        if undo.is_empty() {
            std::fs::remove_file(&filler).unwrap();
        } else {
            place.remount("rw");
        }
        await_until("all is well again", || detail(&program), |detail| *detail == json!(null));
        stop(program);
    }
    // A folder that is not even there: that it is made again shows below.
    place.remount("ro");
    let none = place.path().join("none");
    let said = run(pinbad().args(["check", "--data", text(&none)]));
    assert_eq!(said.code, Some(1), "{said:?}");
    assert_has!(said.err => "state.dir: cannot make the folder", "; mount it read-write;");
    let dir = format!("data.dir={}", none.display());
    let program = Program::serve(&[&dir, "history.free_min=4MiB"]);
    program.site.send([request("web", "shop", "/x")]).assert_accounted();
    let said = detail(&program).to_string();
    assert_has!(said => "no snapshot can be written: state.dir: cannot make the folder", "mount it");
    assert_eq!(said.contains("history is off"), cfg!(feature = "sql"), "{said}");
    place.remount("rw");
    await_until("all is well again", || detail(&program), |detail| *detail == json!(null));
    stop(program);
    assert!(none.join("state/snapshot").is_file());
}

/// Long before the next snapshot is due.
#[test]
fn a_folder_that_cannot_be_written_any_more_is_found_within_a_minute() {
    let Some(place) = SmallDisk::mount("1m") else {
        return;
    };
    let dir = format!("state.dir={}", place.path().join("state").display());
    let (here, clock) = Here::with_manual_clock(&[&dir]);
    let ready = || here.site.get("/readyz");
    for (how, ms, is_said) in [("ro", 60_000, true), ("rw", 5_000, false)] {
        place.remount(how);
        clock.advance_ms(ms);
        // Right after that the merger has not run for a minute.
        await_until(how, ready, |it| it.status == 200 && it.body.contains("state.dir") == is_said);
    }
}

/// A clock that was ahead has left later times in snapshot and history; a start says by how much.
#[test]
fn a_clock_that_was_ahead_is_said_at_the_start() {
    let place = tempfile::tempdir().unwrap();
    let dir = format!("data.dir={}", place.path().display());
    let now = || std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    let is_behind = |log: &[Json]| {
        let mut lines = log.iter().filter(|line| line["level"] == "WARN");
        lines.any(|line| {
            let message = line["message"].as_str().unwrap_or_default();
            message.contains("the wall clock is 1h59m")
                && message.contains("behind what was stored last")
        })
    };
    for (ahead_ms, expected) in [(0, false), (7_199_000, true)] {
        let (here, clock) = Here::with_manual_clock(&[&dir]);
        clock.set_unix_ms(now() + ahead_ms);
        here.site.send([request("web", "shop", "/x")]);
        drop(here);
        let program = Program::serve(&[&dir]);
        let ready = program.site.json("/readyz").to_string();
        let page = program.site.get("/daemon").body;
        for said in [ready, page] {
            assert_eq!(said.contains("the wall clock is 1h59m"), expected, "{said}");
        }
        let log = stop(program);
        assert_eq!(is_behind(&log), expected, "{log:?}");
    }
}

/// A new folder on a disk without room: packets are received, and it is said what is not kept; once
/// there is room, the folder is made and used.
#[test]
fn without_room_for_a_new_folder_it_starts_all_the_same() {
    // One for the folder of the disk itself.
    let Some(place) = SmallDisk::mount("1m,nr_inodes=12") else {
        return;
    };
    let fillers = (0..11).map(|n| place.path().join(format!("filler-{n}")));
    let fillers: Vec<_> = fillers.inspect(|it| std::fs::write(it, "").unwrap()).collect();
    let new = place.path().join("new");
    let dir = format!("state.dir={}", new.display());
    let program = Program::serve(&[&dir]);
    program.site.send([request("web", "shop", "/x")]).assert_accounted();
    let detail = |program: &Program| program.site.get("/readyz").json()["detail"].clone();
    let said = detail(&program);
    assert_has!(said.as_str().unwrap_or_default() => "state.dir", "No space left", "make room");
    assert_eq!(program.site.status().count("requests_merged"), 1);
    let event = || program.site.post("/api/v1/annotations", r#"{"text": "1.2"}"#);
    assert_has!(event().problem(507) => "cannot write", "the folder could not be made yet");
    fillers[..9].iter().for_each(|it| std::fs::remove_file(it).unwrap());
    await_until("there is room", || detail(&program), |said| *said == json!(null));
    await_until("a kill would be noticed", || new.join("running").exists(), |is| *is);
    assert_eq!(event().json()["persistent"], true);
    let log = stop(program);
    assert!(log.iter().any(|line| line["level"] == "ERROR"), "{log:?}");
    let program = Program::serve(&[&dir]);
    assert_eq!(program.site.status().count("requests_merged"), 1);
    assert_has!(program.site.get("/api/v1/annotations").body => "1.2");
}

/// A kill takes neither the live reports, as far as history had them, nor what one knows about it;
/// and nothing counts twice, whatever comes next.
#[cfg(feature = "sql")]
#[test]
fn after_a_kill_history_refills_live_reports() {
    let place = tempfile::tempdir().unwrap();
    let dir = format!("data.dir={}", place.path().display());
    let settings = [&*dir, "history.flush_period=1s", "state.snapshot_period=0"];
    let report = "/api/v1/reports/report_by_script_name?percentiles=95";
    let count = |program: &Program| program.site.json("/api/v1/info")["req_count"].as_u64();
    let begun = std::time::Instant::now();
    let covered = |program: &Program| program.site.json(report)["covered_seconds"].as_u64();
    let is_warned = |log: &[Json]| {
        let warned = log.iter().filter(|line| {
            line["message"].as_str().unwrap_or_default().starts_with("The last end was not clean")
        });
        warned.count()
    };
    let mut program = Program::serve(&settings);
    program.site.send((0..90).map(|n| request("web", "shop", &format!("/{}", n % 3))));
    let before = program.site.json(report);
    assert_eq!(before.get("refilled"), None);
    let on_disk = || {
        let history = program.site.status().0["history"].clone();
        let manifest = pinbad::history::inspect::list(&place.path().join("history")).unwrap();
        let rows = manifest.iter().filter(|held| held.report == "info").map(|held| held.rows);
        (rows.sum::<u64>(), history["memory_bytes"].as_u64(), history["flushes"].as_u64())
    };
    let (_, _, flushes) = await_until("it is on disk", on_disk, |found| found.0 > 0);
    await_until("and all of it", on_disk, |found| found.2 > flushes.map(|it| it + 1));
    assert_eq!(is_warned(&program.log()), 0);
    program.signal("KILL");
    program.wait();

    let mut program = Program::serve(&settings);
    assert_eq!(is_warned(&program.log()), 1, "{:?}", program.log());
    let after = program.site.json(report);
    let refilled = &after["refilled"];
    assert!(
        refilled["from"].as_u64() < refilled["to"].as_u64() && refilled["resolution_seconds"] == 60,
        "{after}"
    );
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    assert!(refilled["to"].as_u64() <= Some(now), "{after}");
    let rows = |answer: &Json| {
        let columns = ["script_name", "req_count", "req_time_total", "p95"];
        let rows = answer["rows"].as_array().unwrap().iter();
        let mut rows: Vec<String> =
            rows.map(|row| format!("{:?}", columns.map(|it| row[it].clone()))).collect();
        rows.sort_unstable();
        rows
    };
    assert_eq!(rows(&after), rows(&before));
    let info = program.site.json("/api/v1/info");
    assert_eq!((&info["req_count"], &info["refilled"]), (&json!(90), refilled));
    assert_has!(program.site.get("/daemon").body => "These counters go on from the last snapshot");
    // Without requests too, time goes on.
    let first = covered(&program).unwrap();
    await_until("time goes on", || covered(&program), |it| *it >= Some(first + 2));
    // History has nothing of a report that is made only now.
    let late = r#"{"name": "late", "level": "request", "keys": ["schema"]}"#;
    assert_eq!(program.site.post("/api/v1/reports", late).status, 201);
    let late = program.site.json("/api/v1/reports/late");
    assert_eq!(late.get("refilled"), None, "{late}");
    assert_has!(late["partial"].to_string() => "is lost to late: history has no rows of it");
    // The hosts of a script are of such a report too.
    let row = "/reports/report_by_script_name/row?script_name=/0";
    for (page, lacking) in [
        ("/reports/late", Some("late")),
        (row, Some("report_by_hostname_and_script")),
        ("/reports/report_by_script_name", None),
    ] {
        let page = program.site.get(page).body;
        assert_eq!(page.matches(" is lost to ").count(), lacking.iter().len(), "{page}");
        lacking.iter().for_each(|name| assert_has!(page => format!(" is lost to {name}: ")));
    }
    assert_has!(program.site.get(row).body => "Nothing since the start.");
    let sql = program.site.sql("SELECT SUM(req_count) FROM report_by_script_name");
    assert_eq!(
        sql[0][0].as_f64().or(sql[0][0].as_str().and_then(|it| it.parse().ok())),
        Some(90.0),
        "{sql}"
    );
    let page = program.site.get("/").body;
    for said in [
        "reports hold what history kept of them, by the minute; the rest is lost",
        "and so are the raw requests since the last snapshot",
        "since the first minute from history in the 15 min window",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    // A note above the charts says so.
    assert_lacks!(page => "Live charts start over");
    let log = format!("{:?}", program.log());
    assert!(log.contains("what came later is lost"), "{log}");
    // What comes now counts beside it; a clean stop keeps both, and so does another kill.
    program.site.send((0..10).map(|_| request("web", "shop", "/0")));
    assert_eq!(count(&program), Some(100));
    program.signal("TERM");
    assert_eq!(program.wait().0.code(), Some(0));
    let mut program = Program::serve(&settings);
    assert_eq!(is_warned(&program.log()), 0);
    assert_eq!(count(&program), Some(100));
    // The snapshot ends within a minute, of which history has the rest.
    program.site.send((0..7).map(|_| request("web", "shop", "/0")));
    let flushed = || program.site.status().0["history"]["flushes"].as_u64();
    let before = flushed().unwrap();
    await_until("they are on disk", flushed, |now| *now > Some(before + 2));
    program.signal("KILL");
    program.wait();
    // Twice, the second time before there is another snapshot.
    for _ in 0..2 {
        let mut program = Program::serve(&settings);
        assert_eq!(is_warned(&program.log()), 1);
        assert_eq!(count(&program), Some(107));
        assert!(covered(&program) <= Some(begun.elapsed().as_secs() + 1), "no second counts twice");
        program.signal("KILL");
        program.wait();
    }
    // What took the place of the lost is missing without that history, and back with it.
    let (history, away) = (place.path().join("history"), place.path().join("away"));
    stop(Program::serve(&settings));
    std::fs::rename(&history, &away).unwrap();
    let program = Program::serve(&settings);
    assert_ne!(count(&program), Some(107));
    let ready = program.site.json("/readyz")["detail"].to_string();
    let partial = program.site.json("/api/v1/info")["partial"].to_string();
    let log = format!("{:?}", stop(program));
    for said in [ready, partial, log] {
        assert!(said.contains("history, which had it, does not have it now"), "{said}");
    }
    std::fs::remove_dir_all(&history).unwrap();
    std::fs::rename(&away, &history).unwrap();
    let mut program = Program::serve(&settings);
    assert_eq!(count(&program), Some(107));
    // Emptied is emptied.
    assert_eq!(program.site.post("/api/v1/reset", "{}").status, 200);
    for _ in 0..2 {
        assert_eq!(count(&program), Some(0));
        program.signal("KILL");
        program.wait();
        program = Program::serve(&settings);
        let log = program.log();
        let warned = log.iter().find(|line| line["message"].to_string().contains("was not clean"));
        assert_eq!(warned.unwrap().get("snapshot"), None, "nothing of it is back: {log:?}");
    }
    // Nor does it come back where the snapshot of a clean stop does not.
    for _ in 0..2 {
        stop(program);
        std::fs::remove_file(place.path().join("state/snapshot")).unwrap();
        program = Program::serve(&settings);
        assert_eq!(count(&program), Some(0));
    }
}

/// A snapshot that is older than history is noticed.
#[cfg(feature = "sql")]
#[test]
fn an_old_snapshot_does_not_take_away_what_history_has() {
    let place = tempfile::tempdir().unwrap();
    let dir = format!("data.dir={}", place.path().display());
    let settings = [&*dir, "history.flush_period=60s", "state.snapshot_period=0"];
    let (snapshot, old) = (place.path().join("state/snapshot"), place.path().join("old"));
    let count = |program: &Program| program.site.json("/api/v1/info")["req_count"].as_u64();
    for (number, sum) in [(50, 50), (30, 80)] {
        let program = Program::serve(&settings);
        program.site.send((0..number).map(|_| request("web", "shop", "/a")));
        assert_eq!(count(&program), Some(sum));
        stop(program);
        if number == 50 {
            std::fs::copy(&snapshot, &old).unwrap();
            // Files have whole seconds.
            std::thread::sleep(std::time::Duration::from_millis(1_100));
        }
    }
    std::fs::copy(&old, &snapshot).unwrap();
    for is_old in [true, false] {
        let program = Program::serve(&settings);
        assert_eq!(count(&program), Some(80));
        let log = format!("{:?}", stop(program));
        assert_eq!(log.contains("The snapshot is older than history"), is_old, "{log}");
    }
}

/// What the log of seconds kept through a kill is in live reports as it is in history.
#[cfg(feature = "sql")]
#[test]
fn after_a_kill_live_reports_have_what_the_log_of_seconds_kept() {
    let place = tempfile::tempdir().unwrap();
    let dir = format!("data.dir={}", place.path().display());
    let settings = [&*dir, "history.flush_period=60s", "state.snapshot_period=0"];
    let mut program = Program::serve(&settings);
    // Meanwhile a minute may end, which writes files and begins the log anew, without rows.
    let before = std::cell::Cell::new(0);
    await_until(
        "the log has some of them",
        || {
            program.site.send([request("web", "shop", "/a")]);
            program.site.status().0["history"]["log_disk_bytes"].as_u64()
        },
        |bytes| bytes.is_some_and(|it| (1..it).contains(&before.replace(it))),
    );
    program.signal("KILL");
    program.wait();

    let mut program = Program::serve(&settings);
    let sql = "SELECT SUM(req_count) FROM history.info";
    let kept = program.site.sql(sql)[0][0].to_string();
    let kept: u64 = kept.trim_matches('"').parse().unwrap();
    assert!(kept > 0);
    let count = |program: &Program| program.site.json("/api/v1/info")["req_count"].as_u64();
    assert_eq!(count(&program), Some(kept));
    program.signal("KILL");
    program.wait();
    assert_eq!(count(&Program::serve(&settings)), Some(kept));
}

/// Neither a disk that is still full nor a history that comes back later takes away what it has.
#[cfg(feature = "sql")]
#[test]
fn what_history_cannot_write_or_read_at_the_start_refills_live_reports() {
    let place = tempfile::tempdir().unwrap();
    let dir = format!("data.dir={}", place.path().display());
    let settings = [&*dir, "history.flush_period=1h", "state.snapshot_period=0"];
    let full = [&settings[..], &["history.free_min=1TiB"]].concat();
    let count = |program: &Program| program.site.json("/api/v1/info")["req_count"].as_u64();
    let kill = |mut program: Program| {
        program.signal("KILL");
        program.wait();
    };
    let mut program = Program::serve(&settings);
    program.site.send((0..90).map(|_| request("web", "shop", "/a")));
    let logged = || program.site.status().0["history"]["log_disk_bytes"].as_u64();
    let kept = || program.site.json("/api/v1/info?from=-1h")["req_count"].as_u64();
    await_until("history has them", kept, |kept| *kept == Some(90));
    let before = logged();
    await_until("they are logged", logged, |bytes| *bytes > before);
    program.signal("KILL");
    program.wait();

    kill(Program::serve(&full));
    // With room in the end they come to files, without which a missing manifest is not noticed.
    for settings in [&full[..], &settings] {
        let program = Program::serve(settings);
        assert_eq!(count(&program), Some(90));
        kill(program);
    }
    let (manifest, away) = (place.path().join("history/manifest"), place.path().join("away"));
    std::fs::rename(&manifest, &away).unwrap();
    let off = Program::serve(&settings);
    assert_ne!(count(&off), Some(90));
    off.site.send((0..5).map(|_| request("web", "shop", "/a")));
    let ready = off.site.json("/readyz")["detail"].to_string();
    assert!(ready.contains("history cannot be read yet"), "{ready}");
    std::fs::rename(&away, &manifest).unwrap();
    await_until("history is back", || count(&off), |found| *found == Some(95));
    let ready = off.site.json("/readyz");
    assert!(!ready.to_string().contains("live reports lack"), "{ready}");
    stop(off);
    let program = Program::serve(&settings);
    assert_eq!(count(&program), Some(95));
    kill(program);
    // A clean stop does not lose what is in the log.
    let log = format!("{:?}", stop(Program::serve(&full)));
    assert!(!log.contains("are lost with the end of the process"), "{log}");
}
