//! A real MariaDB in front: the tables that `pinbad tables --federated` prints, and the statements
//! that Pinboard runs.

use super::{MYSQL, fill};
use crate::harness::{Program, pinbad, run};
use crate::mariadb::MariaDb;

/// A daemon with Pinboard's report, and a MariaDB that has all of its tables beside writable ones.
struct Site {
    program: Program,
    mariadb: MariaDb,
}

const REPORTS: &str = "[[report]]\nname = \"ipm_pinba_report_by_hostname_90_95_99\"\ncomment = \"report3:::90,95,99\"\n\
    [[report]]\nname = \"ipm_pinba_tag_info_group_server_name\"\n\
    comment = \"tagN_info:group,__server_name::90,95,99\"\n";

fn site() -> Site {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("pinbad.toml");
    std::fs::write(&config, REPORTS).unwrap();
    let config = config.to_str().unwrap();
    let program = Program::start(&["serve", "--config", config], &[MYSQL]);
    fill(&program.site);
    let server = format!("--federated=mysql://pinboard@{}", program.site.mysql.unwrap());
    let printed = run(pinbad().args(["tables", "--config", config, &server]));
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let mariadb = MariaDb::start(&["--plugin-load-add=ha_federatedx"]);
    mariadb.sql("CREATE DATABASE pinboard CHARACTER SET utf8mb4");
    mariadb.sql(&format!("USE pinboard; {}", printed.out));
    Site { program, mariadb }
}

impl Site {
    #[track_caller]
    fn ask(&self, statements: &str) -> String {
        self.mariadb.sql(&format!("USE pinboard; {statements}"))
    }
}

