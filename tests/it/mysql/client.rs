//! A MySQL client in a few lines, so that a test sees every byte and can send what no client would.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub(super) const PROTOCOL_41: u32 = 0x200;
pub(super) const CONNECT_WITH_DB: u32 = 0x8;
pub(super) const SSL: u32 = 0x800;
pub(super) const SECURE_CONNECTION: u32 = 0x8000;
pub(super) const MULTI_STATEMENTS: u32 = 0x1_0000;
pub(super) const PLUGIN_AUTH: u32 = 0x8_0000;
pub(super) const SESSION_TRACK: u32 = 0x80_0000;
pub(super) const DEPRECATE_EOF: u32 = 0x100_0000;

/// One connection.
pub(super) struct Client {
    pub(super) stream: TcpStream,
    pub(super) greeting: Vec<u8>,
    pub(super) deprecate_eof: bool,
}

/// A packet that answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Ok { status: u16 },
    End { status: u16 },
    Err { code: u16, state: String, message: String },
    Other(Vec<u8>),
}

/// All of an answer to a statement.
#[derive(Debug)]
#[allow(dead_code, reason = "shown when a test fails")]
pub(super) enum Outcome {
    Done { status: u16 },
    Failed { code: u16, state: String, message: String },
    Rows { columns: Vec<Column>, rows: Vec<Vec<u8>>, status: u16 },
}

/// A column definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) schema: String,
    pub(super) table: String,
    pub(super) org_table: String,
    pub(super) name: String,
    pub(super) org_name: String,
    pub(super) charset: u16,
    pub(super) length: u32,
    pub(super) kind: u8,
    pub(super) flags: u16,
    pub(super) decimals: u8,
}

impl Client {
    /// Logs in as somebody without a password.
    pub(super) fn connect(to: SocketAddr) -> Self {
        Self::with_capabilities(to, MULTI_STATEMENTS)
    }

    pub(super) fn with_capabilities(to: SocketAddr, more: u32) -> Self {
        let mut client = Self::greeted(to);
        client.deprecate_eof = more & DEPRECATE_EOF != 0;
        let answer = client.log_in("somebody", &[], more);
        assert!(matches!(answer, Answer::Ok { .. }), "{answer:?}");
        client
    }

