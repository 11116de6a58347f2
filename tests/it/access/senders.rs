//! Who may send packets, how many, and who is counted.

use super::*;

/// A socket that sends from this address.
fn sender_from(source: &str) -> std::net::UdpSocket {
    std::net::UdpSocket::bind((source, 0)).unwrap()
}

#[test]
fn packets_from_elsewhere_are_counted_and_not_looked_at() {
    let program = Program::serve(&[
        "ingest.allow=[127.0.0.0/31,127.1.0.0/16]",
        // Two that make a row at the same moment may count a batch under "other".
        "ingest.receivers=1",
    ]);
    let to = program.site.udp[0];
    let packet = request("h", "s", "/x").encode_to_vec();
    let sources = ["127.0.0.1", "127.1.2.3", "127.0.0.2", "127.2.0.1"];
    for source in sources {
        let socket = sender_from(source);
        for _ in 0..10 {
            socket.send_to(&packet, to).unwrap();
        }
        // What is refused for its source is not called malformed.
        socket.send_to(b"\xff", to).unwrap();
    }
    let status = program.site.at_rest(44);
    status.assert_accounted();
    assert_eq!(status.count("datagrams_accepted"), 20);
    assert_eq!(status.reason("datagrams_invalid", "source_not_allowed"), 22);
    assert_eq!(status.count("requests_merged"), 20);
    assert_eq!(status.count("invalid_request_data"), 0);
    let answer = await_condition("all are counted by source", || {
        let answer = program.site.json("/api/v1/sources");
        let rows = answer["sources"].as_array().unwrap();
        let all: u64 = rows.iter().map(|row| row["datagrams"].as_u64().unwrap()).sum();
        if all == 44 { Ok(answer) } else { Err(answer) }
    });
    assert_eq!(answer["other"]["datagrams"], 0);
    for row in answer["sources"].as_array().unwrap() {
        let address = row["address"].as_str().unwrap();
        let refused = if ["127.0.0.1", "127.1.2.3"].contains(&address) { 0 } else { 11 };
        assert!(sources.contains(&address), "{row}");
        assert_eq!((&row["datagrams"], &row["refused"]), (&11.into(), &refused.into()), "{row}");
        assert_eq!(row["bytes"], packet.len() * 10 + 1, "{row}");
    }
    let top = program.site.json("/api/v1/sources?limit=1");
    assert_eq!(top["sources"].as_array().unwrap().len(), 1);
    assert_eq!(top["other"]["datagrams"], 33);
}

#[test]
fn a_source_that_sends_too_much_leaves_the_others_theirs() {
    let (here, clock) = Here::with_manual_clock(&["ingest.source_rate_max=100"]);
    let packet = request("h", "s", "/x").encode_to_vec();
    let (loud, quiet) = (sender_from("127.0.0.2"), sender_from("127.0.0.3"));
    let mut sender = Sender::new(&here.site);
    for _ in 0..1000 {
        sender.send_through(&loud, &packet);
    }
    for _ in 0..50 {
        sender.send_through(&quiet, &packet);
    }
    let status = sender.at_rest();
    status.assert_accounted();
    assert_eq!(status.reason("datagrams_invalid", "source_rate_exceeded"), 900);
    assert_eq!(status.count("requests_merged"), 150);
    clock.advance_ms(500);
    for _ in 0..100 {
        sender.send_through(&loud, &packet);
    }
    let status = sender.at_rest();
    status.assert_accounted();
    assert_eq!(status.count("requests_merged"), 200);
    here.stop();
}

#[test]
fn sources_that_nobody_wants_counted_are_not() {
    let program = Program::serve(&[]);
    let detail = program.site.get("/api/v1/sources").problem(404);
    assert!(detail.contains("ingest.count_sources = true"), "{detail}");
    let counted = Program::serve(&["ingest.count_sources=true", "ingest.listen=[::1]:0"]);
    counted.site.send((0..10).map(|_| request("h", "s", "/x")));
    await_condition("the source is counted", || {
        let answer = counted.site.json("/api/v1/sources");
        let row = &answer["sources"][0];
        if row["address"] == "::1" && row["datagrams"] == 10 { Ok(()) } else { Err(answer) }
    });
}
