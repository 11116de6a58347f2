//! One client: its commands in turn, each answered before the next is read.
//!
//! Runs as a task on the wire's threads, from the greeting until the client goes, is sent away, or the daemon stops.
//! While a statement runs, the socket is watched: a client that goes ends its statement, and so does KILL. What a client does
//! wrong is answered with an ERR packet and the conversation goes on; only frames that do not count up end it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use mysql_common::constants::{CapabilityFlags, Command, StatusFlags};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tracing::debug;

use super::cells::Cells;
use super::columns::{self, Charset};
use super::connections::{NotKilled, Owner, Registered, Victim, Wish};
use super::federated;
use super::frames::{FrameError, Frames, Packet, Patience};
use super::kill::{self, Kill};
use super::login::{self, Entrance, Login, Refused};
use super::packets::{self, Standing};
use super::statements::Statements;
use super::stream::Stream;
use super::{DATABASE, MySql};
use crate::access::{Pass, Role};
use crate::sql::{self, Reply, Rows, Session, SqlColumn, SqlError};

/// Bytes of an answer that are sent together.
const FLUSH: usize = 64 << 10;
/// The other database there is.
const INFORMATION_SCHEMA: &str = "information_schema";

/// The commands that are answered, as they stand at the beginning of a packet.
macro_rules! commands {
    ($($name:ident)+) => {
        $(const $name: u8 = Command::$name as u8;)+
    };
}
commands! {
    COM_CHANGE_USER
    COM_FIELD_LIST
    COM_INIT_DB
    COM_PING
    COM_PROCESS_KILL
    COM_QUERY
    COM_RESET_CONNECTION
    COM_SET_OPTION
    COM_STATISTICS
    COM_STMT_CLOSE
    COM_STMT_EXECUTE
    COM_STMT_FETCH
    COM_STMT_PREPARE
    COM_STMT_RESET
    COM_STMT_SEND_LONG_DATA
    COM_QUIT
}

/// Why a command has no proper end.
enum Fault {
    /// The client is told, and goes on.
    Sql(SqlError),
    /// The client is told, and that is all.
    Last(SqlError),
    /// There is nobody to tell.
    Over(FrameError),
}

impl From<SqlError> for Fault {
    fn from(error: SqlError) -> Self {
        Self::Sql(error)
    }
}

impl From<FrameError> for Fault {
    fn from(error: FrameError) -> Self {
        match frame_error(&error) {
            Some(told) if !matches!(error, FrameError::OutOfOrder) => Self::Sql(told),
            Some(told) => Self::Last(told),
            None => Self::Over(error),
        }
    }
}

/// What a client is told about its frames; `None` when there is nobody to tell.
pub(super) fn frame_error(error: &FrameError) -> Option<SqlError> {
    let (code, state, message) = match error {
        FrameError::Gone(_) | FrameError::Late(_) => return None,
        FrameError::OutOfOrder => (1156, "08S01", "Got packets out of order".to_owned()),
        FrameError::TooLarge(limit) => (
            1153,
            "08S01",
            format!(
                "Got a packet bigger than 'max_allowed_packet' bytes ({limit}; mysql.packet_max)"
            ),
        ),
        FrameError::NoMemory => (
            1041,
            "HY000",
            "the memory for large packets is used up (mysql.memory); ask again in a moment"
                .to_owned(),
        ),
    };
    Some(SqlError {
        code,
        state,
        message,
    })
}

/// What may come between.
#[derive(Debug)]
struct Watch {
    wish: watch::Receiver<Wish>,
    stop: watch::Receiver<bool>,
    /// Whoever is logged in; `None`: nobody yet.
    pass: Option<Pass>,
    /// How many queries had been ended when this one began.
    seen: u64,
}

/// What came between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interruption {
    Query,
    Connection,
    Revoked,
    Stop,
}

impl Watch {
    /// From here on, a statement runs.
    fn begin(&mut self) {
        self.seen = self.wish.borrow_and_update().queries_ended;
    }

