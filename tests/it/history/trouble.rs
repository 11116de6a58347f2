//! History where things go wrong: a disk that takes nothing, a clock that is wrong, too little
//! memory, files of a newer program.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pinbad::clock::ManualClock;
use pinbad::history::Resolution;
use pinbad::history::inspect::{self, HeldRows};
use prost::Message as _;
use serde_json::{Value as Json, json};

use super::killed::known;
use super::{START_MS, of_history, start};
use crate::harness::{
    Here, Program, Sender, Site, await_condition, await_until, pass, pinbad, run,
};
use crate::packets::request;
use crate::restart::SmallDisk;

/// Waits until the status of history is so.
fn until(site: &Site, what: &str, is: impl Fn(&Json) -> bool) -> Json {
    await_until(what, || of_history(site), |history| is(history))
}

fn count(history: &Json, name: &str) -> u64 {
    history[name].as_u64().unwrap()
}

/// Nothing is lost but time: what cannot be written stays in memory and in every answer, packets go
/// on, and it is written as soon as there is room.
#[test]
fn while_the_disk_takes_nothing_everything_else_goes_on() {
    let Some(place) = SmallDisk::mount("2m") else {
        return;
    };
    let filler = place.path().join("filler");
    let dir = format!("history.dir={}", place.path().join("history").display());
    let settings = [&dir, "history.flush_period=1s", "history.free_min=0"];
    let mut program = Program::serve(&settings);
    let site = program.site.clone();
    let mut sender = Sender::new(&site);
    let mut sent = 0;
    let mut send = |count: u64| {
        for n in 0..count {
            sender.send(&request("h", "s", &format!("/{n}")).encode_to_vec());
        }
        sent += count;
        sender.at_rest().assert_accounted();
        await_condition("history knows all", || match known(&site) {
            all if all == sent => Ok(()),
            some => Err((some, sent)),
        });
        sent
    };
    send(50);
    until(&site, "a flush", |it| count(it, "flushes") > 0);
    fs::write(&filler, vec![1; 4 << 20]).unwrap_err();
    send(200);
    // The log of seconds fails first, and counts as well.
    let history =
        until(&site, "it fails", |it| count(it, "failures") > 2 && it["error"].is_string());
    let error = history["error"].as_str().unwrap();
    assert!(error.starts_with("history.dir: cannot"), "{history}");
    send(200);
    fs::remove_file(&filler).unwrap();
    let flushes = count(&history, "flushes");
    let history = until(&site, "it is written again", |it| {
        count(it, "flushes") > flushes && it["error"].is_null()
    });
    assert_eq!(count(&history, "rows_lost"), 0, "{history}");
    let flushes = count(&of_history(&site), "flushes");
    until(&site, "two flushes", |it| count(it, "flushes") > flushes + 1);
    let sent = send(0);
    let log = await_until(
        "the log says that it is back",
        || program.log(),
        |log| log.iter().any(|line| line["message"] == "There is a log of seconds again."),
    );
    let said = "Cannot write history: it stays in memory, and is tried again.";
    // Several attempts failed, for one reason.
    assert_eq!(log.iter().filter(|line| line["message"] == said).count(), 1, "{log:?}");
    program.signal("KILL");
    program.wait();
    // On a disk that it cannot write it starts and receives all the same, and says why it keeps
    // nothing.
    place.remount("ro");
    let mut program = Program::serve(&settings);
    let site = program.site.clone();
    let history = until(&site, "it is off", |it| it["off"].is_string());
    let off = history["off"].as_str().unwrap();
    assert!(off.starts_with("history.dir: cannot"), "{off}");
    site.send((0..100).map(|n| request("h", "s", &format!("/{n}")))).assert_accounted();
    assert!(inspect::verify(&place.path().join("history")).unwrap().problems.is_empty());
    // It goes on by itself, and nothing is lost.
    place.remount("rw");
    until(&site, "it is on", |it| it["off"].is_null());
    await_condition("history knows all", || match known(&site) {
        all if all == sent + 100 => Ok(()),
        some => Err((some, sent + 100)),
    });
    let is_on = |line: &Json| {
        let said = line["message"].as_str().unwrap_or_default();
        said.starts_with("History is on again")
    };
    await_condition("it says so", || match program.log() {
        log if log.iter().any(is_on) => Ok(()),
        log => Err(log),
    });
    program.signal("TERM");
    assert_eq!(program.wait().0.code(), Some(0));
    assert_eq!(known(&Program::serve(&settings).site), sent + 100);
}

