//! Conversations that are cut, and random ones: no panic, no hang, no leak.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use pinbad::access::Access;
use pinbad::config::{Config, MySqlConfig};
use pinbad::mysql::{MySql, MySqlSettings};
use pinbad::sql::{Engine, SqlSettings};

use super::MYSQL;
use super::client::Client;
use crate::harness::{Here, Program};

/// A conversation that touches every reader of the wire: login, statements, prepared ones with
/// values, long data, a change of user.
fn conversation() -> Vec<Vec<u8>> {
    let mut login =
        (0x200_u32 | 0x8000 | 0x8 | 0x8_0000 | 0x1_0000 | 0x10_0000).to_le_bytes().to_vec();
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
        packet(0, b"\x16SELECT script_name FROM report_by_script_name WHERE req_count > 0"),
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
    let limits = MySqlConfig { packet_max: 1 << 20, memory: 1 << 20, ..Config::default().mysql };
    let settings = MySqlSettings {
        login_max: Duration::from_secs(20),
        ..MySqlSettings::new(Access::open(), None, limits)
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let counters = Arc::default();
    (runtime, Arc::new(MySql::new(engine, settings, counters)))
}

#[test]
fn a_conversation_cut_at_every_byte() {
    let here = Here::start(&[]);
    let (runtime, service) = in_memory(&here);
    let whole = conversation().concat();
    let answers = runtime.block_on(service.converse(&whole));
    assert!(answers.len() > 1000, "all of it is answered: {}", answers.len());
    assert_eq!(answers[answers.len() - 7..], [0, 0, 0, 2, 0, 0, 0], "the ping, last");
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
    assert_eq!(answers[answers.len() - 7..], [0, 0, 0, 2, 0, 0, 0], "served as before");
}

#[test]
fn random_bytes_over_a_socket_leave_the_daemon_as_it_was() {
    let program = Program::serve(&[MYSQL]);
    let mysql = program.site.mysql.unwrap();
    let mut random = StdRng::seed_from_u64(11);
    for _ in 0..300 {
        let mut stream = TcpStream::connect(mysql).unwrap();
        let bytes: Vec<u8> = (0..random.random_range(0..2000)).map(|_| random.random()).collect();
        // It may be closed before all is sent.
        let _sent = stream.write_all(&bytes);
        let _half = stream.shutdown(std::net::Shutdown::Write);
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
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
