//! Imports the tables that Pinba and pinba2 ship, up to the reports that a daemon defines from the
//! printed forms.
//!
//! Existing, imported and refused tables are told apart, and the printed sums add up.

use super::*;

/// The default tables of Pinba (both versions), as mysqldump prints them, and tables a user might
/// add.
const PINBA: &str = include_str!("tests/pinba.sql");

/// Tables of pinba2, as its users create them.
const PINBA2: &str = include_str!("tests/pinba2.sql");

fn printed(text: &str, config: &Config) -> (Vec<(String, Outcome)>, String) {
    let tables: Vec<CreateTable> =
        dump::statements(text.as_bytes()).into_iter().filter(is_ours).collect();
    let mut importer = Importer::to_config(config).unwrap();
    (importer.import(&tables), importer.config_text())
}

fn of(config: &str) -> Config {
    Config::from_toml("pinbad.toml", config).unwrap()
}

/// Tables that did not exist yet, one per line.
fn not_there(outcomes: &[(String, Outcome)]) -> Vec<String> {
    outcomes
        .iter()
        .filter_map(|(name, outcome)| match outcome {
            Outcome::Taken(comment) => Some(format!("{name} = {comment}")),
            Outcome::NotTaken(reason) => Some(format!("{name}: {reason}")),
            Outcome::AlreadyThere(_) => None,
        })
        .collect()
}

#[test]
fn the_default_tables_of_pinba_are_there_and_those_of_a_user_are_made() {
    let (outcomes, text) = printed(PINBA, &Config::default());
    assert_eq!(outcomes.len(), 24 + 6);
    assert_eq!(
        not_there(&outcomes),
        [
            "report_by_script_90 = report1:::90,95,99",
            "tag_info_group_server = tagN_info:group,server,__server_name::90,95,99",
            "slow_by_group = tag_report:group:min_time=0.5,tag.env=it's",
            "hv_script = hv.report1",
            "who = active",
            "requests_of_old: COMMENT 'request': raw data is always there as `request` and cannot have another name",
        ]
    );
    // The printed forms define the same reports.
    let config = of(&text);
    let made = Definitions::new(&config.configured_reports, &Defaults::default()).unwrap();
    let names: Vec<&str> = made.reports[19..].iter().map(|(it, _)| it.name.as_str()).collect();
    assert_eq!(
        names,
        ["report_by_script_90", "tag_info_group_server", "slow_by_group", "hv_script"]
    );
    assert_eq!(
        made.reports[21].0.comment.as_deref(),
        Some("tag_report:group:min_time=0.5,tag.env=it's")
    );
    assert_eq!(made.tables[7].name, "who");
    // A second import finds nothing left to do.
    let (outcomes, text) = printed(PINBA, &config);
    assert_eq!(not_there(&outcomes).len(), 1);
    assert_eq!(text, "");
}

#[test]
fn the_tables_of_pinba2_are_made() {
    let (outcomes, text) = printed(PINBA2, &Config::default());
    let lines = not_there(&outcomes);
    for (line, starts) in lines.iter().zip([
        "active = v2/active",
        "info: there is another report of this name (COMMENT 'info'); this one, COMMENT 'v2/packet/60/",
        "script_report = v2/request/60/~script/hv=0:10000:10000,p50,p99.9/no_filters",
        "tag_info_group = v2/timer/default_history_time/~script,@group,+env/percentiles=50:95,",
        "broken: COMMENT 'v2/timer/60/@group/no_percentiles', position 34, here: there must be six parts",
    ]) {
        assert!(line.starts_with(starts), "{line}\n{starts}");
    }
    assert_eq!(lines.len(), 5);
    assert!(
        outcomes.contains(&("stats".to_owned(), Outcome::AlreadyThere("as v2_stats".to_owned())))
    );
    let config = of(&text);
    let made = Definitions::new(&config.configured_reports, &Defaults::default()).unwrap();
    assert_eq!((made.reports.len(), made.tables.len()), (19 + 2, 7 + 1));
}

#[test]
fn what_tables_prints_is_read_back() {
    let config = of("[[report]]\nname = 'mine'\ncomment = \"tag_info:it's\"\n\
         [[report]]\nname = 'native'\nlevel = 'timer'\nkeys = ['@a', { key = '+b\\c', missing = 'empty' }]\n\
         filters = ['min_time=0.5', '@a=x*']\npercentiles = [50, 99.9]\nwindow = '10m'\n\
         [[report]]\nname = 'who'\ncomment = 'v2/active'\n");
    let defaults = Defaults::default();
    let there = Definitions::new(&config.configured_reports, &defaults).unwrap();
    let statements = there.statements(&defaults, None);
    // Another engine, and a dump by MariaDB's own tools, change neither names nor COMMENTs.
    assert_eq!(statements.matches("ENGINE=PINBA").count(), 8 + 19 + 2 + 1, "{statements}");
    let (outcomes, text) = printed(&statements, &config);
    assert_eq!((not_there(&outcomes), text.as_str()), (Vec::new(), ""));
    // For a daemon without any of them, everything that is not built in is new and stays the same.
    let (outcomes, text) = printed(&statements, &Config::default());
    assert_eq!(not_there(&outcomes).len(), 3);
    let again = of(&text);
    let again = Definitions::new(&again.configured_reports, &defaults).unwrap();
    for (ours, theirs) in there.reports.iter().zip(&again.reports) {
        assert_eq!(ours.0, theirs.0);
    }
    assert_eq!(again.tables.last().map(|it| it.table), Some(FixedTable::V2Active));
}