/// A stop while the disk takes nothing says once what is lost with it.
#[test]
fn a_stop_with_a_full_disk_says_once_what_is_lost() {
    let Some(place) = SmallDisk::mount("2m") else {
        return;
    };
    let dir = format!("history.dir={}", place.path().join("history").display());
    let mut program = Program::serve(&[&dir, "history.flush_period=1h", "history.free_min=0"]);
    fs::write(place.path().join("filler"), vec![1; 4 << 20]).unwrap_err();
    let site = program.site.clone();
    site.send((0..50).map(|n| request("h", "s", &format!("/{n}")))).assert_accounted();
    await_condition("history knows all", || match known(&site) {
        50 => Ok(()),
        some => Err(some),
    });
    let said = "There is no log of seconds until history is written the next time.";
    let log = await_until(
        "the log of seconds ends",
        || program.log(),
        |log| log.iter().any(|line| line["message"] == said),
    );
    let before = log.len();
    program.signal("TERM");
    assert_eq!(program.wait().0.code(), Some(1));
    let log = program.log();
    let of_history = |line: &&Json| line.to_string().contains("istory");
    let said: Vec<_> = log[before..].iter().filter(of_history).collect();
    // Later answers cannot say it: there is no room to write it down.
    let [lost, unwritten] = &said[..] else { panic!("{said:#?}") };
    assert_eq!((&lost["level"], &lost["requests"]), (&"ERROR".into(), &50.into()), "{lost}");
    assert_eq!(unwritten["level"], "WARN", "{unwritten}");
    assert!(lost["rows"].as_u64() > Some(50), "{lost}");
    assert_has!(lost["rows_by_report"].to_string() => "info: 1", "report_by_script_name: 50");
    assert_has!(lost["why"].to_string() => "history.dir: cannot");
}

/// What a stop could not write is missing in answers over the past, which say so from then on; of
/// the minute in which history begins they say how much they have.
#[test]
fn what_a_stop_lost_is_said_by_later_processes() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(START_MS + 17_000));
    let state = format!("state.dir={}", dir.path().join("state").display());
    let start = |free_min: &str| {
        let others = [&*state, "history.requests=all", free_min];
        Here::with_history(&dir.path().join("history"), &clock, &others)
    };
    let send = |here: &Here| {
        here.site.send((0..30).map(|n| request("h", "s", &format!("/{n}")))).assert_accounted();
        pass(&here.site, &clock, 1_000);
    };
    let here = start("history.free_min=1TiB");
    send(&here);
    let counted = || known(&here.site);
    await_until("history knows them", counted, |counted| *counted == 30);
    drop(here);
    clock.advance_ms(2_000);
    let here = start("history.free_min=0");
    send(&here);
    pass(&here.site, &clock, 100_000);
    let minute = "2024-02-28T23:00:00Z";
    let begin = format!(
        "nothing is kept from before {minute}, and only 40 s of the minute that began then"
    );
    let said = || {
        let answer = here.site.json("/api/v1/info?from=0&to=4000000000");
        (known(&here.site), answer["partial"].to_string())
    };
    await_until("all is counted", said, |(count, said)| *count == 30 && said.contains(&begin));
    assert_eq!(here.site.json("/api/v1/info")["req_count"], 60);
    here.stop();
    let here = start("history.free_min=0");
    let (count, said) = answered(&here.site);
    let lost = "lost at a stop that could not write history";
    let span = format!("from {minute} to 2024-02-28T23:00:18Z");
    assert_eq!(count, 30);
    assert_has!(said => begin, format!("{lost}: what was counted {span}"));
    let asked = |path: &str, from_secs: u64| {
        let from = START_MS / 1_000 + from_secs;
        here.site.json(&format!("{path}?from={from}&to=4000000000"))["partial"].to_string()
    };
    let said = asked("/api/v1/requests", 0);
    assert_has!(said => format!("{lost}: 30 requests {span}"));
    for path in ["/api/v1/requests", "/api/v1/info"] {
        assert!(!asked(path, 60).contains("lost at a stop"), "{path}");
    }
    here.stop();
}

