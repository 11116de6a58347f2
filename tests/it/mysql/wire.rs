//! The protocol, byte by byte where it matters: what every command is answered, what bounds a client, and what happens to one
//! that sends what no client would.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use pinbad::access::Access;
use pinbad::config::{Config, MySqlConfig};
use pinbad::mysql::{MySql, MySqlSettings};
use pinbad::sql::{Engine, SqlSettings};
use pinbad::telemetry::counters::MySqlCounters;

use super::client::{Answer, Client, DEPRECATE_EOF, Outcome, SESSION_TRACK, texts};
use super::{MYSQL, Shop};
use crate::harness::{Here, Program, await_condition, run};

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
        assert!(
            salt.iter()
                .all(|byte| byte.is_ascii_graphic() && *byte != b'$')
        );
    }
}

#[test]
fn columns_are_told_as_they_are() {
    let shop = Shop::open();
    let mut client = Client::connect(shop.mysql);
    let outcome = client
        .query("SELECT script_name, req_count, req_time_total AS t FROM report_by_script_name");
    let Outcome::Rows {
        columns,
        rows,
        status,
    } = outcome
    else {
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
    assert_eq!(
        (count.kind == 3 || count.kind == 8, count.charset),
        (true, 63)
    );
    assert_eq!((total.kind, total.charset, total.decimals), (4, 63, 31));
    assert_eq!((&*total.name, &*total.org_name), ("t", "req_time_total"));
    // What the statement calls the table, whatever it calls the column.
    for (statement, table, org_table) in [
        ("SELECT script_name AS x FROM request r", "r", "request"),
        ("SELECT script_name x FROM request", "request", "request"),
        (
            "SELECT r.script_name AS x, count(*) FROM request r GROUP BY 1 HAVING count(*) > 0 ORDER BY 2 LIMIT 1",
            "r",
            "request",
        ),
        (
            "SELECT DISTINCT script_name AS x FROM request r ORDER BY x LIMIT 3",
            "r",
            "request",
        ),
        (
            "SELECT q.y AS x FROM (SELECT script_name AS y FROM request r) q",
            "q",
            "request",
        ),
        (
            "SELECT t.id AS x FROM timer t JOIN request r ON t.request_id = r.id",
            "t",
            "timer",
        ),
        ("SELECT concat(script_name, '') AS x FROM request r", "", ""),
        ("SELECT 1 AS x FROM request r", "", ""),
    ] {
        let Outcome::Rows { columns, .. } = client.query(statement) else {
            panic!("{statement}");
        };
        assert_eq!(
            [
                &*columns[0].name,
                &*columns[0].table,
                &*columns[0].org_table
            ],
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
    assert!(
        line.starts_with("Uptime: ") && line.contains("Threads: 1 "),
        "{line}"
    );
    // Databases.
    for name in ["pinba", "PINBA", "information_schema"] {
        client.command(2, name.as_bytes());
        assert!(matches!(client.answer(), Answer::Ok { .. }), "{name}");
    }
    client.command(2, b"nowhere");
    assert!(matches!(client.answer(), Answer::Err { code: 1049, .. }));
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
    for command in [
        0, 5, 6, 7, 8, 10, 11, 13, 15, 16, 18, 19, 20, 21, 29, 30, 32, 99, 250, 255,
    ] {
        client.command(command, b"x");
        let answer = client.answer();
        assert!(
            matches!(answer, Answer::Err { code: 1047, .. }),
            "{command}: {answer:?}"
        );
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
    for capabilities in [
        0,
        DEPRECATE_EOF,
        SESSION_TRACK,
        DEPRECATE_EOF | SESSION_TRACK,
    ] {
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
    let Outcome::Rows {
        columns: again,
        rows,
        ..
    } = client.execute(id, &[])
    else {
        panic!("no rows");
    };
    assert_eq!(again, columns);
    // A NULL map with two bits before the first, then the number as it was declared, then a float.
    assert_eq!(columns[0].kind, 8, "wide enough for any count");
    assert_eq!(rows[0][..3], [0, 0, 6]);
    assert_eq!(rows[0][2..10], 6_i64.to_le_bytes());
    assert_eq!(rows[0][10..], 2.625_f32.to_le_bytes());
    // The same error as in text.
    for (wrong, code) in [
        ("SELECT nope FROM info", 1054),
        ("SELECT * FROM nope", 1146),
        ("SELEC", 1064),
    ] {
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
        assert!(
            matches!(answer, Answer::Err { code: 1243, .. }),
            "{command}: {answer:?}"
        );
        client.command(command, b"");
        let answer = client.answer();
        assert!(
            matches!(answer, Answer::Err { code: 1835, .. }),
            "{command}: {answer:?}"
        );
    }
    client.command(28, &[&id.to_le_bytes()[..], &[1, 0, 0, 0]].concat());
    assert!(matches!(client.answer(), Answer::Err { code: 1421, .. }));
    // Close has no answer; two packets in one write are two commands.
    let close = [&[5, 0, 0, 0, 25][..], &id.to_le_bytes()].concat();
    client
        .stream
        .write_all(&[&close[..], &[1, 0, 0, 0, 14]].concat())
        .unwrap();
    assert!(matches!(client.answer(), Answer::Ok { .. }));
    assert!(matches!(
        client.execute(id, &[]),
        Outcome::Failed { code: 1243, .. }
    ));
    // RESET_CONNECTION forgets them all.
    let (id, ..) = client.prepare(text).unwrap();
    client.command(31, b"");
    client.answer();
    assert!(matches!(
        client.execute(id, &[]),
        Outcome::Failed { code: 1243, .. }
    ));
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
    assert!(
        matches!(answer, Answer::Err { code: 1153, .. }),
        "{answer:?}"
    );
    client.assert_alive();
    // Of several frames.
    client.send(0, &vec![3; 0xFF_FFFF]);
    client.send(1, b"the end");
    let answer = client.answer();
    assert!(
        matches!(answer, Answer::Err { code: 1153, .. }),
        "{answer:?}"
    );
    client.assert_alive();
}

/// A packet may be sixteen times as long as a statement: what is too long is not even cut into statements, and of two that
/// were not asked for none is run.
#[test]
fn many_statements_in_one_packet_cost_nothing() {
    let shop = Shop::open();
    let mut client = Client::connect(shop.mysql);
    let before = shop.site().status().count("mysql_statements");
    let (code, message) = client.refused(&"a;".repeat(1 << 20));
    assert!(
        code == 1153 && message.contains("sql.text_max"),
        "{code} {message}"
    );
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
    assert_eq!(
        client
            .refused(&format!("SET @{} = 1", "x".repeat(900_000)))
            .0,
        1059
    );
    // A name that is nobody's is kept for as long as the connection is there.
    let mut stranger = Client::greeted(shop.mysql);
    let answer = stranger.log_in(&"x".repeat(60_000), &[], 0);
    assert!(
        matches!(answer, Answer::Err { code: 1470, .. }),
        "{answer:?}"
    );
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

#[test]
fn too_many_connections_are_told_so() {
    let shop = Shop::with(&["mysql.connections_max=4"]);
    // One address has half of them.
    let clients: Vec<Client> = (0..2).map(|_| Client::connect(shop.mysql)).collect();
    let refused = Client::greeted(shop.mysql);
    assert_eq!(refused.greeting[..3], [0xFF, 0x10, 0x04]);
    let told = String::from_utf8(refused.greeting[3..].to_vec()).unwrap();
    assert!(told.contains("mysql.connections_max"), "{told}");
    let status = shop.site().status();
    assert_eq!(status.count("mysql_connections"), 2);
    assert_eq!(status.count("mysql_connections_open"), 2);
    assert_eq!(status.count("mysql_connections_refused"), 1);
    drop(clients);
    await_condition("their places are free", || {
        match shop.site().status().count("mysql_connections_open") {
            0 => Ok(()),
            open => Err(open),
        }
    });
    Client::connect(shop.mysql).assert_alive();
}

#[test]
fn idle_connections_are_closed() {
    let shop = Shop::with(&["mysql.idle_max=1"]);
    // Before the first moment at which the daemon may have begun to count.
    let start = Instant::now();
    let mut client = Client::connect(shop.mysql);
    assert_eq!(client.try_read(), None);
    assert!(start.elapsed() > Duration::from_millis(900));
}

/// Nothing; the beginning of a packet; a byte now and then: whatever a client does instead of logging in, its place is free again
/// when its time is over.
#[test]
fn who_does_not_log_in_is_sent_away() {
    const PATIENCE: Duration = Duration::from_secs(60);
    let here = Here::start(&[]);
    let engine = Engine::new(Arc::clone(here.catalog()), SqlSettings::default()).unwrap();
    let settings = MySqlSettings {
        login_max: Duration::from_millis(300),
        ..MySqlSettings::new(Access::open(), None, Config::default().mysql)
    };
    let counters = Arc::<MySqlCounters>::default();
    let service = MySql::new(engine, settings, Arc::clone(&counters));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let bound = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"));
    let listener = bound.unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(pinbad::mysql::serve(
        listener,
        service,
        std::future::pending(),
    ));
    let connect = || {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    };
    for beginning in [&b""[..], b"\x30\0\0\x01\x05"] {
        let mut stream = connect();
        // On a busy machine it may be closed already.
        let _sent = stream.write_all(beginning);
        match stream.read_to_end(&mut Vec::new()) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
    let mut stream = connect();
    let start = Instant::now();
    let _sent = stream.write_all(b"\xFF\xFF\0\x01");
    while stream.write_all(b"x").is_ok() {
        assert!(start.elapsed() < PATIENCE, "it is let in for ever");
        std::thread::sleep(Duration::from_millis(5));
    }
    await_condition("their places are free", || {
        match counters.mysql_connections_open.get() {
            0 => Ok(()),
            open => Err(open),
        }
    });
    assert_eq!(counters.mysql_connections.get(), 3);
    here.stop();
}

/// A statement that is far from done when it is ended.
pub(super) const LONG: &str = "SELECT count(*) FROM report_by_script_name a, report_by_script_name b, report_by_script_name c, \
    report_by_script_name d, report_by_script_name e, report_by_script_name f, report_by_script_name g, \
    report_by_script_name h, report_by_script_name i, report_by_script_name j, report_by_script_name k, \
    report_by_script_name l, report_by_script_name m, report_by_script_name n, report_by_script_name o, \
    report_by_script_name p, report_by_script_name q, report_by_script_name r, report_by_script_name s, \
    report_by_script_name t, report_by_script_name u, report_by_script_name v, report_by_script_name w, \
    report_by_script_name x, report_by_script_name y, report_by_script_name z WHERE a.req_count + z.req_count < 0";

/// Waits until a statement of `LONG` runs: the counter of statements is one more.
fn await_running(shop: &Shop, before: u64) {
    await_condition("the statement runs", || {
        let statements = shop.site().status().count("mysql_statements");
        if statements > before {
            Ok(())
        } else {
            Err(statements)
        }
    });
}

#[test]
fn queries_and_connections_can_be_killed() {
    let shop = Shop::open();
    let mut victim = Client::connect(shop.mysql);
    let mut killer = Client::connect(shop.mysql);
    assert_eq!(killer.refused("KILL 4000000000").0, 1094);
    assert_eq!(killer.refused("KILL nobody").0, 1064);
    let before = shop.site().status().count("mysql_statements");
    victim.command(3, LONG.as_bytes());
    await_running(&shop, before);
    let kill = format!("KILL QUERY {}", victim.id());
    assert!(matches!(killer.query(&kill), Outcome::Done { .. }));
    let answer = victim.answer();
    assert!(
        matches!(&answer, Answer::Err { code: 1317, state, .. } if state == "70100"),
        "{answer:?}"
    );
    victim.assert_alive();
    // One that is idle does not remember it.
    assert!(matches!(killer.query(&kill), Outcome::Done { .. }));
    victim.assert_alive();
    // By the command; the victim is told, because it had asked.
    let before = shop.site().status().count("mysql_statements");
    victim.command(3, LONG.as_bytes());
    await_running(&shop, before);
    killer.command(12, &victim.id().to_le_bytes());
    assert!(matches!(killer.answer(), Answer::Ok { .. }));
    assert!(matches!(victim.answer(), Answer::Err { code: 1927, .. }));
    assert_eq!(victim.try_read(), None);
    // An idle one is closed; oneself can be, too.
    let mut idle = Client::connect(shop.mysql);
    assert!(matches!(
        killer.query(&format!("KILL {}", idle.id())),
        Outcome::Done { .. }
    ));
    assert_eq!(idle.try_read(), None);
    let own = format!("KILL {}", killer.id());
    assert_eq!(killer.refused(&own).0, 1927);
    assert_eq!(killer.try_read(), None);
}

#[test]
fn a_client_that_leaves_ends_its_query() {
    let shop = Shop::open();
    let mut client = Client::connect(shop.mysql);
    let before = shop.site().status().count("mysql_statements");
    client.command(3, LONG.as_bytes());
    await_running(&shop, before);
    drop(client);
    await_condition("the connection is gone", || {
        match shop.site().status().count("mysql_connections_open") {
            0 => Ok(()),
            open => Err(open),
        }
    });
}

#[test]
fn a_slow_client_holds_up_nobody() {
    // However long a debug build on busy cores takes to make the rows: the time is for another test.
    let shop = Shop::with(&["sql.time_max=10m"]);
    // 12 to the 4th rows of some 250 bytes: 5 MB, more than sockets and channels hold.
    let wide =
        "SELECT a.id, b.id, repeat('x', 250) FROM request a, request b, request c, request d";
    let mut slow = Client::connect(shop.mysql);
    slow.command(3, wide.as_bytes());
    // It has the beginning, and takes no more.
    let _count = slow.read();
    let mut quick = Client::connect(shop.mysql);
    for _ in 0..20 {
        assert_eq!(
            quick.rows("SELECT req_count FROM info"),
            [[Some("12".to_owned())]]
        );
    }
    // When it goes on, all is there.
    let Outcome::Rows { rows, .. } = slow.rest_of(3) else {
        panic!("no rows");
    };
    assert_eq!(rows.len(), 12 * 12 * 12 * 12);
    assert!(
        rows.iter()
            .all(|row| texts(row)[2].as_ref().is_some_and(|x| x.len() == 250))
    );
    slow.assert_alive();
}

#[test]
fn stopping_does_not_wait_for_clients() {
    let shop = Shop::with(&["sql.time_max=10m"]);
    let mut idle = Client::connect(shop.mysql);
    let mut busy = Client::connect(shop.mysql);
    let before = shop.site().status().count("mysql_statements");
    busy.command(3, LONG.as_bytes());
    await_running(&shop, before);
    let start = Instant::now();
    shop.here.stop();
    assert!(
        start.elapsed() < Duration::from_secs(60),
        "{:?}",
        start.elapsed()
    );
    assert!(matches!(busy.answer(), Answer::Err { code: 1053, .. }));
    assert_eq!(idle.try_read(), None);
}

#[test]
fn an_address_that_is_taken_is_an_error_that_names_the_setting() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let setting = format!("mysql.listen={}", taken.local_addr().unwrap());
    let mut command = crate::harness::pinbad();
    command.args([
        "serve",
        "--set",
        "ingest.listen=127.0.0.1:0",
        "--set",
        "http.listen=",
    ]);
    let said = run(command.args(["--set", &setting]));
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(
        said.err
            .contains("mysql.listen: cannot listen on 127.0.0.1:"),
        "{said:?}"
    );
    assert!(said.err.contains("--mysql"), "{said:?}");
}

/// A conversation that touches every reader of the wire: login, statements, prepared ones with values, long data, a
/// change of user.
fn conversation() -> Vec<Vec<u8>> {
    let mut login = (0x200_u32 | 0x8000 | 0x8 | 0x8_0000 | 0x1_0000 | 0x10_0000)
        .to_le_bytes()
        .to_vec();
    login.extend_from_slice(&[0, 0, 0, 1, 45]);
    login.extend_from_slice(&[0; 23]);
    login.extend_from_slice(b"fuzz\0\0pinba\0mysql_native_password\0");
    login.extend_from_slice(b"\x0e\x04_pid\x041234\x02ab\x00");
    let mut execute = vec![23, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1];
    execute.extend_from_slice(&[8, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    let mut change = b"\x11fuzz\0\0pinba\0\x2d\x00mysql_native_password\0".to_vec();
    change.extend_from_slice(b"\x05\x02ab\x01c");
    let packet = |number: u8, body: &[u8]| {
        let [low, middle, high, _] = (body.len() as u32).to_le_bytes();
        [&[low, middle, high, number], body].concat()
    };
    vec![
        packet(1, &login),
        packet(0, b"\x03SELECT req_count FROM info"),
        packet(
            0,
            b"\x16SELECT script_name FROM report_by_script_name WHERE req_count > 0",
        ),
        packet(0, &[24, 1, 0, 0, 0, 0, 0, b'x']),
        packet(0, &execute),
        packet(0, b"\x04info\0%"),
        packet(0, &[26, 1, 0, 0, 0]),
        packet(0, &change),
        packet(0, &[27, 0, 0]),
        packet(0, b"\x09"),
        packet(0, &[25, 1, 0, 0, 0]),
        packet(0, b"\x02pinba"),
        packet(0, b"\x1f"),
        packet(0, b"\x0e"),
    ]
}

fn in_memory(here: &Here) -> (tokio::runtime::Runtime, Arc<MySql>) {
    let engine = Engine::new(Arc::clone(here.catalog()), SqlSettings::default()).unwrap();
    let limits = MySqlConfig {
        packet_max: 1 << 20,
        memory: 1 << 20,
        ..Config::default().mysql
    };
    let settings = MySqlSettings {
        login_max: Duration::from_secs(20),
        ..MySqlSettings::new(Access::open(), None, limits)
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let counters = Arc::default();
    (runtime, Arc::new(MySql::new(engine, settings, counters)))
}

#[test]
fn a_conversation_cut_at_every_byte() {
    let here = Here::start(&[]);
    let (runtime, service) = in_memory(&here);
    let whole = conversation().concat();
    let answers = runtime.block_on(service.converse(&whole));
    assert!(
        answers.len() > 1000,
        "all of it is answered: {}",
        answers.len()
    );
    assert_eq!(
        answers[answers.len() - 7..],
        [0, 0, 0, 2, 0, 0, 0],
        "the ping, last"
    );
    for end in 0..whole.len() {
        let cut = runtime.block_on(service.converse(&whole[..end]));
        // What was answered so far is the same, but for the salt and the number of the connection.
        assert!(cut.len() <= answers.len(), "{end}");
    }
    assert_eq!(service.connections(), 0);
}

#[test]
fn random_frames_never_panic_hang_or_leak() {
    let here = Here::start(&[]);
    let (runtime, service) = in_memory(&here);
    let packets = conversation();
    let mut random = StdRng::seed_from_u64(7);
    for round in 0..3_000 {
        let mut bytes = Vec::new();
        // Half of them get past the login.
        let first = if round % 2 == 0 { 1 } else { 0 };
        if first == 1 {
            bytes.extend_from_slice(&packets[0]);
        }
        for _ in 0..random.random_range(1..6) {
            let mut packet = packets[random.random_range(first..packets.len())].clone();
            for _ in 0..random.random_range(0..4) {
                let at = random.random_range(0..packet.len());
                match random.random_range(0..4) {
                    0 => packet[at] = random.random(),
                    1 => packet.truncate(at.max(1)),
                    2 => packet.insert(at, random.random()),
                    _ => {
                        let head = packet.len().min(4);
                        packet[random.random_range(0..head)] = random.random();
                    }
                }
                if packet.is_empty() {
                    break;
                }
            }
            // Mostly with a head that is right, so that it is read.
            if packet.len() > 4 && random.random_range(0..4) > 0 {
                let [low, middle, high, _] = ((packet.len() - 4) as u32).to_le_bytes();
                packet[..3].copy_from_slice(&[low, middle, high]);
                packet[3] = u8::from(first == 0 && bytes.is_empty());
            }
            bytes.extend_from_slice(&packet);
        }
        let answers = runtime.block_on(async {
            tokio::time::timeout(Duration::from_secs(30), service.converse(&bytes)).await
        });
        assert!(answers.is_ok(), "hangs on {bytes:?}");
    }
    assert_eq!(service.connections(), 0);
    let whole = conversation().concat();
    let answers = runtime.block_on(service.converse(&whole));
    assert_eq!(
        answers[answers.len() - 7..],
        [0, 0, 0, 2, 0, 0, 0],
        "served as before"
    );
}

#[test]
fn random_bytes_over_a_socket_leave_the_daemon_as_it_was() {
    let program = Program::serve(&[MYSQL]);
    let mysql = program.site.mysql.unwrap();
    let mut random = StdRng::seed_from_u64(11);
    for _ in 0..300 {
        let mut stream = TcpStream::connect(mysql).unwrap();
        let bytes: Vec<u8> = (0..random.random_range(0..2000))
            .map(|_| random.random())
            .collect();
        // It may be closed before all is sent.
        let _sent = stream.write_all(&bytes);
        let _half = stream.shutdown(std::net::Shutdown::Write);
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let mut heard = Vec::new();
        match stream.read_to_end(&mut heard) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
    let mut client = Client::connect(mysql);
    client.assert_alive();
    let status = program.site.status();
    assert_eq!(status.count("mysql_connections_open"), 1);
}
