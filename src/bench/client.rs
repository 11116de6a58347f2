//! A small HTTP client over one TCP connection, for measuring: it reads an answer to its last byte, and keeps it or not.
//!
//! Speaks what our own front end sends: `content-length` or chunks, connections that stay open. Used by the bench only,
//! on loopback; every read has a timeout.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// No answer takes longer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// No answer of ours is longer, bytes.
const BODY_BYTES_MAX: usize = 1 << 30;

/// A connection to a daemon.
#[derive(Debug)]
pub(super) struct Client {
    stream: BufReader<TcpStream>,
    host: SocketAddr,
    body: Vec<u8>,
}

impl Client {
    pub(super) fn connect(address: SocketAddr) -> io::Result<Self> {
        Ok(Self {
            stream: open(address)?,
            host: address,
            body: Vec::new(),
        })
    }

    /// The body of the answer to GET `path`, which must be 200.
    pub(super) fn get(&mut self, path: &str) -> io::Result<&[u8]> {
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        let answered = self.read(path, |piece| body.extend_from_slice(piece));
        self.body = body;
        let (status, _) = answered?;
        if !is_ok(&status) {
            let body = String::from_utf8_lossy(&self.body);
            return Err(io::Error::other(format!("{path}: {status}: {body}")));
        }
        Ok(&self.body)
    }

    /// How many bytes the answer to GET `path` has, which must be 200. They are read and thrown away, so that what it takes is
    /// the daemon's time and not that of finding memory for them here.
    pub(super) fn skim(&mut self, path: &str) -> io::Result<usize> {
        let (status, bytes) = self.read(path, |_| ())?;
        if !is_ok(&status) {
            return Err(io::Error::other(format!("{path}: {status}")));
        }
        Ok(bytes)
    }

    /// Asks for `path` and gives the body to `each`, piece by piece; the first line of the answer, and how many bytes.
    fn read(&mut self, path: &str, mut each: impl FnMut(&[u8])) -> io::Result<(String, usize)> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", self.host);
        let status = match self.ask(&request) {
            Ok(status) => status,
            // The daemon closes a connection that was silent for long, as while the pools were filled.
            Err(_) => {
                self.stream = open(self.host)?;
                self.ask(&request)?
            }
        };
        let (mut length, mut chunked) = (0, false);
        loop {
            let line = self.line()?.to_ascii_lowercase();
            match line.split_once(':') {
                None => break,
                Some(("content-length", value)) => length = number(value.trim(), 10)?,
                Some(("transfer-encoding", value)) => chunked = value.trim() == "chunked",
                Some(_) => {}
            }
        }
        if !chunked {
            self.take(length, &mut each)?;
            return Ok((status, length));
        }
        let mut all = 0_usize;
        loop {
            let line = self.line()?;
            let bytes = number(&line, 16)?;
            all = all.saturating_add(bytes);
            if all > BODY_BYTES_MAX {
                return Err(io::Error::other("an answer of more than 1 GiB"));
            }
            self.take(bytes, &mut each)?;
            self.line()?;
            if bytes == 0 {
                return Ok((status, all));
            }
        }
    }

    /// The same, read as JSON.
    pub(super) fn json(&mut self, path: &str) -> io::Result<serde_json::Value> {
        serde_json::from_slice(self.get(path)?).map_err(io::Error::other)
    }

    /// Sends a request; the first line of the answer.
    fn ask(&mut self, request: &str) -> io::Result<String> {
        self.stream.get_mut().write_all(request.as_bytes())?;
        self.line()
    }

    /// One line without its end.
    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.truncate(line.trim_end().len());
        Ok(line)
    }

    /// The next `bytes` bytes.
    fn take(&mut self, bytes: usize, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        if bytes > BODY_BYTES_MAX {
            return Err(io::Error::other("an answer of more than 1 GiB"));
        }
        let mut left = bytes;
        while left > 0 {
            let there = self.stream.fill_buf()?;
            if there.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let piece = &there[..there.len().min(left)];
            each(piece);
            let taken = piece.len();
            left -= taken;
            self.stream.consume(taken);
        }
        Ok(())
    }
}

fn is_ok(status: &str) -> bool {
    status.starts_with("HTTP/1.1 200")
}

fn open(address: SocketAddr) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.set_nodelay(true)?;
    Ok(BufReader::with_capacity(256 * 1024, stream))
}

fn number(text: &str, radix: u32) -> io::Result<usize> {
    usize::from_str_radix(text, radix).map_err(|_| io::Error::other(format!("no number: {text:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;
    use std::thread;

    /// Serves `answers`, one after the other, on one connection.
    fn served(answers: &'static [&'static str]) -> (Client, thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            for answer in answers {
                let mut request = [0; 1024];
                assert!(stream.read(&mut request).unwrap() > 0);
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        (Client::connect(address).unwrap(), server)
    }

    #[test]
    fn lengths_and_chunks_on_one_connection() {
        let (mut client, server) = served(&[
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\ntwo\r\nA\r\n and three\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\ntwo\r\nA\r\n and three\r\n0\r\n\r\n",
            "HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy",
            "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort",
        ]);
        assert_eq!(client.get("/").unwrap(), b"one");
        assert_eq!(client.get("/").unwrap(), b"two and three");
        assert_eq!(client.skim("/").unwrap(), b"two and three".len());
        assert!(
            client
                .get("/x")
                .unwrap_err()
                .to_string()
                .contains("503 Busy: busy")
        );
        let error = client.get("/").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        server.join().unwrap();
    }
}