/// A bit of the manifest has flipped: what comes is received, and what came is there when somebody
/// has mended it.
#[test]
fn a_damaged_manifest_switches_history_off_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(START_MS));
    let send = |here: &Here| {
        here.site.send((0..30).map(|n| request("h", "s", &format!("/{n}")))).assert_accounted();
        pass(&here.site, &clock, 1_000);
    };
    let here = start(dir.path(), &clock);
    assert_eq!(here.site.get("/readyz").json(), json!({"status": "ready"}));
    send(&here);
    here.stop();
    let manifest = dir.path().join("manifest");
    let whole = fs::read(&manifest).unwrap();
    let mut damaged = whole.clone();
    damaged[20] ^= 1;
    fs::write(&manifest, damaged).unwrap();
    let here = start(dir.path(), &clock);
    send(&here);
    let ready = here.site.get("/readyz");
    assert_eq!((ready.status, ready.json()["status"].as_str()), (200, Some("ready")));
    let detail = ready.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.starts_with("history is off: history.dir: "), "{detail}");
    assert!(detail.contains("is damaged"), "{detail}");
    assert_has!(here.site.get("/daemon").body => "history is off: ");
    let page = here.site.get("/").body;
    assert_eq!(page.matches("history is off: ").count(), 1, "{page}");
    let refused = here.site.get("/api/v1/info?from=-1h");
    let said = refused.problem(refused.status);
    assert!(said.contains("is damaged"), "{said}");
    // SQL has the tables, and says the same.
    let of_sql = |table: &str| {
        let query = json!({"query": format!("SELECT * FROM history.{table}")});
        here.site.post("/api/v1/sql", &query.to_string())
    };
    for table in ["info", "request", "coverage"] {
        let refused = of_sql(table);
        let said = refused.problem(503);
        assert_has!(said => "history is off: history.dir: ", "is damaged");
    }
    assert_has!(of_sql("none").problem(400) => "doesn't exist");
    let names = here.site.sql("SHOW TABLES FROM history").to_string();
    assert_has!(names => "coverage", "\"request\"", "report_by_script_name");
    fs::write(&manifest, whole).unwrap();
    until(&here.site, "it is tried again", |it| {
        clock.advance_ms(1_000);
        it["off"].is_null()
    });
    assert_eq!(known(&here.site), 60);
    let all = "SELECT SUM(req_count) FROM history.report_by_script_name";
    assert_eq!(here.site.sql(all), json!([[60]]));
    here.site.sql("SELECT COUNT(*) FROM history.request");
    here.stop();
    let here = start(dir.path(), &clock);
    assert_eq!(known(&here.site), 60);
    here.stop();
}

/// On a disk that is full to the last byte old files go all the same.
#[test]
fn a_disk_that_others_have_filled_gets_room_by_old_files() {
    let Some(place) = SmallDisk::mount("4m") else {
        return;
    };
    let dir = place.path().join("history");
    let clock = Arc::new(ManualClock::new(START_MS));
    published_day(&dir, &clock);
    let setting = format!("history.dir={}", dir.display());
    // More than a manifest that is written anew gives back.
    let settings = [&setting, "history.flush_period=1s", "history.free_min=256KiB"];
    let fill = |name: &str| {
        fs::write(place.path().join(name), vec![1; 8 << 20]).unwrap_err();
    };
    // While it runs, and before a start.
    let mut program = Program::serve(&settings);
    fill("filler");
    for _ in 0..2 {
        let history = until(&program.site, "files make room", |it| {
            count(it, "files_removed_by_free_space") > 0 && it["error"].is_null()
        });
        assert!(count(&history, "files") > 0, "not all go: {history}");
        assert!(history["off"].is_null(), "{history}");
        program.signal("KILL");
        program.wait();
        fill("more");
        program = Program::serve(&settings);
        program.site.send([request("web", "shop", "/x")]).assert_accounted();
    }
}

/// A day of minutes and hours that are published.
fn published_day(dir: &Path, clock: &Arc<ManualClock>) {
    let here = start(dir, clock);
    for _ in 0..30 {
        here.site.send([request("web", "shop", "/x")]);
        pass(&here.site, clock, 3_600_000);
    }
    await_condition("hours are published", || {
        clock.advance_ms(1_000);
        let held = inspect::list(dir).unwrap();
        let of_info = |it: &&HeldRows| it.report == "info" && it.resolution == Resolution::Minute;
        match held.iter().find(of_info) {
            Some(HeldRows { files: 29.., .. }) => Ok(()),
            held => Err(held.cloned()),
        }
    });
    here.stop();
}

