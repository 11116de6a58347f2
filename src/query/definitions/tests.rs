//! Sources of reports at start: built in, configured, made at run time; and the messages about
//! those that cannot be made.

use serde_json::json;

use super::*;
use crate::config::Config;
use crate::grammar::FixedTable;
use crate::report::definition::Columns;
use crate::report::layout::Cell;

fn configured(text: &str) -> Result<Definitions, String> {
    let config = Config::from_toml("pinbad.toml", text).unwrap();
    Definitions::new(&config.configured_reports, &Defaults::default())
        .map_err(|error| error.to_string())
}

#[test]
fn the_names_of_raw_tables_and_of_coverage_are_taken() {
    for name in FixedTable::RAW.map(FixedTable::name).into_iter().chain(["coverage", "Coverage"]) {
        let error = configured(&format!("[[report]]\nname = '{name}'\ncomment = 'report1'\n"));
        assert_has!(error.unwrap_err() => "pinbad.toml:2: report.name: there is a built-in report");
    }
}

#[test]
fn reports_of_squid_are_ready_made_and_give_way() {
    let defaults = Defaults::default();
    let mut all = Definitions::new(&[], &defaults).unwrap();
    let (before, tables) = (all.reports.len(), all.tables.len());
    all.add_squid(&defaults);
    let ready: Vec<Json> = serde_json::from_str(SQUID).unwrap();
    assert_eq!(all.tables.len(), tables + 2);
    assert_eq!(all.reports.len() + 2, before + ready.len());
    assert!(all.reports[before..].iter().all(|(_, by)| *by == DefinedBy::Source));
    // CPU times and memory are unknown, in whatever columns they are read.
    for (squid, _) in &all.reports[before..] {
        let mut forms = vec![squid.clone()];
        for columns in [Columns::Native(vec![95.0]), Columns::Extended(vec![42.0])] {
            forms.extend(squid.read_as(&columns, &defaults));
        }
        for column in forms.iter().flat_map(|it| it.layout.columns()) {
            let name = &column.column.name;
            let is_rusage = name.starts_with("ru_") || name.starts_with("memory_");
            assert_eq!(matches!(column.cell, Cell::Unknown), is_rusage, "{name}");
        }
    }
    all.add_squid(&defaults);
    assert_eq!(all.reports.len() + 2, before + ready.len());
    let mut all = Definitions::new(&[], &defaults).unwrap();
    all.dropped = vec!["squid_codes".to_owned(), "never there".to_owned()];
    all.add_squid(&defaults);
    assert_eq!(all.reports.len() + 3, before + ready.len());
}

#[test]
fn reports_over_samples_are_ready_made_and_give_way() {
    let defaults = Defaults::default();
    let mut all = Definitions::new(&[], &defaults).unwrap();
    let before = all.tables.len();
    all.add_profile(&defaults);
    let ready: Vec<Json> = serde_json::from_str(PROFILE).unwrap();
    assert_eq!(all.tables.len(), before + 2 + ready.len());
    all.add_profile(&defaults);
    assert_eq!(all.tables.len(), before + 2 + ready.len());
    // The listed form and COMMENT of a table define the same table again.
    for table in all.tables.iter().filter(|it| it.samples.is_some()) {
        let form = serde_json::to_value(table.form()).unwrap();
        let mut again = Definitions::default();
        assert_eq!(again.add_kept(&[form], &defaults), []);
        assert_eq!(again.tables[0].samples, table.samples);
        let comment = table.create_table("x", &defaults).comment;
        let again = read_form(&ReportForm::of_comment("x", &comment), &defaults);
        let samples = table.samples.as_ref().map(|it| (**it).clone());
        assert_eq!(again, Ok(FormTarget::Table(FixedTable::Sample, samples)));
    }
}