    /// Only greeted.
    pub(super) fn greeted(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(Duration::from_mins(5))).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut client = Self { stream, greeting: Vec::new(), deprecate_eof: false };
        client.greeting = client.read().1;
        client
    }

    pub(super) fn log_in(&mut self, user: &str, proof: &[u8], more: u32) -> Answer {
        let capabilities = PROTOCOL_41 | SECURE_CONNECTION | CONNECT_WITH_DB | PLUGIN_AUTH | more;
        let mut body = capabilities.to_le_bytes().to_vec();
        body.extend_from_slice(&(1_u32 << 24).to_le_bytes());
        body.push(45);
        body.extend_from_slice(&[0; 23]);
        body.extend_from_slice(user.as_bytes());
        body.push(0);
        body.push(proof.len() as u8);
        body.extend_from_slice(proof);
        body.extend_from_slice(b"pinba\0mysql_native_password\0");
        self.send(1, &body);
        self.answer()
    }

    /// The number of this connection, from the greeting.
    pub(super) fn id(&self) -> u32 {
        let after = self.greeting.iter().position(|byte| *byte == 0).unwrap() + 1;
        u32::from_le_bytes(*self.greeting[after..].first_chunk().unwrap())
    }

    pub(super) fn salt(&self) -> Vec<u8> {
        let after = self.greeting.iter().position(|byte| *byte == 0).unwrap() + 5;
        let second = after + 8 + 1 + 2 + 1 + 2 + 2 + 1 + 10;
        [&self.greeting[after..after + 8], &self.greeting[second..second + 12]].concat()
    }

    pub(super) fn send(&mut self, number: u8, body: &[u8]) {
        let [low, middle, high, _] = (body.len() as u32).to_le_bytes();
        let packet = [&[low, middle, high, number], body].concat();
        self.stream.write_all(&packet).unwrap();
    }

    pub(super) fn command(&mut self, command: u8, body: &[u8]) {
        self.send(0, &[&[command], body].concat());
    }

    /// A packet with its number; panics when the connection is closed.
    #[track_caller]
    pub(super) fn read(&mut self) -> (u8, Vec<u8>) {
        self.try_read().expect("the connection is open")
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Option<()> {
        match self.stream.read_exact(bytes) {
            Ok(()) => Some(()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("it is open"),
            Err(_) => None,
        }
    }

    /// The same; `None` when the connection is closed.
    ///
    /// # Panics
    /// After minutes in which nothing came and nobody closed it.
    pub(super) fn try_read(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut whole = Vec::new();
        loop {
            let mut head = [0; 4];
            self.fill(&mut head)?;
            let length = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize;
            let start = whole.len();
            whole.resize(start + length, 0);
            self.fill(&mut whole[start..])?;
            if length < 0xFF_FFFF {
                return Some((head[3], whole));
            }
        }
    }

    /// One packet that answers.
    #[track_caller]
    pub(super) fn answer(&mut self) -> Answer {
        let (_, body) = self.read();
        Self::understood(&body)
    }

    fn understood(body: &[u8]) -> Answer {
        let two = |at: usize| u16::from_le_bytes([body[at], body[at + 1]]);
        match body {
            // No rows changed, no id: the flags follow.
            [0x00, 0, 0, ..] => Answer::Ok { status: two(3) },
            [0xFE, ..] if body.len() == 5 => Answer::End { status: two(3) },
            [0xFE, 0, 0, ..] if body.len() == 7 => Answer::End { status: two(3) },
            [0xFF, ..] => Answer::Err {
                code: two(1),
                state: String::from_utf8(body[4..9].to_vec()).unwrap(),
                message: String::from_utf8(body[9..].to_vec()).unwrap(),
            },
            _ => Answer::Other(body.to_vec()),
        }
    }

    /// COM_QUERY and all of its (first) answer.
    #[track_caller]
    pub(super) fn query(&mut self, text: &str) -> Outcome {
        self.command(3, text.as_bytes());
        self.outcome()
    }

    /// A result set, or what comes instead of one.
    #[track_caller]
    pub(super) fn outcome(&mut self) -> Outcome {
        let count = match self.answer() {
            Answer::Ok { status } => return Outcome::Done { status },
            Answer::Err { code, state, message } => {
                return Outcome::Failed { code, state, message };
            }
            Answer::Other(body) => usize::from(body[0]),
            Answer::End { .. } => panic!("an end without a beginning"),
        };
        self.rest_of(count)
    }

    /// Reads the rest of a result set, after its column count.
    #[track_caller]
    pub(super) fn rest_of(&mut self, count: usize) -> Outcome {
        let columns = (0..count).map(|_| Column::read(&self.read().1)).collect();
        if !self.deprecate_eof {
            let end = self.answer();
            assert!(matches!(end, Answer::End { .. }), "{end:?}");
        }
        let mut rows = Vec::new();
        loop {
            let (_, body) = self.read();
            let short = body.len() < 9;
            match Self::understood(&body) {
                Answer::End { status } if short => {
                    return Outcome::Rows { columns, rows, status };
                }
                Answer::Err { code, state, message } if body[0] == 0xFF => {
                    return Outcome::Failed { code, state, message };
                }
                _ => rows.push(body),
            }
        }
    }

    /// The texts of all rows.
    #[track_caller]
    pub(super) fn rows(&mut self, text: &str) -> Vec<Vec<Option<String>>> {
        match self.query(text) {
            Outcome::Rows { rows, .. } => rows.iter().map(|row| texts(row)).collect(),
            other => panic!("{text}: {other:?}"),
        }
    }

    /// The texts of all rows, NULL as such.
    #[track_caller]
    pub(super) fn table(&mut self, text: &str) -> Vec<Vec<String>> {
        let cell = |cell: Option<String>| cell.unwrap_or_else(|| "NULL".to_owned());
        let rows = self.rows(text).into_iter();
        rows.map(|row| row.into_iter().map(cell).collect()).collect()
    }

    /// The first cell of the only row.
    #[track_caller]
    pub(super) fn value(&mut self, text: &str) -> String {
        match &self.table(text)[..] {
            [row] => row[0].clone(),
            rows => panic!("{text}: {rows:?}"),
        }
    }

    /// The same as a number.
    #[track_caller]
    pub(super) fn number(&mut self, text: &str) -> u64 {
        let value = self.value(text);
        value.parse().unwrap_or_else(|_| panic!("{text}: {value}"))
    }

    /// Runs a statement that has no rows; the status of the answer.
    #[track_caller]
    pub(super) fn assert_done(&mut self, text: &str) -> u16 {
        match self.query(text) {
            Outcome::Done { status } => status,
            other => panic!("{text}: {other:?}"),
        }
    }

    /// The error of a statement.
    #[track_caller]
    pub(super) fn refused(&mut self, text: &str) -> (u16, String) {
        match self.query(text) {
            Outcome::Failed { code, message, .. } => (code, message),
            other => panic!("{text}: {other:?}"),
        }
    }

    /// Whether it is still served.
    #[track_caller]
    pub(super) fn assert_alive(&mut self) {
        self.command(14, b"");
        assert!(matches!(self.answer(), Answer::Ok { .. }));
    }

    /// COM_STMT_PREPARE: the number, the count of `?`, the columns.
    #[track_caller]
    pub(super) fn prepare(&mut self, text: &str) -> Result<(u32, u16, Vec<Column>), (u16, String)> {
        self.command(22, text.as_bytes());
        let (_, body) = self.read();
        if let Answer::Err { code, message, .. } = Self::understood(&body) {
            return Err((code, message));
        }
        assert_eq!((body[0], body.len()), (0, 12), "{body:?}");
        let id = u32::from_le_bytes(*body[1..].first_chunk().unwrap());
        let columns = u16::from_le_bytes([body[5], body[6]]);
        let parameters = u16::from_le_bytes([body[7], body[8]]);
        let mut definitions = |count: u16| {
            let read: Vec<Column> = (0..count).map(|_| Column::read(&self.read().1)).collect();
            if count > 0 && !self.deprecate_eof {
                assert!(matches!(self.answer(), Answer::End { .. }));
            }
            read
        };
        assert_eq!(definitions(parameters).len(), usize::from(parameters));
        Ok((id, parameters, definitions(columns)))
    }

    /// COM_STMT_EXECUTE with texts as values.
    #[track_caller]
    pub(super) fn execute(&mut self, id: u32, values: &[Option<&str>]) -> Outcome {
        let mut body = id.to_le_bytes().to_vec();
        body.extend_from_slice(&[0, 1, 0, 0, 0]);
        if !values.is_empty() {
            let mut nulls = vec![0; values.len().div_ceil(8)];
            for (index, value) in values.iter().enumerate() {
                nulls[index / 8] |= u8::from(value.is_none()) << (index % 8);
            }
            body.extend_from_slice(&nulls);
            body.push(1);
            body.extend(values.iter().flat_map(|_| [253, 0]));
            for value in values.iter().flatten() {
                body.push(value.len() as u8);
                body.extend_from_slice(value.as_bytes());
            }
        }
        self.command(23, &body);
        self.outcome()
    }
}

impl Column {
    #[track_caller]
    fn read(body: &[u8]) -> Self {
        let mut rest = body;
        let mut text = || {
            let (length, after) = rest.split_first().unwrap();
            let (text, after) = after.split_at(usize::from(*length));
            rest = after;
            String::from_utf8(text.to_vec()).unwrap()
        };
        let catalog = text();
        assert_eq!(catalog, "def");
        let [schema, table, org_table, name, org_name] = std::array::from_fn(|_| text());
        assert_eq!(rest[0], 12, "{rest:?}");
        assert!(matches!(rest.len(), 13 | 14), "{rest:?}");
        Self {
            schema,
            table,
            org_table,
            name,
            org_name,
            charset: u16::from_le_bytes([rest[1], rest[2]]),
            length: u32::from_le_bytes(*rest[3..].first_chunk().unwrap()),
            kind: rest[7],
            flags: u16::from_le_bytes([rest[8], rest[9]]),
            decimals: rest[10],
        }
    }
}

/// The cells of a row in the text form.
#[track_caller]
pub(super) fn texts(row: &[u8]) -> Vec<Option<String>> {
    let mut rest = row;
    let mut cells = Vec::new();
    while let Some((&length, after)) = rest.split_first() {
        let (length, after) = match length {
            0xFB => {
                cells.push(None);
                rest = after;
                continue;
            }
            0xFC => (usize::from(u16::from_le_bytes([after[0], after[1]])), &after[2..]),
            length => (usize::from(length), after),
        };
        let (text, after) = after.split_at(length);
        cells.push(Some(String::from_utf8(text.to_vec()).unwrap()));
        rest = after;
    }
    cells
}