    async fn interrupted(&mut self) -> Interruption {
        let seen = self.seen;
        tokio::select! {
            wish = self.wish.wait_for(|wish| wish.end || wish.queries_ended > seen) => match wish {
                Ok(wish) if !wish.end => Interruption::Query,
                Ok(_) | Err(_) => Interruption::Connection,
            },
            () = revoked(self.pass.as_ref()) => Interruption::Revoked,
            // An error means that the server is gone, which is a stop as well.
            _ = self.stop.wait_for(|stop| *stop) => Interruption::Stop,
        }
    }

    /// Only what ends the connection.
    async fn ended(&mut self) -> Interruption {
        tokio::select! {
            _ = self.wish.wait_for(|wish| wish.end) => Interruption::Connection,
            () = revoked(self.pass.as_ref()) => Interruption::Revoked,
            _ = self.stop.wait_for(|stop| *stop) => Interruption::Stop,
        }
    }
}

async fn revoked(pass: Option<&Pass>) {
    match pass {
        Some(pass) => pass.revoked().await,
        None => std::future::pending().await,
    }
}

impl Interruption {
    fn fault(self) -> Fault {
        match self {
            Self::Query => Fault::Sql(SqlError::interrupted("Query execution was interrupted")),
            Self::Connection => Fault::Last(SqlError {
                code: 1927,
                state: "70100",
                message: "Connection was killed".to_owned(),
            }),
            Self::Revoked => Fault::Last(SqlError {
                code: 1045,
                state: "28000",
                message: "Access denied: this user has gone, or has another role or password now"
                    .to_owned(),
            }),
            Self::Stop => Fault::Last(SqlError {
                code: 1053,
                state: "08S01",
                message: "Server shutdown in progress".to_owned(),
            }),
        }
    }
}

/// A client that was let in.
struct Client<S> {
    frames: Frames<Stream<S>>,
    service: Arc<MySql>,
    entrance: Entrance,
    watch: Watch,
    place: Registered,
    login: Login,
    session: Session,
    statements: Statements,
    /// Several statements in one text.
    multi: bool,
}