#[test]
fn built_in_ones_come_first_and_tables_are_none_of_the_reports() {
    let all = configured(
        "[[report]]\nname = 'mine'\ncomment = 'tag_info:group'\n\n\
         [[report]]\nname = 'who'\ncomment = 'v2/active'\n",
    )
    .unwrap();
    let names: Vec<&str> = all.reports.iter().map(|(it, _)| it.name.as_str()).collect();
    assert_eq!((names.len(), names[0], names[19]), (20, "info", "mine"));
    assert_eq!(all.reports[19].1, DefinedBy::Configuration("pinbad.toml:1".to_owned()));
    let tables: Vec<&str> = all.tables.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(
        tables,
        [
            "status",
            "active_reports",
            "v2_stats",
            "v2_active",
            "annotation",
            "many_calls",
            "releases",
            "who"
        ]
    );
    assert_eq!(all.tables[7].table, FixedTable::V2Active);
}

#[test]
fn an_error_names_file_line_and_key() {
    // The second [[report]] is in line 4; its contents begin in line 5.
    const FIRST: &str = "[[report]]\nname = 'first'\ncomment = 'tag_info:x'\n";
    for (entry, told) in cases![
        "name = 'a'\n\ncomment = 'tag_info:'" =>
            "7: report.comment: COMMENT 'tag_info:', position 10, here: ";
        "name = 'a'\ncomment = 'nothing'" =>
            "6: report.comment: COMMENT 'nothing', position 1, 'nothing': ";
        "name = 'a'\ncomment = 'request'" =>
            "6: report.comment: comment 'request': the table request is always there";
        "comment = 'report1'\nname = 'a b'" => "6: report.name: name 'a b': ";
        "name = 'info'\ncomment = 'report1'" =>
            "5: report.name: there is a built-in report called 'info'";
        "name = 'v2_stats'\ncomment = 'report1'" =>
            "5: report.name: there is a built-in report called 'v2_stats'";
        "name = 'first'\ncomment = 'report1'" =>
            "5: report.name: there is already a report called 'first', defined in pinbad.toml:1";
        "comment = 'report1'" => "4: report: no name; accepted: name = the name of the report";
        "name = 'a'" => "4: report: give either comment, or level";
        "name = 'a'\nlevel = 'timer'\nkyes = ['@a']" =>
            "7: report.kyes: \"kyes\" is unknown; did you mean \"keys\"? accepted: name, comment, level, ";
        "name = 'a'\nlevel = 'second'\nkeys = ['@a']" =>
            "6: report.level: \"second\" is unknown; accepted: packet, request, timer, sample";
        "name = 'a'\nlevel = 'timer'\nkeys = ['@a']\npercentiles = [50,\n 101]" =>
            "8: report.percentiles[1]: ";
        "name = 'a'\nlevel = 'timer'\nkeys = ['@a']\npercentiles = ['high']" =>
            "8: report.percentiles: invalid type: string \"high\", expected a number";
        "name = 'a'\nlevel = 'request'\nkeys = ['script_name',\n '@a']" => "7: report.keys[1]: ";
        "name = 'a'\nlevel = 7" =>
            "6: report.level: not a text; accepted: packet, request, timer, sample";
        "name = 'a'\nlevel = 'timer'\nkeys = '@a'" =>
            "7: report.keys: invalid type: string \"@a\", expected a sequence; accepted: a list of ";
        "name = 'a'\nlevel = 'request'\nkeys = [{ missing = 'skip' }]" =>
            "7: report.keys: no key; accepted: key = a field or a tag";
        "name = 'a'\nlevel = 'packet'\nfilters = [{ min_time = 'x' }]" =>
            "7: report.filters: min_time: invalid type: string \"x\", expected seconds as a number";
        "name = 'a'\nlevel = 'packet'\nwindow = 99999999999999999999" =>
            "7: report.window: too large; accepted: ";
        "name = 'a'\ncomment = 'report1'\nwindow = '1m'" =>
            "7: report.window: comment: cannot be given together with window";
        "name = 'a'\nlevel = 'packet'\nwindow = '1 year'" =>
            "7: report.window: '1 year': \"year\" is not a unit of time: units are d, h, m, s and ms; a window is a time such as";
    ] {
        let error = configured(&format!("{FIRST}[[report]]\n{entry}\n")).unwrap_err();
        assert!(error.starts_with(&format!("pinbad.toml:{told}")), "{error}");
    }
}

