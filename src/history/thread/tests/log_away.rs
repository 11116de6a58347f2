//! A log of seconds that is away at one start and back at a later one, like a file system that is
//! not mounted.

use std::fs;
use std::path::PathBuf;

use super::log::{following, known, logging, logs, read};
use super::*;
use crate::input::squid::Reading;

/// Takes the one log out of its folder; returns where it is now and where it belongs.
fn take_away(dir: &Path) -> [PathBuf; 2] {
    let [away, log] = [dir.join("away"), logs(dir).remove(0)];
    fs::rename(&log, &away).unwrap();
    [away, log]
}

fn orphaned(writer: &Writer) -> u64 {
    writer.store.as_ref().unwrap().counters.files_orphaned.get()
}

/// Its lines of followed files were read again meanwhile, so it is not added, but kept for people.
#[test]
fn a_log_that_was_away_while_others_were_flushed_is_moved_away() {
    let dir = tempfile::tempdir().unwrap();
    let start = || logging(dir.path(), &Faults::default(), 1 << 20);
    let (history, mut writer) = start();
    count(&history, NOON);
    writer.write_log();
    drop(writer);
    let [away, log] = take_away(dir.path());
    let whole = fs::read(&away).unwrap();
    let (history, mut writer) = start();
    count(&history, NOON + 60);
    writer.write_log();
    assert!(writer.flush());
    drop(writer);
    fs::rename(&away, &log).unwrap();
    for orphans in [1, 0] {
        let (history, writer) = start();
        assert_eq!((found(&history), orphaned(&writer)), (1, orphans));
        assert_eq!(logs(dir.path()).len(), 0);
        let orphan = dir.path().join("orphans/pending").join(log.file_name().unwrap());
        assert_eq!(fs::read(orphan).unwrap(), whole);
    }
}

/// Another log was begun meanwhile, and the process that finds both follows no file. Lines of one
/// were read again, so a log that has some is moved away; packets come once, so one that has none
/// is added, also in a store that once followed a file.
#[test]
fn a_log_that_was_away_while_another_was_begun_is_added_unless_it_has_lines() {
    for has_lines in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let (history, mut writer) = following(dir.path());
        read(&history, &Reading::default(), 1, 0);
        assert!(writer.flush());
        drop(writer);
        let begin_log = || match has_lines {
            true => {
                let (history, mut writer) = following(dir.path());
                read(&history, &known(&writer), 1, 0);
                writer.write_log();
            }
            false => {
                let (history, mut writer) = logging(dir.path(), &Faults::default(), 1 << 20);
                count(&history, NOON);
                writer.write_log();
            }
        };
        begin_log();
        let [away, log] = take_away(dir.path());
        begin_log();
        fs::rename(&away, &log).unwrap();
        assert_eq!(logs(dir.path()).len(), 2);
        let (history, writer) = logging(dir.path(), &Faults::default(), 1 << 20);
        let expected = if has_lines { (2, 1) } else { (3, 0) };
        assert_eq!((found(&history), orphaned(&writer)), expected);
    }
}