/// Serves one connection.
pub(super) async fn drive<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    peer: std::net::IpAddr,
    service: Arc<MySql>,
    place: Registered,
    stop: watch::Receiver<bool>,
) {
    let settings = &service.settings;
    let entrance = Entrance {
        access: settings.access.clone(),
        tls: settings.tls.clone(),
        budget: service.budget.clone(),
        patience: Patience {
            read: settings.read_max,
            write: settings.write_max,
        },
        deadline: Instant::now() + settings.login_max,
        id: place.id,
        peer,
    };
    let mut watch = Watch {
        wish: place.wish(),
        stop,
        pass: None,
        seen: 0,
    };
    // The login's own steps are bounded one by one; this is for all of them, and for what it writes.
    let greeted = tokio::select! {
        greeted = timeout_at(entrance.deadline, login::greet(stream, &entrance)) => greeted,
        _ = watch.ended() => return,
    };
    let (frames, login) = match greeted {
        Ok(Ok(greeted)) => greeted,
        Ok(Err(refused)) => {
            if matches!(refused, Refused::Told(_)) {
                service.counters.mysql_logins_refused.add(1);
            }
            debug!(%refused, %peer, "A MySQL client was not let in.");
            return;
        }
        Err(_) => {
            debug!(%peer, "A MySQL client did not log in in time.");
            return;
        }
    };
    let statements = Statements::new(service.settings.statements_max, service.budget.clone());
    let client = Client {
        multi: false,
        session: Session::new(u64::from(place.id), "", false),
        frames,
        service,
        entrance,
        watch,
        place,
        login,
        statements,
    };
    client.serve().await;
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    async fn serve(mut self) {
        if self.arrive().await.is_err() {
            self.frames.close().await;
            return;
        }
        let idle_max = self.service.settings.idle_max;
        let packet_max = self.service.settings.packet_max;
        loop {
            self.frames.restart();
            let packet = tokio::select! {
                biased;
                // Nothing is asked, so nothing is answered: the client finds the connection closed.
                _ = self.watch.ended() => return,
                packet = self.frames.read(packet_max, idle_max) => packet,
            };
            self.watch.begin();
            let done = match packet {
                Ok(packet) if packet.bytes == [COM_QUIT] => return,
                Ok(packet) => self.answer(packet).await,
                Err(error) => Err(error.into()),
            };
            let last = match done {
                Ok(()) => false,
                Err(fault) => match self.tell(fault) {
                    Some(last) => last,
                    None => return,
                },
            };
            if self.send().await.is_err() {
                return;
            }
            if last {
                self.frames.close().await;
                return;
            }
        }
    }

    /// Writes the error that a fault is; whether it was the last word, or `None` when there is nobody to hear it.
    fn tell(&mut self, fault: Fault) -> Option<bool> {
        let (error, last) = match fault {
            Fault::Sql(error) => (error, false),
            Fault::Last(error) => (error, true),
            Fault::Over(why) => {
                debug!(%why, "A MySQL connection ended.");
                return None;
            }
        };
        self.service.counters.mysql_errors.add(1);
        let (start, body) = self.frames.begin();
        packets::error(body, &error);
        self.frames.end(start);
        Some(last)
    }

    /// After the login: the session begins, and the client is told.
    async fn arrive(&mut self) -> Result<(), ()> {
        self.begin_session();
        if let Some(database) = self.login.database.take()
            && let Err(error) = self.set_database(&database)
        {
            self.tell(error.into());
            return Err(());
        }
        self.put_ok(0, "", false);
        self.send().await.map_err(|_| ())
    }

    /// A new session for whoever is logged in.
    fn begin_session(&mut self) {
        let user = format!("{}@{}", self.login.user, self.entrance.peer);
        self.place.set_owner(self.owner());
        self.watch.pass = Some(self.login.pass.clone());
        self.session = Session::new(u64::from(self.place.id), user, self.is_admin());
        self.multi = self
            .login
            .capabilities
            .contains(CapabilityFlags::CLIENT_MULTI_STATEMENTS);
        self.statements.clear();
    }

    /// Who this is, whatever it is called.
    fn owner(&self) -> Owner {
        Owner::of(&self.login.pass.identity, self.entrance.peer)
    }

    fn is_admin(&self) -> bool {
        self.login.pass.identity.role == Role::Admin
    }

    /// Answers one command.
    async fn answer(&mut self, packet: Packet) -> Result<(), Fault> {
        let Some((&command, body)) = packet.bytes.split_first() else {
            return Err(unknown_command().into());
        };
        match command {
            COM_QUERY => self.query(body).await,
            COM_PING => {
                self.put_ok(0, "", false);
                Ok(())
            }
            COM_INIT_DB => {
                self.set_database(utf8(body)?)?;
                self.put_ok(0, "", false);
                Ok(())
            }
            COM_FIELD_LIST => self.field_list(body).await,
            COM_STATISTICS => {
                let line = self.service.statistics();
                self.frames.put(line.as_bytes());
                Ok(())
            }
            COM_SET_OPTION => {
                self.multi = match body {
                    [0, 0] => true,
                    [1, 0] => false,
                    _ => return Err(unknown_command().into()),
                };
                self.put_end();
                Ok(())
            }
            COM_PROCESS_KILL => {
                let id = body.first_chunk().ok_or_else(malformed)?;
                let kill = Kill {
                    id: u32::from_le_bytes(*id).into(),
                    victim: Victim::Connection,
                };
                self.kill(kill, false)
            }
            COM_RESET_CONNECTION => {
                let database = self.session.database.take();
                self.begin_session();
                self.session.database = database;
                self.put_ok(0, "", false);
                Ok(())
            }
            COM_CHANGE_USER => self.change_user(&packet.bytes).await,
            COM_STMT_PREPARE => self.prepare(body).await,
            COM_STMT_EXECUTE => self.execute(body).await,
            COM_STMT_SEND_LONG_DATA => {
                let value_max = self.service.settings.packet_max;
                self.statements.add_long(body, value_max);
                Ok(())
            }
            COM_STMT_CLOSE => {
                if let Some(id) = body.first_chunk() {
                    self.statements.close(u32::from_le_bytes(*id));
                }
                Ok(())
            }
            COM_STMT_RESET => {
                let id = statement_id(body)?;
                self.statements.get(id, "mysqld_stmt_reset")?.reset();
                self.put_ok(0, "", false);
                Ok(())
            }
            COM_STMT_FETCH => {
                let id = statement_id(body)?;
                self.statements.get(id, "mysqld_stmt_fetch")?;
                Err(SqlError {
                    code: 1421,
                    state: "HY000",
                    message: format!("The statement ({id}) has no open cursor."),
                }
                .into())
            }
            _ => Err(unknown_command().into()),
        }
    }

    /// The flags of the session in every answer.
    fn standing(&self, more: bool) -> Standing {
        let mut status = StatusFlags::empty();
        if self.session.autocommit() {
            status |= StatusFlags::SERVER_STATUS_AUTOCOMMIT;
        }
        if self.session.in_transaction {
            status |= StatusFlags::SERVER_STATUS_IN_TRANS;
        }
        if more {
            status |= StatusFlags::SERVER_MORE_RESULTS_EXISTS;
        }
        Standing {
            status,
            warnings: 0,
        }
    }

    fn put_ok(&mut self, affected_rows: u64, info: &str, more: bool) {
        let standing = self.standing(more);
        let (start, body) = self.frames.begin();
        packets::ok(body, affected_rows, info, standing);
        self.frames.end(start);
    }

    fn put_end(&mut self) {
        self.put_end_with(false);
    }

    fn put_end_with(&mut self, more: bool) {
        let standing = self.standing(more);
        let capabilities = self.login.capabilities;
        let (start, body) = self.frames.begin();
        packets::end_of_rows(body, capabilities, standing);
        self.frames.end(start);
    }

    /// Sends what waits, unless the connection is to end while the client takes nothing.
    async fn send(&mut self) -> Result<(), Fault> {
        tokio::select! {
            biased;
            sent = self.frames.flush() => sent.map_err(Fault::Over),
            _ = self.watch.ended() => Err(Fault::Over(FrameError::Late("ended in the middle of an answer"))),
        }
    }

    fn set_database(&mut self, name: &str) -> Result<(), SqlError> {
        let known = [DATABASE, INFORMATION_SCHEMA];
        let known = known.iter().find(|known| known.eq_ignore_ascii_case(name));
        let known = known.ok_or_else(|| {
            SqlError::no_such_database(format!(
                "Unknown database '{name}'; there are {DATABASE} and {INFORMATION_SCHEMA}"
            ))
        })?;
        self.session.database = Some((*known).to_owned());
        Ok(())
    }

    async fn query(&mut self, body: &[u8]) -> Result<(), Fault> {
        // Before it is cut: a packet may be many times as long as a statement.
        self.service.engine.check_length(body.len())?;
        let mut pieces = sql::split(utf8(body)?).peekable();
        let Some(first) = pieces.next() else {
            return Err(SqlError {
                code: 1065,
                state: "42000",
                message: "Query was empty".to_owned(),
            }
            .into());
        };
        if pieces.peek().is_some() && !self.multi {
            return Err(SqlError::parse(
                "several statements in one text, which this connection did not ask for (CLIENT_MULTI_STATEMENTS)",
            )
            .into());
        }
        let mut next = Some(first);
        while let Some(piece) = next {
            next = pieces.next();
            let more = next.is_some();
            self.service.counters.mysql_statements.add(1);
            if let Some(kill) = kill::parse(piece) {
                self.kill(kill?, more)?;
                continue;
            }
            let ordered = federated::ordered(piece);
            let piece = ordered.as_deref().unwrap_or(piece);
            let run = self.service.engine.run(&mut self.session, piece, &[]);
            let reply = wait(&mut self.frames, &mut self.watch, run).await??;
            self.reply(reply, more, false).await?;
        }
        Ok(())
    }

    async fn reply(&mut self, reply: Reply, more: bool, binary: bool) -> Result<(), Fault> {
        match reply {
            Reply::Rows(rows) => self.rows(rows, more, binary).await,
            Reply::Done(done) => {
                self.put_ok(done.affected_rows, &done.info, more);
                Ok(())
            }
        }
    }

    /// Sends rows as they are made.
    async fn rows(&mut self, mut rows: Rows, more: bool, binary: bool) -> Result<(), Fault> {
        // What fails at once fails before the columns are told.
        let mut batch = wait(&mut self.frames, &mut self.watch, rows.next()).await?;
        if let Some(Err(error)) = batch {
            return Err(error.into());
        }
        let columns = Arc::clone(&rows.columns);
        let (start, body) = self.frames.begin();
        packets::put_number(body, columns.len() as u64);
        self.frames.end(start);
        self.put_columns(&columns, binary);
        while let Some(made) = batch {
            let cells = Cells::of(&made?, &columns)?;
            for row in 0..cells.rows() {
                let (start, body) = self.frames.begin();
                if binary {
                    cells.put_binary_row(row, body);
                } else {
                    cells.put_text_row(row, body);
                }
                self.frames.end(start);
                if self.frames.waiting() >= FLUSH {
                    self.send().await?;
                }
            }
            batch = wait(&mut self.frames, &mut self.watch, rows.next()).await?;
        }
        self.put_end_with(more);
        Ok(())
    }

    /// Definitions of columns, and the end of them where the client wants one.
    fn put_columns(&mut self, columns: &[SqlColumn], binary: bool) {
        let charset = self.charset();
        for column in columns {
            let (start, body) = self.frames.begin();
            columns::put_column(body, column, DATABASE, charset, binary);
            self.frames.end(start);
        }
        self.put_end_of_columns();
    }

    fn put_end_of_columns(&mut self) {
        if !self
            .login
            .capabilities
            .contains(CapabilityFlags::CLIENT_DEPRECATE_EOF)
        {
            self.put_end();
        }
    }

    /// How texts are announced: as the client asked last.
    fn charset(&self) -> Charset {
        let named = self.session.variables.get("character_set_results");
        named
            .and_then(|name| Charset::named(name))
            .unwrap_or_else(|| Charset::of_collation(self.login.collation.into()))
    }

    async fn field_list(&mut self, body: &[u8]) -> Result<(), Fault> {
        let end = body
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(body.len());
        let table = utf8(&body[..end])?;
        let text = format!("SELECT * FROM `{}` LIMIT 0", table.replace('`', "``"));
        let prepare = self.service.engine.prepare(&self.session, &text);
        let prepared = wait(&mut self.frames, &mut self.watch, prepare).await??;
        let charset = self.charset();
        for column in &*prepared.columns {
            let (start, body) = self.frames.begin();
            columns::put_column(body, column, DATABASE, charset, false);
            columns::put_no_default(body);
            self.frames.end(start);
        }
        self.put_end();
        Ok(())
    }

    fn kill(&mut self, kill: Kill, more: bool) -> Result<(), Fault> {
        let Kill { id, victim } = kill;
        let all = &self.service.connections;
        match all.kill(id, victim, &self.owner(), self.is_admin()) {
            Ok(()) if id == u64::from(self.place.id) => Err(match victim {
                Victim::Query => Interruption::Query.fault(),
                Victim::Connection => Interruption::Connection.fault(),
            }),
            Ok(()) => {
                self.put_ok(0, "", more);
                Ok(())
            }
            Err(NotKilled::Unknown) => Err(SqlError {
                code: 1094,
                state: "HY000",
                message: format!("Unknown thread id: {id}"),
            }
            .into()),
            Err(NotKilled::NotYours) => Err(SqlError {
                code: 1095,
                state: "HY000",
                message: format!("You are not owner of thread {id}"),
            }
            .into()),
        }
    }

    async fn change_user(&mut self, packet: &[u8]) -> Result<(), Fault> {
        self.entrance.deadline = Instant::now() + self.service.settings.login_max;
        let change = login::change(&mut self.frames, &self.entrance, packet, &self.login);
        match change.await {
            Ok(login) => {
                self.login = login;
                self.begin_session();
                if let Some(database) = self.login.database.take() {
                    self.set_database(&database)?;
                }
                self.put_ok(0, "", false);
                Ok(())
            }
            // Whoever is not let in as somebody else is nobody: as MySQL does it.
            Err(Refused::Told(error)) => {
                self.service.counters.mysql_logins_refused.add(1);
                Err(Fault::Last(error))
            }
            Err(Refused::Frame(error)) => Err(Fault::Over(error)),
            Err(Refused::Tls(error)) => Err(Fault::Over(error.into())),
        }
    }

    async fn prepare(&mut self, body: &[u8]) -> Result<(), Fault> {
        self.statements.none_prepared();
        let text = utf8(body)?;
        let prepare = self.service.engine.prepare(&self.session, text);
        let prepared = wait(&mut self.frames, &mut self.watch, prepare).await??;
        let (parameters, columns) = (prepared.parameters, Arc::clone(&prepared.columns));
        let too_many = |_| SqlError {
            code: 1390,
            state: "HY000",
            message: "Prepared statement contains too many placeholders or columns".to_owned(),
        };
        let counts = [
            u16::try_from(columns.len()).map_err(too_many)?,
            u16::try_from(parameters).map_err(too_many)?,
        ];
        let id = self.statements.add(prepared)?;
        let (start, body) = self.frames.begin();
        body.push(0x00);
        body.extend_from_slice(&id.to_le_bytes());
        body.extend(counts.iter().flat_map(|count| count.to_le_bytes()));
        // A filler, and no warnings.
        body.extend_from_slice(&[0, 0, 0]);
        self.frames.end(start);
        if parameters > 0 {
            for _ in 0..parameters {
                let (start, body) = self.frames.begin();
                columns::put_parameter(body);
                self.frames.end(start);
            }
            self.put_end_of_columns();
        }
        if !columns.is_empty() {
            self.put_columns(&columns, true);
        }
        Ok(())
    }

    async fn execute(&mut self, body: &[u8]) -> Result<(), Fault> {
        self.service.counters.mysql_statements.add(1);
        let id = statement_id(body)?;
        let statement = self.statements.get(id, "mysqld_stmt_execute")?;
        // The kind of cursor and a count of one: without a cursor all rows are sent at once, which clients that wish for
        // one understand.
        let values = statement.values(body.get(9..).ok_or_else(malformed)?)?;
        let text = Arc::clone(&statement.prepared.text);
        let run = self.service.engine.run(&mut self.session, &text, &values);
        let reply = wait(&mut self.frames, &mut self.watch, run).await??;
        self.reply(reply, false, true).await
    }
}

/// Waits for what the engine does, as long as anybody wants it.
async fn wait<S: AsyncRead + AsyncWrite + Unpin, T>(
    frames: &mut Frames<Stream<S>>,
    watch: &mut Watch,
    work: impl Future<Output = T>,
) -> Result<T, Fault> {
    tokio::select! {
        biased;
        done = work => Ok(done),
        interruption = watch.interrupted() => Err(interruption.fault()),
        () = frames.gone() => {
            let gone = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
            Err(Fault::Over(FrameError::Gone(gone)))
        }
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, SqlError> {
    std::str::from_utf8(bytes).map_err(|_| login::not_utf8())
}

fn statement_id(body: &[u8]) -> Result<u32, SqlError> {
    let id = body.first_chunk().ok_or_else(malformed)?;
    Ok(u32::from_le_bytes(*id))
}

fn malformed() -> SqlError {
    SqlError {
        code: 1835,
        state: "HY000",
        message: "Malformed communication packet".to_owned(),
    }
}

fn unknown_command() -> SqlError {
    SqlError {
        code: 1047,
        state: "08S01",
        message: "Unknown command".to_owned(),
    }
}

/// How long a refused client may take to read why.
pub(super) const TURNED_AWAY_MAX: Duration = Duration::from_secs(1);
