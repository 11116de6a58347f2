//! Reports created at run time, stored in `state.dir`: restored after opening, and the handling of
//! damaged files.

use std::fs;

use serde_json::json;

use super::*;

fn members(comment: &str) -> Map<String, Json> {
    Map::from_iter([("comment".to_owned(), comment.into())])
}

fn names(state: &State) -> Vec<String> {
    state.reports().iter().map(|entry| entry["name"].as_str().unwrap_or("?").to_owned()).collect()
}

fn in_folder(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn what_is_put_is_there_after_opening_again() {
    let dir = tempfile::tempdir().unwrap();
    // Created if missing, with its parents.
    let path = dir.path().join("var/lib");
    let mut state = State::open(&path, 1).unwrap();
    assert!(state.reports().is_empty());
    state.put("a", &members("report1")).unwrap();
    state.put("b", &members("it's \"quoted\"\n")).unwrap();
    state.put("c", &members("report3")).unwrap();
    state.remove("c").unwrap();
    state.remove("never there").unwrap();
    state.put("a", &members("report2")).unwrap();
    let kept = state.reports().to_vec();
    drop(state);
    let state = State::open(&path, 2).unwrap();
    assert_eq!(state.reports(), kept);
    assert_eq!(names(&state), ["b", "a"]);
    assert_eq!(state.dropped(), ["never there"], "a ready-made one, then");
    assert_eq!(saved(&path).unwrap().1, ["never there"]);
    assert_eq!(state.reports()[0]["comment"], "it's \"quoted\"\n");
    assert_eq!(state.reports()[1], json!({"name": "a", "comment": "report2"}));
    assert_eq!(in_folder(&path), ["reports.json"]);
    assert_eq!(saved(&path).unwrap().0, kept);
}

#[test]
fn one_folder_serves_one_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let first = State::open(dir.path(), 1).unwrap();
    let error = State::open(dir.path(), 1).unwrap_err();
    assert!(matches!(error, StateError::InUse { .. }));
    let text = error.to_string();
    assert!(text.starts_with("state.dir: ") && text.contains("in use by another pinbad"));
    // Reading needs no lock.
    assert!(saved(dir.path()).unwrap().0.is_empty());
    drop(first);
    State::open(dir.path(), 1).unwrap();
}

#[test]
fn a_file_is_no_folder() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "kept").unwrap();
    let text = State::open(&file, 1).unwrap_err().to_string();
    assert!(
        text.starts_with("state.dir: ") && text.contains("is not a folder; accepted: a folder"),
        "{text}"
    );
    // The obstacle is named, even if it is a parent.
    let below = State::open(&file.join("a/b"), 1).unwrap_err().to_string();
    assert_eq!(below, text);
    assert_eq!(folder::find(STATE, &file.join("a/b")).unwrap_err().to_string(), text);
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(dir.path().join("nowhere"), &link).unwrap();
    let error = State::open(&link, 1).unwrap_err();
    assert!(matches!(&error, StateError::NotAFolder { path, .. } if *path == link), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
    assert_eq!(in_folder(dir.path()), ["file", "link"]);
}

#[test]
fn looking_makes_nothing_and_says_what_opening_would() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("a/b");
    let above = dir.path().to_path_buf();
    assert_eq!(check(&missing).unwrap().0, Folder::Missing { above });
    assert!(in_folder(dir.path()).is_empty());
    let here = Path::new("a folder that is not there");
    let above = Path::new(".").to_path_buf();
    assert_eq!(folder::find(STATE, here).unwrap(), Folder::Missing { above });

    assert_eq!(check(dir.path()).unwrap().0, Folder::Present);
    assert!(in_folder(dir.path()).is_empty());
    let state = State::open(dir.path(), 1).unwrap();
    let error = check(dir.path()).unwrap_err();
    assert!(matches!(error, StateError::InUse { .. }), "{error}");
    // A full disk is found beside the daemon that uses the folder.
    let error = folder::check(STATE, dir.path(), u64::MAX).unwrap_err();
    assert!(matches!(error, StateError::NoRoom { .. }), "{error}");
    // What a setting demands is shown, and can be lowered, as it is written there.
    let free_min = 1_000_000_000_000_000_000;
    let error = folder::check(folder::HISTORY, dir.path(), free_min).unwrap_err();
    let text = error.to_string();
    assert!(text.ends_with("where 1000000TB are needed (history.free_min)"), "{text}");
    assert_has!(error.advice(dir.path()) => "make room on that disk, lower history.free_min, or ");
    assert!(in_folder(dir.path()).is_empty());
    drop(state);
    // A corrupt file stays in place: the start sets it aside.
    fs::write(dir.path().join(FILE), "{").unwrap();
    assert_eq!(check(dir.path()).unwrap().0, Folder::Present);
    assert_eq!(in_folder(dir.path()), [FILE]);

    // Nobody can write there, not even root.
    for path in ["/proc/1", "/proc/1/pinbad/state"] {
        let text = check(Path::new(path)).unwrap_err().to_string();
        assert!(text.starts_with("state.dir: cannot "), "{text}");
        assert!(text.contains(path), "{text}");
    }
}

