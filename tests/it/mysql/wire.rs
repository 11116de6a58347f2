//! The protocol, byte by byte where it matters: what every command is answered, what bounds a
//! client, and what happens to one that sends what no client would.

use std::io::Write;

use super::Shop;
use super::client::{Answer, Client, DEPRECATE_EOF, Outcome, SESSION_TRACK};

const AUTOCOMMIT: u16 = 2;

#[test]
fn greetings_differ_and_claim_what_is_served() {
    let shop = Shop::open();
    let (first, second) = (Client::greeted(shop.mysql), Client::greeted(shop.mysql));
    assert_eq!(first.greeting[0], 10);
    let version = first.greeting[1..].split(|byte| *byte == 0).next().unwrap();
    let version = std::str::from_utf8(version).unwrap();
    assert!(
        version.starts_with("5.5.5-10.11.") && version.ends_with("-MariaDB-pinba"),
        "{version}"
    );
    assert_ne!(first.salt(), second.salt());
    assert_ne!(first.id(), second.id());
    for client in [&first, &second] {
        let salt = client.salt();
        assert_eq!(salt.len(), 20);
        assert!(salt.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'$'));
    }
}

#[test]
fn columns_are_told_as_they_are() {
    let shop = Shop::open();
    let mut client = Client::connect(shop.mysql);
    let outcome = client
        .query("SELECT script_name, req_count, req_time_total AS t FROM report_by_script_name");
    let Outcome::Rows { columns, rows, status } = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(status, AUTOCOMMIT);
    assert_eq!(rows.len(), 2);
    let [script, count, total] = &columns[..] else {
        panic!("{columns:?}");
    };
    for column in &columns {
        assert_eq!(column.schema, "pinba");
        assert_eq!(column.org_table, "report_by_script_name");
    }
    assert_eq!((script.kind, script.charset, script.decimals), (253, 45, 0));
    assert!(script.length >= 4 * 255, "{script:?}");
    assert_eq!((count.kind == 3 || count.kind == 8, count.charset), (true, 63));
    assert_eq!((total.kind, total.charset, total.decimals), (4, 63, 31));
    assert_eq!((&*total.name, &*total.org_name), ("t", "req_time_total"));
    // What the statement calls the table, whatever it calls the column.
    for (statement, table, org_table) in cases![
        "SELECT script_name AS x FROM request r" => "r", "request";
        "SELECT script_name x FROM request" => "request", "request";
        "SELECT r.script_name AS x, count(*) FROM request r GROUP BY 1 HAVING count(*) > 0 ORDER BY 2 LIMIT 1" =>
            "r", "request";
        "SELECT DISTINCT script_name AS x FROM request r ORDER BY x LIMIT 3" => "r", "request";
        "SELECT q.y AS x FROM (SELECT script_name AS y FROM request r) q" => "q", "request";
        "SELECT t.id AS x FROM timer t JOIN request r ON t.request_id = r.id" => "t", "timer";
        "SELECT concat(script_name, '') AS x FROM request r" => "", "";
        "SELECT 1 AS x FROM request r" => "", "";
    ] {
        let Outcome::Rows { columns, .. } = client.query(statement) else {
            panic!("{statement}");
        };
        assert_eq!(
            [&*columns[0].name, &*columns[0].table, &*columns[0].org_table],
            ["x", table, org_table],
            "{statement}"
        );
    }
}

