//! Errors of both grammars point at the part; input that only looks wrong is accepted.

use super::*;

fn refused(comment: &str) -> String {
    match parse("t", comment, &Defaults::default()) {
        Err(error) => error,
        Ok(read) => panic!("{comment}: {read:?}"),
    }
}

#[test]
fn errors_point_at_the_part() {
    let cases = include_str!("errors.txt").split("\n\n").skip(1);
    for (comment, mark) in cases.filter_map(|case| case.split_once('\n')) {
        let at = mark.find(['^', '|']).expect(comment);
        let (marks, hint) = mark[at..].split_once(' ').expect(comment);
        let length = marks.matches('^').count();
        let part: String = comment.chars().skip(at).take(length).collect();
        let error = refused(comment);
        let part = if part.is_empty() { "here".to_owned() } else { format!("'{part}'") };
        let place = format!("COMMENT '{comment}', position {}, {part}: ", at + 1);
        let problem = error.strip_prefix(&place).unwrap_or_else(|| panic!("{place}: {error}"));
        assert_has!(problem => hint.trim_end(); "{comment}");
    }
    let error = refused("");
    assert!(error.starts_with("COMMENT '', position 1, here: "), "{error}");
    assert!(error.contains("report1 to report18"), "{error}");
    for (near, kind) in [("tag_inf:group", "tag_info"), ("hv.tag_inof:x", "tag_info")] {
        let error = refused(near);
        let question = format!("table; did you mean {kind:?}? the kinds are info, ");
        assert!(error.contains(&question), "{error}");
    }
}

#[test]
fn names_and_comments_have_their_lengths() {
    let sixteen: Vec<_> = (1..=16).map(|tag| format!("t{tag}")).collect();
    let long = "x".repeat(256);
    for (comment, hint) in cases![
        format!("tagN_info:{}", sixteen.join(",")) => "1 to 15 tag names, not 16";
        format!("tag_info:{long}") => "255 bytes";
        format!("tag_info:a:tag.{long}=y") => "255 bytes";
        "x".repeat(COMMENT_BYTES_MAX + 1) => "longer than";
    ] {
        assert!(refused(&comment).contains(hint), "{comment}");
    }
    let fifteen = format!("tagN_report2:{}", sixteen[..15].join(","));
    assert_eq!(read(&fifteen).keys.len(), 18);
}

#[test]
fn odd_but_good_comments_are_read() {
    for comment in [
        "report1::",
        "report1:::",
        "info:::90",
        "info::min_time=1",
        "tag_info:group::95",
        "tagN_info:group,server:tag.env=prod:50,99",
        "report3::min_time=0.5",
        "tag_info: spaced name ",
        "report1:::0.1,100",
    ] {
        assert_eq!(read(comment).comment.as_deref(), Some(comment));
    }
}

/// The bounds of the time are filters too: in either grammar, no report has more of them than
/// another may.
#[test]
fn times_count_among_the_filters() {
    let tags = |count: usize, sign: &str| {
        let tags: Vec<String> = (0..count).map(|n| format!("{sign}t{n}=x")).collect();
        tags.join(",")
    };
    for (count, is_too_many) in [(31, false), (32, true)] {
        let v1 = format!("report1::{},min_time=1", tags(count, "tag."));
        let v2 = format!("v2/request/60/~script/no_percentiles/{},max_time=1", tags(count, "+"));
        for comment in [v1, v2] {
            let read = parse("r", &comment, &Defaults::default());
            let is_refused = read.is_err_and(|error| error.contains("at most 32"));
            assert_eq!(is_refused, is_too_many, "{comment}");
        }
    }
}