#[test]
fn an_error_within_a_table_says_in_which_key_and_accepts_no_more_than_that() {
    let keys = "keys = [{ key = '+env', missing = 'drop' }]";
    let entry = format!("[[report]]\nname = 'a'\nlevel = 'request'\n{keys}\n");
    let error = configured(&entry).unwrap_err();
    let told = "report.keys: missing: \"drop\" is unknown; accepted: skip, skip_empty, empty";
    assert_eq!(error, format!("pinbad.toml:4: {told}"));
}

#[test]
fn what_is_kept_and_cannot_be_is_left_out_with_a_reason() {
    let defaults = Defaults::default();
    let mut all = configured("[[report]]\nname = 'mine'\ncomment = 'tag_info:a'\n").unwrap();
    let kept = [
        json!({"name": "kept", "comment": "tag_info:b"}),
        json!({"name": "mine", "comment": "tag_info:c"}),
        json!({"name": "info", "comment": "info"}),
        json!({"name": "kept", "comment": "tag_info:d"}),
        json!({"name": "odd", "comment": "tag_info:a", "colour": "red"}),
        json!({"name": "bad", "comment": "tag_info"}),
        json!({"comment": "tag_info:a"}),
        json!(7),
        json!({"name": "mine_too", "level": "timer", "keys": ["@a"], "window": "5s"}),
        json!({"name": "stats", "comment": "v2/stats"}),
    ];
    let left_out = all.add_kept(&kept, &defaults);
    let told: Vec<String> =
        left_out.iter().map(|(name, reason)| format!("{name}: {reason}")).collect();
    for (told, starts) in told.iter().zip([
        "mine: there is already a report called 'mine', defined in pinbad.toml:1",
        "info: there is a built-in report called 'info'",
        "kept: there is already a report called 'kept'",
        "odd: unknown field `colour`",
        "bad: COMMENT 'tag_info'",
        "{\"comment\":\"tag_info:a\"}: missing field `name`",
        "7: invalid type: integer `7`",
    ]) {
        assert!(told.starts_with(starts), "{told}");
    }
    assert_eq!(told.len(), 7);
    let made: Vec<(&str, &DefinedBy)> =
        all.reports[20..].iter().map(|(it, by)| (it.name.as_str(), by)).collect();
    assert_eq!(made, [("kept", &DefinedBy::RunTime), ("mine_too", &DefinedBy::RunTime)]);
    assert_eq!(all.reports[20].0.comment.as_deref(), Some("tag_info:b"));
    assert_eq!(all.tables[7].name, "stats");
}

#[test]
fn there_are_no_more_than_there_may_be() {
    let mut all = configured("").unwrap();
    let kept: Vec<Json> = (0..REPORTS_MAX)
        .map(|at| json!({"name": format!("r{at}"), "comment": "tag_info:a"}))
        .collect();
    let left_out = all.add_kept(&kept, &Defaults::default());
    assert_eq!(all.reports.len() + all.tables.len(), REPORTS_MAX);
    assert_eq!(left_out.len(), 19 + 7);
    assert!(left_out[0].1.contains("1000"), "{left_out:?}");
}

#[test]
fn the_examples_of_the_sample_file_are_reports() {
    let text = include_str!("../../../config/pinbad.toml");
    let examples: Vec<&str> = text
        .lines()
        .skip_while(|line| *line != "# [[report]]")
        .take_while(|line| line.starts_with('#'))
        .map(|line| line.trim_start_matches(['#', ' ']))
        .collect();
    let all = configured(&format!("{}\n", examples.join("\n"))).unwrap();
    let [.., (of_comment, _), (native, _)] = &all.reports[..] else {
        panic!("{all:?}");
    };
    assert_eq!(of_comment.name, "timers_by_group");
    assert_eq!(native.name, "slow_in_production");
    assert_eq!((native.comment.clone(), native.window.as_secs()), (None, 300));
    assert_eq!((native.keys.len(), native.filters.len()), (2, 2));
}
