//! The stream that pages listen to.

use super::*;

/// Reads one line of a stream that is not empty.
fn next_line(stream: &mut impl std::io::BufRead) -> String {
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the stream ended");
        // Lengths of chunks are hexadecimal numbers alone on their lines.
        let line = line.trim_end();
        if !line.is_empty() && u32::from_str_radix(line, 16).is_err() {
            return line.to_owned();
        }
    }
}

fn listen(site: &Site) -> BufReader<TcpStream> {
    let mut stream = connect(site.http);
    write!(stream, "GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    BufReader::new(stream)
}

#[test]
fn events_come_to_everyone_who_listens() {
    let here = Here::start(&[]);
    let mut streams = [listen(&here.site), listen(&here.site)];
    for stream in &mut streams {
        assert_eq!(next_line(stream), "HTTP/1.1 200 OK");
        let mut line = next_line(stream);
        while !line.starts_with("retry:") {
            line = next_line(stream);
        }
    }
    for _ in 0..2 {
        for stream in &mut streams {
            assert_eq!(next_line(stream), "event: second");
            let data = next_line(stream);
            let data = data.strip_prefix("data: ").unwrap();
            let data: serde_json::Value = serde_json::from_str(data).unwrap();
            assert!(data.is_object(), "{data}");
        }
    }
    drop(streams);
    here.stop();
}
