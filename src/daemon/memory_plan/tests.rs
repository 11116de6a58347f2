//! The plan follows the settings, and says how long buffers last.

use super::*;

fn plan(text: &str) -> MemoryPlan {
    MemoryPlan::of(&Config::from_toml("test.toml", text).unwrap())
}

fn bytes(plan: &MemoryPlan, name: &str) -> u64 {
    plan.lines.iter().find(|line| line.name == name).unwrap().bytes
}

const TWO_BY_THREE: &str = "[ingest]\nlisten = [\"127.0.0.1:1\", \"[::1]:1\"]\nreceivers = 3\n\
    recv_buffer = \"1MiB\"\ntemp_pool_size = 10000\ntemp_pool_bytes = \"4MiB\"\n\
    [pool]\nrequest_pool_size = 1000\ntimer_pool_size = 2000\nwords_memory = \"8MiB\"\n\
    [reports]\nmemory = \"16MiB\"\n";

#[test]
fn every_line_follows_its_settings() {
    let plan = plan(TWO_BY_THREE);
    for (name, expected) in cases![
        // Two blocks for each of six receivers and eight more: more than 4 MiB.
        "temporary pool" => 20 * (256 << 10);
        // As many spare rows: a small pool.
        "requests" => 100_000;
        "timers" => 80_000;
        "reports" => 16 << 20;
        "answers" => 6 * 100_000 * 230 + (32 << 20);
        // Pages of the last second, rows they share, and sums of two being made.
        "pages" => (8 << 20) + 25_000 * 230 + 2 * (1000 * 6 * 2 * 512 + 300_000 * 40);
        "process" => BASE_BYTES as u64;
    ] {
        assert_eq!(bytes(&plan, name), expected, "{name}");
    }
    let receive = bytes(&plan, "receive buffers") / 6;
    assert!(receive > 64 * 65_536 && receive < 8 << 20, "{receive}");
    let words = bytes(&plan, "strings and tag sets");
    assert!(words > 8 << 20 && words < 16 << 20, "{words}");
    assert_eq!(plan.total_bytes(), plan.lines.iter().map(|line| line.bytes).sum::<u64>());
    assert_eq!(plan.kernel.bytes, 6 * 2 * (1 << 20));
}

#[test]
fn without_raw_requests_there_are_no_raw_timers() {
    let plan = plan("[pool]\nrequest_pool_size = 0\n");
    assert_eq!((bytes(&plan, "requests"), bytes(&plan, "timers")), (0, 0));
    // Names are released some time after their last request.
    assert!(bytes(&plan, "request dimensions") > 6 << 20);
}

#[test]
fn a_snapshot_has_a_line_when_there_is_a_place_for_it() {
    let with = plan(&format!("{TWO_BY_THREE}[state]\ndir = \"/x\"\n"));
    assert_eq!(bytes(&with, "snapshot"), (24 << 20) + (2 << 20));
    assert_eq!(with.lines.len(), plan(TWO_BY_THREE).lines.len() + 1);
}

#[test]
fn name_rules_have_a_line_when_there_are_any() {
    assert!(plan(TWO_BY_THREE).lines.iter().all(|line| line.name != "name rules"));
    let rule = "[[rewrite]]\nfield = \"schema\"\n";
    let with =
        plan(&format!("{TWO_BY_THREE}{rule}cut = \"?\"\n{rule}pattern = \"a\"\nreplace = \"\"\n"));
    assert_eq!(bytes(&with, "name rules"), 6 * (3 << 20));
    let why = "2 rules ([[rewrite]]), 1 with patterns, for each socket";
    assert!(with.lines.iter().any(|line| line.why == why));
}

#[test]
fn buffers_last_as_long_as_the_tighter_bound() {
    let by_count = plan(TWO_BY_THREE);
    assert!(
        (by_count.backlog[0].ring_secs - 1.0).abs() < 1e-9,
        "10,000 requests at 10,000 a second"
    );
    let kernel_packets = f64::from((6 * 2 * (1 << 20)) / 832);
    assert!((by_count.backlog[1].kernel_secs - kernel_packets / 100_000.0).abs() < 1e-9);
    let many = TWO_BY_THREE.replace("temp_pool_size = 10000", "temp_pool_size = 1000000");
    let in_blocks = 20.0 * (262_144.0_f64 / TYPICAL_RECORD_BYTES as f64).floor();
    let by_bytes = plan(&many);
    assert!(
        (by_bytes.backlog[0].ring_secs - in_blocks / 10_000.0).abs() < 1e-9,
        "{in_blocks} records in 20 blocks"
    );
}

/// A socket that requested 1 MiB and got `bytes`.
fn granted(bytes: usize) -> RecvBuffer {
    RecvBuffer { asked_bytes: 1 << 20, granted_bytes: bytes, kernel_bytes: 2 * bytes }
}