#[test]
fn a_corrupt_file_is_set_aside_and_not_lost() {
    for (text, reason) in [
        ("", "not JSON"),
        ("{\"version\": 1, \"reports\": [{\"name\"", "not JSON"),
        ("[]", "no version"),
        ("{\"version\": 2, \"reports\": []}", "version 2"),
        ("{\"version\": 1, \"reports\": {}}", "no list"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(FILE);
        fs::write(&file, text).unwrap();
        let problem = saved(dir.path()).unwrap_err();
        assert!(problem.contains(reason), "{text}: {problem}");
        let mut state = State::open(dir.path(), 1_700_000_000).unwrap();
        assert!(state.reports().is_empty());
        state.put("a", &members("report1")).unwrap();
        drop(state);
        // A second one in the same second gets a name of its own.
        fs::write(&file, "again").unwrap();
        State::open(dir.path(), 1_700_000_000).unwrap();
        assert_eq!(
            in_folder(dir.path()),
            ["reports.json.corrupt-1700000000", "reports.json.corrupt-1700000001"]
        );
        let aside = dir.path().join("reports.json.corrupt-1700000000");
        assert_eq!(fs::read_to_string(aside).unwrap(), text);
    }
}

#[test]
fn what_makes_no_sense_is_kept_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let odd =
        json!({"version": 1, "reports": [7, {"name": "a", "colour": "red"}, {"comment": "x"}]});
    fs::write(dir.path().join(FILE), odd.to_string()).unwrap();
    let mut state = State::open(dir.path(), 1).unwrap();
    assert_eq!(state.reports().len(), 3);
    assert!(state.has("a") && !state.has("x"));
    state.put("b", &members("report1")).unwrap();
    drop(state);
    let kept = saved(dir.path()).unwrap().0;
    assert_eq!(kept[..3], odd["reports"].as_array().unwrap()[..]);
    assert_eq!(kept.len(), 4);
}

#[test]
fn a_change_that_cannot_be_written_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = State::open(dir.path(), 1).unwrap();
    state.put("a", &members("report1")).unwrap();
    let before = fs::read(dir.path().join(FILE)).unwrap();
    // Not a matter of permissions, so that it holds for root too.
    let new = dir.path().join("reports.json.new");
    fs::create_dir(&new).unwrap();
    for error in [state.put("b", &members("report2")).unwrap_err(), state.remove("a").unwrap_err()]
    {
        let text = error.to_string();
        assert!(text.starts_with("state.dir: cannot write "), "{text}");
        assert!(text.contains(FILE), "{text}");
    }
    assert_eq!(names(&state), ["a"]);
    assert_eq!(fs::read(dir.path().join(FILE)).unwrap(), before);
    fs::remove_dir(&new).unwrap();
    state.put("b", &members("report2")).unwrap();
    assert_eq!(names(&state), ["a", "b"]);
}

#[test]
fn a_file_that_cannot_be_read_ends_the_start() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join(FILE)).unwrap();
    let text = State::open(dir.path(), 1).unwrap_err().to_string();
    assert!(text.starts_with("state.dir: cannot read "), "{text}");
}