/// Booted with a clock that is a year ahead, and set right an hour later: rows of the last weeks
/// are there still.
#[test]
fn a_clock_that_is_far_ahead_for_a_while_deletes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(START_MS));
    published_day(dir.path(), &clock);
    let right_ms = pinbad::clock::Clock::unix_ms(&*clock);
    clock.set_unix_ms(right_ms + 3 * 365 * 86_400_000);
    for _ in 0..2 {
        let here = start(dir.path(), &clock);
        for _ in 0..30 {
            pass(&here.site, &clock, 60_000);
        }
        // Before the second of them it was looked for what is too old.
        let history = until(&here.site, "two flushes", |it| {
            clock.advance_ms(1_000);
            count(it, "flushes") > 1
        });
        assert_eq!(count(&history, "files_expired"), 0, "{history}");
        here.stop();
    }
    clock.set_unix_ms(right_ms + 3_600_000);
    let here = start(dir.path(), &clock);
    assert_eq!(known(&here.site), 30);
    let files: Vec<_> = minutes(dir.path());
    assert!(files.len() > 24, "{files:?}");
    here.stop();
}

/// The published minutes of `info`.
fn minutes(dir: &Path) -> Vec<PathBuf> {
    let folder = dir.join("rollup/report=info/resolution=minute");
    let dates = fs::read_dir(folder).unwrap();
    let files = dates.flat_map(|date| fs::read_dir(date.unwrap().path()).unwrap());
    files.map(|file| file.unwrap().path()).collect()
}

/// Answers that lack folded keys say so, also after a restart.
#[test]
fn what_found_no_memory_is_said_in_answers() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(START_MS));
    let start = || {
        let dir = format!("history.dir={}", dir.path().display());
        let settings = [&dir, "history.free_min=0", "history.memory=4MiB"];
        Here::with_clock(&settings, Arc::clone(&clock) as Arc<_>)
    };
    let here = start();
    for _ in 0..3 {
        here.site.send((0..12_000).map(|n| request("web", "shop", &format!("/script/{n}"))));
        pass(&here.site, &clock, 1_000);
    }
    let partial = |here: &Here, report: &str| {
        let target = format!("/api/v1/reports/{report}?from=0&to=4000000000");
        here.site.json(&target)["partial"].to_string()
    };
    let said = await_condition("it is said how many keys were folded", || {
        let said = partial(&here, "report_by_script_name");
        let folded = of_history(&here.site)["keys_folded"].clone();
        let text = format!("{folded} keys of a second or a minute are in (other)");
        match said.contains(&text) {
            true => Ok(said),
            false => Err((folded, said)),
        }
    });
    assert!(!said.contains("\"0 rows"), "{said}");
    here.stop();
    let here = start();
    let said = partial(&here, "report_by_script_name");
    assert_has!(said => "keys of a second or a minute are in (other)");
    let said = partial(&here, "report_by_hostname");
    assert!(!said.contains("(other)"), "{said}");
    here.stop();
}

#[test]
fn what_a_newer_program_wrote_stays_as_it_is_and_the_rest_works() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(START_MS));
    published_day(dir.path(), &clock);
    let json = r#"{"format":7,"something":"else"}"#;
    let line = format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()));
    fs::write(dir.path().join("manifest"), line).unwrap();
    let listing = || {
        let mut found = Vec::new();
        let mut folders = vec![dir.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                } else {
                    let modified = entry.metadata().unwrap().modified().unwrap();
                    found.push((entry.path(), modified, fs::read(entry.path()).unwrap()));
                }
            }
        }
        found.retain(|(path, ..)| !path.ends_with("lock"));
        found.sort();
        found
    };
    let before = listing();
    let setting = format!("history.dir={}", dir.path().display());
    let mut program = Program::serve(&[&setting, "history.flush_period=1s"]);
    let site = &program.site;
    site.send((0..100).map(|n| request("h", "s", &format!("/{n}")))).assert_accounted();
    assert_eq!(site.json("/api/v1/info")["req_count"], 100);
    let off = of_history(site)["off"].to_string();
    assert!(off.contains("has format 7"), "{off}");
    let refused = site.get("/api/v1/info?from=-1h");
    let said = refused.problem(refused.status);
    assert!(said.contains("has format 7"), "{said}");
    let log = program.log();
    let off = |line: &Json| {
        let said = line["message"].as_str().unwrap_or_default();
        line["level"] == "ERROR" && said.starts_with("History is off")
    };
    assert!(log.iter().any(off), "{log:?}");
    program.signal("TERM");
    assert_eq!(program.wait().0.code(), Some(1));
    assert_eq!(listing(), before);
    let is_lost = |line: &&Json| {
        let said = line["message"].as_str().unwrap_or_default();
        said.ends_with("are lost with the end of the process.")
    };
    let log = program.log();
    let lost = log.iter().find(is_lost).unwrap();
    assert_eq!(lost["requests"], 100, "{lost}");
    assert!(lost["rows"].as_u64() >= Some(3), "{lost}");
    assert_has!(lost["rows_by_report"].to_string() => "report_by_script_name: 100");
    assert_has!(lost["why"].to_string() => "has format 7");
    // Nobody came, so nothing is lost.
    let mut program = Program::serve(&[&setting, "history.flush_period=1s"]);
    until(&program.site, "it is off", |it| it["off"].is_string());
    program.signal("TERM");
    assert_eq!(program.wait().0.code(), Some(0));
    assert!(!program.log().iter().any(|it| is_lost(&it)));
}