#[test]
fn seconds_are_those_of_the_buffers_that_were_granted() {
    let asked = plan(TWO_BY_THREE);
    let seconds = |bytes: u64| (bytes / TYPICAL_PACKET_CHARGE) as f64 / 10_000.0;
    // One is smaller than the others, and the traffic is the same for all.
    let mut buffers = [granted(1 << 20); 6];
    buffers[4] = granted(64 << 10);
    let less = asked.clone().granted(&buffers, None);
    assert_eq!(less.backlog[0].kernel_secs, seconds(6 * (128 << 10)));
    assert_eq!(less.backlog[0].ring_secs, asked.backlog[0].ring_secs);
    assert_eq!(less.kernel.bytes, 5 * (2 << 20) + (128 << 10));
    let why = "6 sockets, granted 64KiB of 1MiB (ingest.recv_buffer) each, ";
    assert!(less.kernel.why.starts_with(why), "{}", less.kernel.why);
    // The limit for all may be lower than their sum; it never enlarges a buffer.
    let all = [granted(1 << 20); 6];
    for (allowed, usable) in [(5 << 20, 5 << 20), (1 << 40, 12 << 20)] {
        let bound = asked.clone().granted(&all, Some(allowed));
        assert_eq!(bound.backlog[0].kernel_secs, seconds(usable));
        assert_eq!(bound.kernel.bytes, 12 << 20);
    }
    // More receivers than configured, as when sockets are passed in.
    let more = asked.clone().granted(&[granted(1 << 20); 12], None);
    assert_eq!(more.backlog[0].kernel_secs, seconds(24 << 20));
    assert_eq!(asked.clone().granted(&[], None), asked);
    let unknown = asked.clone().granted(&[], Some(1 << 20));
    assert_eq!(unknown.backlog[0].kernel_secs, seconds(1 << 20));
}

/// Packets of the stock extension without timers.
fn typical_packets() -> Vec<Vec<u8>> {
    let mut traffic =
        crate::cli::load::traffic::Traffic::new(&crate::cli::load::TrafficOptions::default());
    (0..1000).map(|_| traffic.packet()).collect()
}

#[test]
fn a_typical_record_is_as_long_as_reckoned() {
    use crate::input::Decode as _;

    let packets = typical_packets();
    let mut records = Vec::with_capacity(1 << 20);
    let limits = crate::input::record::TextLimits::default();
    let mut decoder = Decoder::new(limits, crate::input::record::Hasher::new());
    for packet in &packets {
        assert_eq!(decoder.decode(packet, 1, &mut records), Ok(1));
    }
    let packet_bytes = packets.iter().map(Vec::len).sum::<usize>() as f64 / 1000.0;
    let record_bytes = records.len() as f64 / 1000.0;
    let near = |bytes: f64, reckoned: u64| (bytes / reckoned as f64 - 1.0).abs() < 0.05;
    assert!(near(packet_bytes, TYPICAL_PACKET_BYTES), "{packet_bytes}");
    assert!(near(record_bytes, TYPICAL_RECORD_BYTES), "{record_bytes}");
}

#[test]
fn the_kernel_charges_about_what_is_reckoned() {
    use std::os::fd::AsFd;
    let to = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let from = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for packet in &typical_packets()[..100] {
        from.send_to(packet, to.local_addr().unwrap()).unwrap();
    }
    let charge = || {
        let memory = crate::input::udp::kernel::read(to.as_fd()).unwrap();
        assert_eq!(memory.drops, 0);
        u64::from(memory.queued_bytes / 100)
    };
    let (least, most) = (TYPICAL_PACKET_CHARGE * 3 / 4, TYPICAL_PACKET_CHARGE * 3 / 2);
    // A busy machine may be late with the last ones.
    let start = std::time::Instant::now();
    while charge() < least && start.elapsed().as_secs() < 60 {
        std::thread::yield_now();
    }
    let charge = charge();
    assert!((least..=most).contains(&charge), "{charge} bytes for each");
}

#[test]
fn the_largest_configuration_adds_up_without_overflow() {
    let most = plan(
        "[ingest]\nreceivers = 256\nrecv_buffer = 1000000000\n\
         temp_pool_size = 16777216\ntemp_pool_bytes = \"64GiB\"\n\
         [pool]\nrequest_pool_size = 1000000000\ntimer_pool_size = 1000000000\nwords_memory = \"64GiB\"\n\
         [reports]\nmemory = \"1TiB\"\n",
    );
    assert!(most.total_bytes() > 1 << 40);
    assert!(most.total_bytes() < 2 << 40);
}

#[test]
fn the_plan_is_shown_a_line_a_pool() {
    let shown = plan(TWO_BY_THREE).to_string();
    for line in [
        "  requests                    0.1 MiB  1000 rows (pool.request_pool_size) and 1000 spare for queries, of 50 bytes",
        "  reports                    16.0 MiB  all reports together (reports.memory)",
        if cfg!(feature = "sql") {
            "  total                     912.7 MiB"
        } else {
            "  total                     496.7 MiB"
        },
        "  at  10000 packets/s  temporary pool 1.0 s, socket buffers 1.5 s",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line:?} in\n{shown}");
    }
}
