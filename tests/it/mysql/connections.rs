//! Connections: how many, for how long, killed, slow, and ended with the daemon.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinbad::access::Access;
use pinbad::config::Config;
use pinbad::mysql::{MySql, MySqlSettings};
use pinbad::sql::{Engine, SqlSettings};
use pinbad::telemetry::counters::MySqlCounters;

use super::Shop;
use super::client::{Answer, Client, Outcome, texts};
use crate::harness::{Here, await_condition, await_until, run};

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

/// Nothing; the beginning of a packet; a byte now and then: whatever a client does instead of
/// logging in, its place is free again when its time is over.
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
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let bound = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"));
    let listener = bound.unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(pinbad::mysql::serve(listener, service, std::future::pending()));
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
    await_condition("their places are free", || match counters.mysql_connections_open.get() {
        0 => Ok(()),
        open => Err(open),
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
    await_until(
        "the statement runs",
        || shop.site().status().count("mysql_statements"),
        |statements| *statements > before,
    );
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
    assert!(matches!(killer.query(&format!("KILL {}", idle.id())), Outcome::Done { .. }));
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
    // However long a debug build on busy cores takes to make the rows: the time is for another
    // test.
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
        assert_eq!(quick.rows("SELECT req_count FROM info"), [[Some("12".to_owned())]]);
    }
    // When it goes on, all is there.
    let Outcome::Rows { rows, .. } = slow.rest_of(3) else {
        panic!("no rows");
    };
    assert_eq!(rows.len(), 12 * 12 * 12 * 12);
    assert!(rows.iter().all(|row| texts(row)[2].as_ref().is_some_and(|x| x.len() == 250)));
    slow.assert_alive();
}

/// One that takes nothing of its answer: the query ends and gives its place back before the client
/// reads on and is told.
#[test]
fn a_query_of_a_slow_client_can_be_killed() {
    let shop = Shop::with(&["sql.time_max=10m", "sql.queries_max=1"]);
    // 12 to the 5th rows of some 250 bytes: 60 MB, many times what sockets hold.
    let wide = "SELECT a.id, b.id, repeat('x', 250) \
        FROM request a, request b, request c, request d, request e";
    let mut slow = Client::connect(shop.mysql);
    slow.command(3, wide.as_bytes());
    let _count = slow.read();
    let mut other = Client::connect(shop.mysql);
    assert_eq!(other.refused("SELECT req_count FROM info").0, 1040);
    assert!(matches!(other.query("SET AUTOCOMMIT=0"), Outcome::Done { .. }));
    let kill = format!("KILL QUERY {}", slow.id());
    assert!(matches!(other.query(&kill), Outcome::Done { .. }));
    await_condition("the place is free", || match other.query("SELECT req_count FROM info") {
        Outcome::Rows { .. } => Ok(()),
        refused => Err(format!("{refused:?}")),
    });
    assert!(matches!(slow.rest_of(3), Outcome::Failed { code: 1317, .. }));
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
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    assert!(matches!(busy.answer(), Answer::Err { code: 1053, .. }));
    assert_eq!(idle.try_read(), None);
}

#[test]
fn an_address_that_is_taken_is_an_error_that_names_the_setting() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let setting = format!("mysql.listen={}", taken.local_addr().unwrap());
    let mut command = crate::harness::pinbad();
    command.args(["serve", "--set", "ingest.listen=127.0.0.1:0", "--set", "http.listen="]);
    let said = run(command.args(["--set", &setting]));
    assert_eq!(said.code, Some(1), "{said:?}");
    assert_has!(said.err => "mysql.listen: cannot listen on 127.0.0.1:");
    assert!(said.err.contains("--mysql"), "{said:?}");
}