#[test]
fn the_tables_of_the_recipe_and_what_pinboard_runs() {
    let site = site();
    // Every table that was printed is one.
    let tables = site.ask("SHOW TABLES");
    for table in "request timer tag timertag info status report_by_script_name".split(' ') {
        assert!(tables.lines().any(|line| line == table), "{table} in {tables}");
        site.ask(&format!("SELECT * FROM {table} LIMIT 1"));
    }
    assert_eq!(site.ask("SELECT count(*) FROM request"), "count(*)\n12\n");
    assert_eq!(
        site.ask("SELECT id, req_time, script_name FROM request WHERE id = 7"),
        "id\treq_time\tscript_name\n7\t0.875\t/каталог.php\n"
    );
    // By a local key: a superset is fetched (LIKE), and filtered again.
    assert_eq!(
        site.ask(
            "SELECT count(*) FROM request WHERE server_name = 's1.example' AND hostname = 'web1'"
        ),
        "count(*)\n2\n"
    );
    // Alerts.
    assert_eq!(
        site.ask(
            "SELECT server_name, script_name, status, max(hostname) AS hostname, count(*) AS count FROM request \
             WHERE status >= 500 GROUP BY server_name, script_name, status ORDER BY script_name"
        ),
        "server_name\tscript_name\tstatus\thostname\tcount\n\
         s1.example.org\t/index.php\t503\tweb1\t1\n\
         s1.example.org\t/каталог.php\t503\tweb3\t2\n"
    );
    // Percentiles, a sub-query for each, into a table of one's own.
    site.ask("CREATE TABLE ipm_percentiles (server_name varchar(64), hostname varchar(64), p float, m float)");
    site.ask(
        "INSERT INTO ipm_percentiles SELECT \"s1.example\" AS server_name, \"web1\" AS hostname, \
         (SELECT r.req_time FROM request r WHERE r.server_name = r2.server_name AND r.hostname = r2.hostname \
          ORDER BY r.req_time DESC LIMIT 1, 1) AS p, max(r2.req_time) FROM request r2 \
         WHERE r2.server_name = \"s1.example\" AND r2.hostname = \"web1\"",
    );
    assert_eq!(
        site.ask("SELECT * FROM ipm_percentiles"),
        "server_name\thostname\tp\tm\ns1.example\tweb1\t0.125\t0.875\n"
    );
    // A report with percentiles, guarded as Pinboard does it.
    site.ask(
        "CREATE TABLE ipm_report (hostname varchar(64), req_count int, median float, p90 float, created_at datetime)",
    );
    site.ask(
        "INSERT IGNORE INTO ipm_report SELECT LEFT(hostname, 64), req_count, req_time_median, \
         CASE WHEN TRIM(CONVERT(p90, CHAR)) REGEXP '^[0-9.eE+-]+$' AND ABS(CAST(TRIM(CONVERT(p90, CHAR)) AS DOUBLE)) < 3.4e38 \
         THEN LEAST(GREATEST(p90, 0), 1000) ELSE NULL END AS p90, '2026-11-21 00:00:00' \
         FROM ipm_pinba_report_by_hostname_90_95_99",
    );
    let report = site.ask("SELECT hostname, req_count, p90 > 0 FROM ipm_report ORDER BY hostname");
    assert_eq!(report, "hostname\treq_count\tp90 > 0\nweb1\t4\t1\nweb2\t4\t1\nweb3\t4\t1\n");
    assert_eq!(
        site.ask("SELECT count(*), sum(hit_count) FROM ipm_pinba_tag_info_group_server_name"),
        "count(*)\tsum(hit_count)\n4\t36\n"
    );
    // The slowest of each, by a window function.
    assert_eq!(
        site.ask(
            "SELECT hostname, id FROM (SELECT r.*, ROW_NUMBER() OVER (PARTITION BY r.server_name, r.hostname, r.script_name \
             ORDER BY r.req_time DESC, r.timestamp DESC, r.id DESC) AS rn FROM request r) x WHERE rn = 1 \
             ORDER BY req_time DESC LIMIT 3"
        ),
        "hostname\tid\nweb3\t12\nweb2\t11\nweb1\t10\n"
    );
    // Timers with their tags.
    assert_eq!(
        site.ask(
            "SELECT t.request_id, t.hit_count, tag.name, tt.value FROM timer t JOIN request r ON t.request_id = r.id \
             JOIN timertag tt ON tt.timer_id = t.id JOIN tag ON tt.tag_id = tag.id WHERE t.request_id IN (3, 4) \
             ORDER BY t.request_id, t.id, tag.name"
        ),
        "request_id\thit_count\tname\tvalue\n3\t2\tgroup\tdb\n3\t2\top\tread\n3\t1\tgroup\tcache\n\
         4\t2\tgroup\tdb\n4\t2\top\tread\n4\t1\tgroup\tcache\n"
    );
    // Memory and processor time, statuses.
    site.ask(
        "SELECT server_name, hostname, script_name, max(mem_peak_usage) FROM request GROUP BY server_name, hostname, script_name \
         ORDER BY max(mem_peak_usage) DESC LIMIT 10",
    );
    site.ask(
        "SELECT LEFT(server_name, 64), status, LEFT(max(tags), 1024), max(tags_cnt), FROM_UNIXTIME(max(timestamp)) FROM request \
         WHERE status >= 500 GROUP BY server_name, hostname, script_name, status LIMIT 25",
    );
    // A write is refused, and says why.
    let said = site.mariadb.try_sql("INSERT INTO pinboard.tag (id, name) VALUES (99, 'x')");
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("1290") || said.err.contains("read"), "{said:?}");
    assert_eq!(site.ask("SELECT count(*) FROM tag"), "count(*)\n2\n");
}

#[test]
fn tables_can_be_discovered_and_connections_lost() {
    let site = site();
    let mysql = site.program.site.mysql.unwrap();
    site.ask(&format!(
        "CREATE TABLE found ENGINE=FEDERATED CONNECTION='mysql://pinboard@{mysql}/pinba/report_by_script_name'"
    ));
    assert_eq!(
        site.ask("SELECT script_name, req_count, req_time_total FROM found ORDER BY script_name"),
        "script_name\treq_count\treq_time_total\n/index.php\t6\t2.625\n/каталог.php\t6\t7.125\n"
    );
    assert_has!(site.ask("SHOW CREATE TABLE found") => "`req_time_total` float");
    // Its connections are killed: the next statement opens others.
    let mut killer = super::client::Client::connect(mysql);
    for id in 1..killer.id() {
        killer.query(&format!("KILL {id}"));
    }
    assert_eq!(site.ask("SELECT count(*) FROM found"), "count(*)\n2\n");
}
