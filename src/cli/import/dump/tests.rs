//! Dumps in the formats of mysqldump (MySQL and MariaDB) and of the command-line client.
//!
//! Truncated input and other encodings also lead to an answer, never to a panic.

use super::*;

/// Returns name, engine and COMMENT of every statement.
fn read(text: &str) -> Vec<(String, String, String)> {
    statements(text.as_bytes())
        .into_iter()
        .map(|table| match table.body {
            Body::Options { engine, comment } => {
                (table.name, engine.unwrap_or_default(), comment.unwrap_or_default())
            }
            other => (table.name, format!("{other:?}"), String::new()),
        })
        .collect()
}

#[track_caller]
fn assert_reads(text: &str, expected: &[(&str, &str, &str)]) {
    let read = read(text);
    let read: Vec<_> = read
        .iter()
        .map(|(name, engine, comment)| (name.as_str(), engine.as_str(), comment.as_str()))
        .collect();
    assert_eq!(read, expected, "{text}");
}

#[test]
fn mysqldump_of_mysql_5() {
    assert_reads(
        r"-- MySQL dump 10.13  Distrib 5.5.62, for debian-linux-gnu (x86_64)
--
-- Host: localhost    Database: pinba
-- ------------------------------------------------------
-- Server version	5.5.62-0+deb8u1

/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!40103 SET TIME_ZONE='+00:00' */;

--
-- Table structure for table `report_by_script_name`
--

DROP TABLE IF EXISTS `report_by_script_name`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `report_by_script_name` (
  `req_count` int(11) DEFAULT NULL COMMENT 'not this, it''s a column''s: (',
  `script_name` varchar(128) NOT NULL DEFAULT ')',
  KEY `script_name` (`script_name`)
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='report1';
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `users` WRITE;
/*!40000 ALTER TABLE `users` DISABLE KEYS */;
CREATE TABLE `users` (
  `id` int(11) NOT NULL AUTO_INCREMENT,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=12 DEFAULT CHARSET=utf8;
INSERT INTO `users` VALUES (1,'CREATE TABLE `x` (a int) ENGINE=PINBA COMMENT=\'report2\';'),(2,'it''s'),(3,'\\');
/*!50001 CREATE TABLE `seen` (
  `a` tinyint NOT NULL
) ENGINE=MyISAM */;
/*!50001 DROP TABLE `seen`*/;
/*!50001 CREATE ALGORITHM=UNDEFINED */
/*!50013 DEFINER=`root`@`localhost` SQL SECURITY DEFINER */
/*!50001 VIEW `seen` AS select 1 AS `a` */;
-- Dump completed on 2019-04-01 12:00:00
",
        &[
            ("report_by_script_name", "PINBA", "report1"),
            ("users", "InnoDB", ""),
            ("seen", "MyISAM", ""),
        ],
    );
}

#[test]
fn mysqldump_of_mariadb() {
    assert_reads(
        "/*M!999999\\- enable the sandbox mode */ \n\
         -- MariaDB dump 10.19  Distrib 10.5.29-MariaDB\n\
         CREATE TABLE `tag_info_group` (\n  `tag_value` varchar(64) DEFAULT NULL\n\
         ) ENGINE=PINBA DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci COMMENT='tag_info:group::90,95'\n\
         /*!50100 PARTITION BY KEY (`a`) (PARTITION p0 COMMENT = 'p' ENGINE = InnoDB) */;\n",
        &[("tag_info_group", "PINBA", "tag_info:group::90,95")],
    );
}

#[test]
fn options_in_any_order_and_names_of_every_kind() {
    for (statement, name, comment) in cases![
        "create table r(a int)comment='report1'engine=pinba" => "r", "report1";
        "CREATE TABLE IF NOT EXISTS `my``table` (a int) COMMENT 'report2' ENGINE PINBA" =>
            "my`table", "report2";
        "CREATE OR REPLACE TABLE pinba.r (a int) ENGINE = 'PINBA', COMMENT = \"it's\"" => "r",
            "it's";
        "CREATE TEMPORARY TABLE `pinba` . `r` (a int) TYPE=PINBA COMMENT='a''b\\'c\\\\d'" => "r",
            "a'b'c\\d";
        "CREATE TABLE \"r\" (a int DEFAULT '(') ENGINE=PINBA COMMENT='x\\ny'" => "r", "x\ny";
        "CREATE /* why */ TABLE # and how\n r -- well\n (a enum(')','(')) ENGINE=PINBA COMMENT='tag_info:\u{e4}'" =>
            "r", "tag_info:\u{e4}";
        "/*!50100 CREATE TABLE `r` (a int) ENGINE=PINBA COMMENT='report1' */" => "r", "report1";
        "CREATE TABLE r (a int) UNION=(x,y) COMMENT='report1' ENGINE=PINBA" => "r", "report1";
    ] {
        let read = read(statement);
        assert_eq!(read.len(), 1, "{statement}");
        assert_eq!((read[0].0.as_str(), read[0].2.as_str()), (name, comment), "{statement}");
        assert!(read[0].1.eq_ignore_ascii_case("pinba"), "{statement}");
    }
}

#[test]
fn what_the_client_shows_of_show_create_table() {
    let expected = [("r", "PINBA", "it's"), ("s", "PINBA", "report2")];
    // In a box.
    assert_reads(
        "mysql> show create table r;
+-------+-----------------------------------------------+
| Table | Create Table                                  |
+-------+-----------------------------------------------+
| r     | CREATE TABLE `r` (
  `req_count` int(11) DEFAULT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='it''s' |
+-------+-----------------------------------------------+
1 row in set (0.00 sec)

mysql> show create table s;
| s     | CREATE TABLE `s` (
  `req_count` int(11) DEFAULT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='report2' |
",
        &expected,
    );
    // With \\G.
    assert_reads(
        "*************************** 1. row ***************************
       Table: r
Create Table: CREATE TABLE `r` (
  `req_count` int(11) DEFAULT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='it''s'
1 row in set (0.00 sec)
*************************** 1. row ***************************
       Table: s
Create Table: CREATE TABLE `s` (
  `req_count` int(11) DEFAULT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='report2'
",
        &expected,
    );
    // Through a pipe: tabs, with escapes inside the fields.
    assert_reads(
        "Table\tCreate Table\n\
         r\tCREATE TABLE `r` (\\n  `a` varchar(9) DEFAULT '\\\\\\\\'\\n) ENGINE=PINBA COMMENT='it''s'\n\
         Table\tCreate Table\n\
         s\tCREATE TABLE `s` (\\n  `a` int(11)\\n) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='report2'\n",
        &expected,
    );
}

#[test]
fn what_is_not_whole_is_said_so() {
    assert_reads(
        "CREATE TABLE a LIKE b; CREATE TABLE c (x int) ENGINE=PINBA COMMENT='report1'; CREATE TABLE d (x",
        &[("a", "Like", ""), ("c", "PINBA", "report1"), ("d", "Cut", "")],
    );
    assert_reads("CREATE TABLE a (x int) ENGINE=PINBA COMMENT='repo", &[("a", "Cut", "")]);
    for nothing in ["", "CREATE", "CREATE TABLE", "CREATE TABLE a", "/*", "'", "--", "\u{0}\u{1}PK"]
    {
        assert_reads(nothing, &[]);
    }
}

#[test]
fn other_encodings_are_read() {
    let statement = "CREATE TABLE r (a int) ENGINE=PINBA COMMENT='tag_info:\u{e4}';\r\n";
    let expected = statements(statement.as_bytes());
    assert_eq!(expected.len(), 1);
    let bom = format!("\u{feff}{statement}");
    assert_eq!(statements(bom.as_bytes()), expected);
    let wide =
        |order: fn(u16) -> [u8; 2]| -> Vec<u8> { bom.encode_utf16().flat_map(order).collect() };
    assert_eq!(statements(&wide(u16::to_le_bytes)), expected);
    assert_eq!(statements(&wide(u16::to_be_bytes)), expected);
}

#[test]
fn no_beginning_of_a_dump_panics() {
    let dump = "/*!40101 SET x */; CREATE TABLE `a``b` (`x` varchar(1) DEFAULT '\\'') /*!50100 x */ \
                ENGINE=PINBA COMMENT='a''\\\\b' -- \n# x\n;\nt\tCREATE TABLE `t` (\\n) COMMENT='\\\\'";
    for end in 0..=dump.len() {
        let _whatever = statements(&dump.as_bytes()[..end]);
        let _whatever = statements(&dump.as_bytes()[end..]);
    }
}
