//! The mariadb tools, as they are installed from Debian: batch, on a terminal, and those beside it.

use super::Shop;
use super::tools::{fine, tool};
use crate::harness::run;
use crate::screen::Screen;

#[test]
fn batch() {
    let shop = Shop::open();
    let ask = |text: &str| fine(tool("mariadb", shop.mysql).args(["pinba", "-e", text])).out;
    assert_eq!(
        ask("SELECT script_name, req_count, req_time_total FROM report_by_script_name ORDER BY 1"),
        "script_name\treq_count\treq_time_total\n/index.php\t6\t2.625\n/каталог.php\t6\t7.125\n"
    );
    assert_eq!(
        ask("select 1; select NULL, 'x'; select count(*) as n from timer"),
        "1\n1\nNULL\tx\nNULL\tx\nn\n24\n"
    );
    let tables = ask("SHOW TABLES");
    assert!(tables.starts_with("Tables_in_pinba\n"), "{tables}");
    for table in "request timer timertag tag info report_by_script_name".split(' ') {
        assert!(tables.lines().any(|line| line == table), "{table} in {tables}");
    }
    let described = ask("DESCRIBE request");
    assert!(described.contains("req_time\tfloat\t"), "{described}");
    let created = ask("SHOW CREATE TABLE report_by_script_name\\G");
    assert!(created.contains("ENGINE=PINBA"), "{created}");
    let status = ask("\\s");
    for told in ["Server version:\t\t10.11.", "-MariaDB-pinba", "Protocol version:\t10", "Uptime:"]
    {
        assert!(status.contains(told), "{told} in {status}");
    }
    let types = fine(tool("mariadb", shop.mysql).args([
        "pinba",
        "--table",
        "--column-type-info",
        "-e",
        "SELECT req_time, hostname, id FROM request LIMIT 1",
    ]));
    for told in ["FLOAT", "VAR_STRING", "Decimals:   31", "Org_table:  `request`", "PRI_KEY"] {
        assert!(types.out.contains(told), "{told} in {}", types.out);
    }
}

#[test]
fn errors() {
    let shop = Shop::open();
    for (text, code) in [
        ("SELECT * FROM nowhere", "ERROR 1146 (42S02)"),
        ("SELECT nothing FROM request", "ERROR 1054 (42S22)"),
        ("SELEC", "ERROR 1064 (42000)"),
        ("DELETE FROM request", "ERROR 1290 (HY000)"),
        ("USE nowhere", "ERROR 1049 (42000)"),
    ] {
        let said = run(tool("mariadb", shop.mysql).args(["pinba", "-e", text]));
        assert_eq!(said.code, Some(1), "{text}: {said:?}");
        assert!(said.err.contains(code), "{text}: {said:?}");
    }
}

/// With a terminal the client asks for the columns of every table before its first prompt, and
/// completes their names.
#[test]
fn on_a_terminal() {
    let shop = Shop::open();
    let mut mariadb = tool("mariadb", shop.mysql);
    mariadb.arg("pinba");
    let mut screen = Screen::start(mariadb, 120, 50);
    screen.await_text("Reading table information for completion of table and column names");
    screen.await_text("MariaDB [pinba]>");
    // Names are completed: one of a table, one of a column.
    screen
        .press("select req_time_tot\t+1 from report_by_script_na\t where req_count = 6 limit 1;\r");
    screen.await_text("| req_time_total +1 |");
    screen.await_text("1 row in set");
    screen.press("use information_schema\rselect database();\r");
    screen.await_text("| information_schema |");
    screen.press("use pinba\rselect req_count as told from info;\rselect nothing;\r");
    screen.await_text("|   12 |");
    screen.await_text("ERROR 1054 (42S22)");
    screen.press("exit\r");
    screen.await_text("Bye");
    assert!(screen.end().success());
}

#[test]
fn show_and_admin() {
    let shop = Shop::open();
    let out = |name: &str, arguments: &[&str]| fine(tool(name, shop.mysql).args(arguments)).out;
    assert!(out("mariadb-show", &[]).contains("pinba"));
    assert!(out("mariadb-show", &["pinba"]).contains("report_by_script_name"));
    assert!(out("mariadb-show", &["pinba", "request"]).contains("req_time"));
    assert_eq!(out("mariadb-admin", &["ping"]), "mysqld is alive\n");
    assert!(out("mariadb-admin", &["status"]).starts_with("Uptime: "));
    assert!(out("mariadb-admin", &["processlist"]).contains("Id"));
    let said = run(tool("mariadb-admin", shop.mysql).arg("shutdown"));
    assert_eq!(said.code, Some(1), "{said:?}");
}

#[test]
fn dump() {
    let shop = Shop::open();
    let definitions = fine(tool("mariadb-dump", shop.mysql).args(["--no-data", "pinba"])).out;
    for told in ["CREATE TABLE `request`", "CREATE TABLE `report_by_script_name`", "ENGINE=PINBA"] {
        assert!(definitions.contains(told), "{told} in {definitions}");
    }
    for options in [&["--single-transaction"][..], &[]] {
        let data =
            fine(tool("mariadb-dump", shop.mysql).args(options).args(["pinba", "request", "tag"]))
                .out;
        assert!(data.contains("INSERT INTO `request` VALUES"), "{data}");
        assert!(data.contains("'/каталог.php'"), "{data}");
        assert!(data.contains("-- Dump completed"), "{data}");
    }
}