/// The pieces of a folder.
fn pieces(dir: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(dir.join("pending")).unwrap();
    let mut found: Vec<_> = found.map(|it| it.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|it| it == "piece"));
    found
}

/// The piece with the rows of the first ten of twenty requests.
fn first_of_two(dir: &Path, clock: &Arc<ManualClock>) -> PathBuf {
    let size = |path: &PathBuf| fs::metadata(path).unwrap().len();
    let mut first = None;
    for _ in 0..2 {
        let here = start(dir, clock);
        here.site
            .send((0..10).map(|n| request("web", "shop", &format!("/{n}"))))
            .assert_accounted();
        pass(&here.site, clock, 60_000);
        here.stop();
        first = first.or_else(|| pieces(dir).into_iter().max_by_key(size));
    }
    first.unwrap()
}

/// Returns what is known of all requests, and what the answer says is missing.
fn answered(site: &Site) -> (u64, String) {
    let answer = site.json("/api/v1/info?from=0&to=4000000000");
    let count = answer["req_count"].as_u64().unwrap();
    (count, answer["partial"].to_string())
}

/// While it is away answers say so; when it is back they say nothing more.
#[test]
fn a_file_that_is_back_lacks_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(START_MS));
    let first = &first_of_two(dir.path(), &clock);
    let away = dir.path().join("away");
    fs::rename(first, &away).unwrap();
    for _ in 0..2 {
        let here = start(dir.path(), &clock);
        let (known, said) = answered(&here.site);
        assert_eq!(known, 10, "{said}");
        assert_has!(said => "missing are left out until a start finds them: 1 row in 1 file;");
        pass(&here.site, &clock, 60_000);
        here.stop();
    }
    fs::rename(&away, first).unwrap();
    for _ in 0..2 {
        let here = start(dir.path(), &clock);
        let (known, said) = answered(&here.site);
        assert_eq!(known, 20, "{said}");
        assert!(!said.contains("missing") && !said.contains("lost"), "{said}");
        here.stop();
    }
}

/// It is set aside as soon as somebody has met it, and named everywhere; all else goes on.
#[test]
fn a_damaged_piece_is_named_when_a_reader_meets_it() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(START_MS));
    let first = &first_of_two(dir.path(), &clock);
    let mut bytes = fs::read(first).unwrap();
    // Behind the mark at the beginning, and the length and checksum of the first block.
    bytes.iter_mut().skip(40).step_by(97).take(60).for_each(|it| *it ^= 4);
    fs::write(first, &bytes).unwrap();
    let here = start(dir.path(), &clock);
    let site = &here.site;
    let all = "SELECT SUM(req_count) FROM history.report_by_script_name";
    let query = json!({ "query": all }).to_string();
    let refused = site.post("/api/v1/sql", &query);
    let name = first.file_name().unwrap().to_str().unwrap();
    let said = refused.problem(503);
    assert!(said.starts_with(&format!("{name} could not be read: ")), "{said}");
    let history = until(site, "it is set aside", |it| {
        clock.advance_ms(1_000);
        count(it, "pieces_damaged") == 1
    });
    let aside = first.with_extension("damaged");
    let aside = aside.to_str().unwrap();
    assert_eq!(history["set_aside"], json!([aside]));
    assert_has!(site.json("/readyz")["detail"].to_string() => "was set aside", aside);
    // SQL has the others, and HTTP says what is missing.
    assert_eq!(site.sql(all), json!([[10]]));
    let (known, said) = answered(site);
    assert_eq!(known, 10, "{said}");
    assert_has!(said => "1 row was lost: it could not be written in time, or not be read");
    let mut ls = pinbad();
    let ended = run(ls.args(["history", "ls", "--dir", dir.path().to_str().unwrap()]));
    assert_has!(ended.out => "set aside, not readable", aside);
    let mut verify = pinbad();
    let ended = run(verify.args(["history", "verify", "--dir", dir.path().to_str().unwrap()]));
    assert_has!(ended.out => "set aside, not readable", aside);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    here.stop();
}