#[test]
fn every_command_is_answered() {
    let shop = Shop::open();
    let mut client = Client::connect(shop.mysql);
    // Ping, statistics.
    client.assert_alive();
    client.command(9, b"");
    let (_, line) = client.read();
    let line = String::from_utf8(line).unwrap();
    assert!(line.starts_with("Uptime: ") && line.contains("Threads: 1 "), "{line}");
    // Databases.
    for name in ["pinba", "PINBA", "information_schema"] {
        client.command(2, name.as_bytes());
        assert!(matches!(client.answer(), Answer::Ok { .. }), "{name}");
    }
    client.command(2, b"nowhere");
    assert!(matches!(client.answer(), Answer::Err { code: 1049, .. }));
    client.command(2, b"");
    assert!(matches!(client.answer(), Answer::Err { code: 1046, .. }));
    client.command(2, b"pinba");
    client.answer();
    // Fields of a table: definitions with a default each, then an end that is one.
    client.command(4, b"report_by_script_name\0");
    let mut fields = 0;
    loop {
        let (_, body) = client.read();
        if body[0] == 0xFE {
            assert_eq!(body.len(), 5, "an EOF that libmariadb takes for one");
            break;
        }
        assert_eq!(body.last(), Some(&0xFB));
        fields += 1;
    }
    assert!(fields > 10, "{fields}");
    client.command(4, b"nowhere\0");
    assert!(matches!(client.answer(), Answer::Err { code: 1146, .. }));
    // Several statements in one text: on, off, nonsense.
    for (option, fine) in [([1, 0], true), ([0, 0], true), ([9, 9], false)] {
        client.command(27, &option);
        assert_eq!(matches!(client.answer(), Answer::End { .. }), fine);
    }
    // Reset, and what is not known or not done.
    client.command(31, b"");
    assert!(matches!(client.answer(), Answer::Ok { .. }));
    for command in [0, 5, 6, 7, 8, 10, 11, 13, 15, 16, 18, 19, 20, 21, 29, 30, 32, 99, 250, 255] {
        client.command(command, b"x");
        let answer = client.answer();
        assert!(matches!(answer, Answer::Err { code: 1047, .. }), "{command}: {answer:?}");
    }
    client.send(0, b"");
    assert!(matches!(client.answer(), Answer::Err { code: 1047, .. }));
    // Text that is none.
    client.command(3, b"SELECT '\xFF'");
    assert!(matches!(client.answer(), Answer::Err { code: 1300, .. }));
    client.command(3, b"");
    assert!(matches!(client.answer(), Answer::Err { code: 1065, .. }));
    client.assert_alive();
    // Quit: closed without a word.
    client.command(1, b"");
    assert_eq!(client.try_read(), None);
}

#[test]
fn answers_end_as_the_client_asked() {
    let shop = Shop::open();
    // What was not offered is not heard: SESSION_TRACK would add a byte to every OK.
    for capabilities in [0, DEPRECATE_EOF, SESSION_TRACK, DEPRECATE_EOF | SESSION_TRACK] {
        let mut client = Client::with_capabilities(shop.mysql, capabilities);
        client.command(14, b"");
        assert_eq!(client.read().1, [0, 0, 0, 2, 0, 0, 0]);
        let rows = client.rows("SELECT req_count FROM info");
        assert_eq!(rows, [[Some("12".to_owned())]]);
        let rows = client.rows("SELECT script_name FROM report_by_script_name WHERE req_count < 0");
        assert!(rows.is_empty());
    }
}

#[test]
fn prepared_statements() {
    let shop = Shop::open();
    let mut client = Client::connect(shop.mysql);
    let text = "SELECT req_count, req_time_total FROM report_by_script_name ORDER BY script_name";
    let (id, parameters, columns) = client.prepare(text).unwrap();
    assert_eq!((parameters, columns.len()), (0, 2));
    let Outcome::Rows { columns: again, rows, .. } = client.execute(id, &[]) else {
        panic!("no rows");
    };
    assert_eq!(again, columns);
    // A NULL map with two bits before the first, then the number as it was declared, then a float.
    assert_eq!(columns[0].kind, 8, "wide enough for any count");
    assert_eq!(rows[0][..3], [0, 0, 6]);
    assert_eq!(rows[0][2..10], 6_i64.to_le_bytes());
    assert_eq!(rows[0][10..], 2.625_f32.to_le_bytes());
    // The same error as in text.
    for (wrong, code) in
        [("SELECT nope FROM info", 1054), ("SELECT * FROM nope", 1146), ("SELEC", 1064)]
    {
        assert_eq!(client.prepare(wrong).unwrap_err().0, code, "{wrong}");
    }
    // Long data for a statement that is not there: no answer, and nothing is out of step.
    client.command(24, &[9, 0, 0, 0, 0, 0, b'x']);
    client.command(26, &id.to_le_bytes());
    assert!(matches!(client.answer(), Answer::Ok { .. }));
    for (command, body) in [
        (23, &[9, 0, 0, 0, 0, 1, 0, 0, 0][..]),
        (26, &[9, 0, 0, 0]),
        (28, &[9, 0, 0, 0, 1, 0, 0, 0]),
    ] {
        client.command(command, body);
        let answer = client.answer();
        assert!(matches!(answer, Answer::Err { code: 1243, .. }), "{command}: {answer:?}");
        client.command(command, b"");
        let answer = client.answer();
        assert!(matches!(answer, Answer::Err { code: 1835, .. }), "{command}: {answer:?}");
    }
    client.command(28, &[&id.to_le_bytes()[..], &[1, 0, 0, 0]].concat());
    assert!(matches!(client.answer(), Answer::Err { code: 1421, .. }));
    // Close has no answer; two packets in one write are two commands.
    let close = [&[5, 0, 0, 0, 25][..], &id.to_le_bytes()].concat();
    client.stream.write_all(&[&close[..], &[1, 0, 0, 0, 14]].concat()).unwrap();
    assert!(matches!(client.answer(), Answer::Ok { .. }));
    assert!(matches!(client.execute(id, &[]), Outcome::Failed { code: 1243, .. }));
    // RESET_CONNECTION forgets them all.
    let (id, ..) = client.prepare(text).unwrap();
    client.command(31, b"");
    client.answer();
    assert!(matches!(client.execute(id, &[]), Outcome::Failed { code: 1243, .. }));
}

