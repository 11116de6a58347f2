//! CREATE TABLE statements: Pinba's own layout, and each recreates the same report.

use super::*;
use crate::grammar::builtin;
use crate::grammar::comment::Comment;
use crate::grammar::native::read_comment;

fn report(definition: &Definition) -> String {
    super::report(definition).pinba()
}

fn fixed(name: &str, table: FixedTable, defaults: &Defaults) -> String {
    super::fixed(name, table, defaults).pinba()
}

fn read(comment: &str) -> Definition {
    match read_comment("t", comment, &Defaults::default()) {
        Ok(Comment::Report(definition)) => *definition,
        other => panic!("{comment}: {other:?}"),
    }
}

#[test]
fn a_tag_report_reads_like_pinbas_own() {
    assert_eq!(
        report(&read("tag_report:group::95")),
        "CREATE TABLE `t` (
  `script_name` varchar(512) NOT NULL DEFAULT '',
  `tag_value` varchar(255) DEFAULT NULL,
  `req_count` int(11) DEFAULT NULL,
  `req_per_sec` float DEFAULT NULL,
  `hit_count` int(11) DEFAULT NULL,
  `hit_per_sec` float DEFAULT NULL,
  `timer_value` float DEFAULT NULL,
  `timer_median` float DEFAULT NULL,
  `ru_utime_value` float DEFAULT NULL,
  `ru_stime_value` float DEFAULT NULL,
  `index_value` varchar(768) DEFAULT NULL,
  `p95` float DEFAULT NULL,
  KEY `script_name` (`script_name`)
) ENGINE=PINBA DEFAULT CHARSET=utf8mb4 COMMENT='tag_report:group::95';"
    );
}

#[test]
fn views_and_fixed_tables_have_their_keys() {
    let view = report(&read("hv.report1"));
    assert_has!(view => "`index_value` varchar(512) NOT NULL DEFAULT ''");
    assert_has!(view => "KEY `index_value` (`index_value`(85))");
    let info = report(&read("hv.info"));
    assert_has!(info => "`index_value` varchar(1) DEFAULT NULL");
    assert!(report(&read("rtag_report:a")).contains("KEY `hostname` (`hostname`)"));
    let defaults = Defaults::default();
    let request = fixed("request", FixedTable::Request, &defaults);
    assert!(request.starts_with("CREATE TABLE `request` (\n  `id` bigint(20) NOT NULL,\n"));
    assert!(request.contains("  `tags` text,\n"), "{request}");
    assert!(request.ends_with(
        "  PRIMARY KEY (`id`)\n) ENGINE=PINBA DEFAULT CHARSET=utf8mb4 COMMENT='request';"
    ));
    assert!(fixed("tag", FixedTable::Tag, &defaults).contains("UNIQUE KEY `name` (`name`)"));
    assert!(fixed("v2_active", FixedTable::V2Active, &defaults).contains("COMMENT='v2/active'"));
}

/// The COMMENT of a statement, unquoted as in MySQL.
fn comment_of(statement: &str) -> String {
    let quoted = statement.split_once("COMMENT='").unwrap().1.strip_suffix("';").unwrap();
    quoted.replace("''", "'").replace("\\\\", "\\")
}

#[test]
fn every_statement_makes_the_same_report_again() {
    let mut reports = builtin::reports(&Defaults::default());
    for comment in [
        "tagN_report2:a,it's:min_time=1,tag.x=back\\slash:50",
        "hv.rtag_report:a",
        "v2/timer/60/@a/hv=0:100:50,p95/no_filters",
        r#"{"level":"timer","keys":["@quote'd","+tick`"],"filters":["+a=\\"],"window":"60s"}"#,
    ] {
        reports.push(read(comment));
    }
    for definition in reports {
        let statement = report(&definition);
        let again =
            match read_comment(&definition.name, &comment_of(&statement), &Defaults::default()) {
                Ok(Comment::Report(again)) => *again,
                other => panic!("{statement}: {other:?}"),
            };
        assert_eq!(again, definition, "{statement}");
        assert_eq!(statement.matches("\n  `").count(), definition.layout.columns().len());
    }
}

#[test]
fn long_texts_still_make_a_table_that_can_be() {
    let defaults =
        Defaults { script_name_bytes_max: 16_384, text_bytes_max: 4096, ..Defaults::default() };
    let tags: Vec<String> = (0..15).map(|at| format!("t{at}")).collect();
    let comment = format!("tagN_report:{}", tags.join(","));
    let Ok(Comment::Report(definition)) = read_comment("t", &comment, &defaults) else {
        panic!("{comment}")
    };
    let statement = report(&definition);
    assert_has!(statement => "  `script_name` text NOT NULL,\n  `tag1_value` text,\n");
    assert_has!(statement => "KEY `script_name` (`script_name`(255))");
    assert!(!statement.contains("varchar"), "{statement}");
    assert!(fixed("tag", FixedTable::Tag, &defaults).contains("UNIQUE KEY `name` (`name`(255))"));
    // The longest name kept by default fits as it is.
    assert!(report(&read("tag_report:a")).contains("KEY `script_name` (`script_name`)"));
}

#[test]
fn for_a_mariadb_in_front_the_table_says_where_it_is() {
    let defaults = Defaults::default();
    let server = "mysql://it's@127.0.0.1:33306/pinba";
    let request = super::fixed("request", FixedTable::Request, &defaults).federated(server);
    let (columns, options) = request.rsplit_once("\n) ").unwrap();
    assert!(
        columns.ends_with(
            "  PRIMARY KEY (`id`),\n  KEY `server_host` (`server_name`, `hostname`),\n  KEY `status` (`status`)"
        ),
        "{columns}"
    );
    assert_eq!(
        options,
        "ENGINE=FEDERATED DEFAULT CHARSET=utf8mb4 CONNECTION='mysql://it''s@127.0.0.1:33306/pinba/request';"
    );
    let report = read("tag_report:group::95");
    let (pinba, federated) =
        (super::report(&report).pinba(), super::report(&report).federated(server));
    assert_eq!(
        pinba.rsplit_once(") ENGINE").unwrap().0,
        federated.rsplit_once(") ENGINE").unwrap().0
    );
}
