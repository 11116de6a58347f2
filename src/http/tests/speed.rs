//! 100,000 rows of 22 columns. Prints what it takes, so that a change that costs can be seen; run it with `--release --nocapture`
//! for numbers that mean something.

use std::io::{Read, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::harness::{Rows, Server};
use crate::http::order::{SortBy, choose};
use crate::http::writer::{Format, Writer};
use crate::query::table::Table;

#[test]
#[expect(clippy::print_stderr, reason = "what this test is for")]
fn a_large_report() {
    let table = Rows::new(100_000);
    let columns: Vec<usize> = (0..table.columns().len()).collect();
    for (name, limit, sort) in [
        ("top 100 by a time", 100, vec![(2, true)]),
        ("all by a time", 0, vec![(2, true)]),
        ("all by a text", 0, vec![(14, false)]),
        ("all by status and text", 0, vec![(15, false), (14, true)]),
    ] {
        let sort: Vec<SortBy> = sort
            .into_iter()
            .map(|(column, descending)| SortBy { column, descending })
            .collect();
        let start = Instant::now();
        let (rows, _) = choose(&table, None, &sort, 0, limit);
        eprintln!(
            "sort, {name}: {:?} for {} rows",
            start.elapsed(),
            rows.len()
        );
    }
    for format in [Format::Json, Format::Ndjson, Format::Csv] {
        let writer = Writer::new(format, &table, &columns);
        let mut out = Vec::with_capacity(1 << 17);
        let mut best = Duration::MAX;
        let mut bytes = 0;
        for _ in 0..5 {
            bytes = 0;
            let start = Instant::now();
            for row in 0..table.len() {
                writer.row(&mut out, &table, row);
                if out.len() > 1 << 16 {
                    bytes += out.len();
                    out.clear();
                }
            }
            best = best.min(start.elapsed());
        }
        eprintln!("write, {format:?}: {best:?} at best for {bytes} bytes");
    }
    let server = Server::start();
    server.source.rows.store(100_000, Ordering::SeqCst);
    let target = "/api/v1/reports/r?limit=0&sort=-req_time_total";
    let mut stream = server.connect();
    let start = Instant::now();
    let request = format!("GET {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut buffer = vec![0; 1 << 20];
    let (mut bytes, mut first) = (0, None);
    loop {
        let read = stream.read(&mut buffer).unwrap();
        first.get_or_insert_with(|| start.elapsed());
        bytes += read;
        if read == 0 {
            break;
        }
    }
    eprintln!(
        "over the socket: {:?} for {bytes} bytes, the first after {first:?}",
        start.elapsed()
    );
    assert!(bytes > 10_000_000);
}