#[test]
fn too_many_statements_are_refused() {
    let shop = Shop::with(&["mysql.statements_max=2"]);
    let mut client = Client::connect(shop.mysql);
    let (first, ..) = client.prepare("SELECT 1").unwrap();
    client.prepare("SELECT 2").unwrap();
    let (code, message) = client.prepare("SELECT 3").unwrap_err();
    assert_eq!(code, 1461);
    assert!(message.contains("mysql.statements_max"), "{message}");
    client.command(25, &first.to_le_bytes());
    client.prepare("SELECT 3").unwrap();
}

#[test]
fn too_large_packets_are_refused_and_the_connection_goes_on() {
    let shop = Shop::with(&["mysql.packet_max=65536"]);
    let mut client = Client::connect(shop.mysql);
    client.command(3, &vec![b' '; 70_000]);
    let answer = client.answer();
    assert!(matches!(answer, Answer::Err { code: 1153, .. }), "{answer:?}");
    client.assert_alive();
    // Of several frames.
    client.send(0, &vec![3; 0xFF_FFFF]);
    client.send(1, b"the end");
    let answer = client.answer();
    assert!(matches!(answer, Answer::Err { code: 1153, .. }), "{answer:?}");
    client.assert_alive();
}

/// A packet may be sixteen times as long as a statement: what is too long is not even cut into
/// statements, and of two that were not asked for none is run.
#[test]
fn many_statements_in_one_packet_cost_nothing() {
    let shop = Shop::open();
    let mut client = Client::connect(shop.mysql);
    let before = shop.site().status().count("mysql_statements");
    let (code, message) = client.refused(&"a;".repeat(1 << 20));
    assert!(code == 1153 && message.contains("sql.text_max"), "{code} {message}");
    let mut single = Client::with_capabilities(shop.mysql, 0);
    assert_eq!(single.refused(&"DO 1;".repeat(100_000)).0, 1064);
    assert_eq!(shop.site().status().count("mysql_statements"), before);
    single.assert_alive();
    // One after the other, and no further than the first that is wrong.
    client.command(3, b"DO 1; DO 2; oops; DO 3");
    for _ in 0..2 {
        assert!(matches!(client.answer(), Answer::Ok { status } if status & 8 != 0));
    }
    assert!(matches!(client.answer(), Answer::Err { code: 1064, .. }));
    assert_eq!(shop.site().status().count("mysql_statements"), before + 3);
    client.assert_alive();
}

#[test]
fn what_a_client_sets_has_an_end() {
    let shop = Shop::open();
    let mut client = Client::connect(shop.mysql);
    for own in [true, false] {
        let set = |n: usize| {
            let name = match own {
                true => format!("@v{n}"),
                false => "optimizer_switch".to_owned(),
            };
            format!("SET {name} = '{}'", "x".repeat(20_000))
        };
        let refused = (0..10).find_map(|n| match client.query(&set(n)) {
            Outcome::Failed { code, .. } => Some((n, code)),
            _ => None,
        });
        assert_eq!(refused, Some((if own { 3 } else { 0 }, 1210)));
    }
    assert_eq!(client.refused(&format!("SET @{} = 1", "x".repeat(900_000))).0, 1059);
    // A name that is nobody's is kept for as long as the connection is there.
    let mut stranger = Client::greeted(shop.mysql);
    let answer = stranger.log_in(&"x".repeat(60_000), &[], 0);
    assert!(matches!(answer, Answer::Err { code: 1470, .. }), "{answer:?}");
    client.assert_alive();
}

#[test]
fn frames_out_of_order_are_the_end() {
    let shop = Shop::open();
    let mut client = Client::connect(shop.mysql);
    client.send(5, &[14]);
    assert!(matches!(client.answer(), Answer::Err { code: 1156, .. }));
    assert_eq!(client.try_read(), None);
    let mut client = Client::greeted(shop.mysql);
    client.send(7, &[0; 40]);
    assert!(matches!(client.answer(), Answer::Err { code: 1156, .. }));
    assert_eq!(client.try_read(), None);
}