#[test]
fn a_name_that_is_taken_and_one_that_cannot_be() {
    let table = |name: &str, comment: &str| {
        format!("CREATE TABLE `{name}` (a int) ENGINE=PINBA COMMENT='{comment}';\n")
    };
    let text = [
        table("report_by_script_name", "report1:::95"),
        table("mine", "tag_info:a"),
        table("mine", "tag_info:b"),
        table("mine", "tag_info:a:"),
        table("my table", "report1"),
        table("odd", "tag_info"),
        table("active", "active_reports"),
        "CREATE TABLE none (a int) ENGINE=PINBA; CREATE TABLE likely LIKE mine;".to_owned(),
    ]
    .concat();
    let (outcomes, _) = printed(&text, &Config::default());
    let lines: Vec<String> =
        outcomes.iter().map(|(name, outcome)| format!("{name}: {outcome:?}")).collect();
    for (line, part) in lines.iter().zip([
        "NotTaken(\"there is another report of this name (COMMENT 'report1'); this one, COMMENT 'report1:::95', needs",
        "mine: Taken(\"tag_info:a\")",
        "NotTaken(\"there is another report of this name (COMMENT 'tag_info:a')",
        "mine: AlreadyThere(\"\")",
        "my table: NotTaken(\"name 'my table': a report's name has",
        "odd: NotTaken(\"COMMENT 'tag_info', position",
        "active: AlreadyThere(\"as active_reports\")",
        "none: NotTaken(\"it has no COMMENT",
        "likely: NotTaken(\"it is made LIKE another table",
    ]) {
        assert!(line.contains(part), "{line}\n{part}");
    }
    assert_eq!(lines.len(), 9);
}

#[test]
fn the_printed_sums_add_up() {
    let flags = ImportFlags { file: "-".into(), print_config: true, ..ImportFlags::default() };
    let run = |text: &str| {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let config = Config::default();
        let result = execute(&flags, &config, text.as_bytes(), &mut out, &mut err);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (result, text(out), text(err))
    };
    let (result, out, err) = run("CREATE TABLE request (a int) ENGINE=PINBA COMMENT='request';
         CREATE TABLE mine (a int) ENGINE=pinba COMMENT='tag_info:a';
         CREATE TABLE users (a int) ENGINE=InnoDB;
         CREATE TABLE odd (a int) ENGINE=PINBA COMMENT='odd';");
    assert!(!result.unwrap());
    assert_eq!(out, "[[report]]\nname = \"mine\"\ncomment = \"tag_info:a\"\n");
    let lines: Vec<&str> = err.lines().collect();
    assert_eq!(lines[0], "already there  request");
    assert_eq!(lines[1], "taken          mine: tag_info:a");
    assert!(lines[2].starts_with("not taken      odd: COMMENT 'odd', position 1"));
    assert_eq!(
        lines[3],
        "1 taken, 1 already there, 1 not taken; 1 table of another engine passed over."
    );
    let (result, out, _) = run("CREATE TABLE users (a int) ENGINE=InnoDB;");
    let error = result.unwrap_err().problems.concat();
    assert_has!(error => "no CREATE TABLE statement with ENGINE=PINBA among the 1");
    assert_eq!(out, "");
}

/// A dump of a pinbad has tables that Pinba has not.
#[test]
fn a_pinbads_own_tables_are_not_made() {
    let tables = ["request_tag", "annotation", "many_calls", "releases", "alerts", "stat_request"];
    let dump = tables
        .map(|name| format!("CREATE TABLE `{name}` (`id` int) ENGINE=PINBA COMMENT='{name}';\n"));
    let (outcomes, text) = printed(&dump.concat(), &Config::default());
    assert_eq!((outcomes.len(), not_there(&outcomes), text), (6, Vec::new(), String::new()));
    let (outcomes, _) =
        printed(&dump[0].replace("COMMENT='request_tag'", "COMMENT='alerts'"), &Config::default());
    assert_has!(&not_there(&outcomes)[0] => "no such kind of report");
}
