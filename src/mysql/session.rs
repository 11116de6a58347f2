//! One client: executes its commands in turn, answering each before reading the next.
//!
//! Runs as a task on the wire's threads, from the greeting until the client leaves, is rejected, or
//! the daemon stops. While a statement runs, the socket is watched: a client that leaves ends its
//! statement, and so does KILL. Client errors are answered with an ERR packet and the session goes
//! on; only misnumbered frames end it.

use std::net::IpAddr;
use std::sync::Arc;

use mysql_common::constants::{CapabilityFlags, Command, StatusFlags};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tracing::debug;

use super::MySql;
use super::commands::statement_id;
use super::connections::{Owner, Registered, Victim};
use super::errors::{CommandError, error, unknown_command, utf8};
use super::frames::{Frames, Received, Stream};
use super::interruption::Watch;
use super::kill::Kill;
use super::login::{Entrance, Login};
use super::packets;
use super::statements::Statements;
use crate::access::Role;
use crate::instruments::{self, Foreground, IDLE};
use crate::sql::{Session, SqlError};

// The supported commands, by the first byte of a packet.
const CHANGE_USER: u8 = Command::COM_CHANGE_USER as u8;
const FIELD_LIST: u8 = Command::COM_FIELD_LIST as u8;
const INIT_DB: u8 = Command::COM_INIT_DB as u8;
const PING: u8 = Command::COM_PING as u8;
const PROCESS_KILL: u8 = Command::COM_PROCESS_KILL as u8;
const QUERY: u8 = Command::COM_QUERY as u8;
const QUIT: u8 = Command::COM_QUIT as u8;
const RESET_CONNECTION: u8 = Command::COM_RESET_CONNECTION as u8;
const SET_OPTION: u8 = Command::COM_SET_OPTION as u8;
const STATISTICS: u8 = Command::COM_STATISTICS as u8;
const STMT_CLOSE: u8 = Command::COM_STMT_CLOSE as u8;
const STMT_EXECUTE: u8 = Command::COM_STMT_EXECUTE as u8;
const STMT_FETCH: u8 = Command::COM_STMT_FETCH as u8;
const STMT_PREPARE: u8 = Command::COM_STMT_PREPARE as u8;
const STMT_RESET: u8 = Command::COM_STMT_RESET as u8;
const STMT_SEND_LONG_DATA: u8 = Command::COM_STMT_SEND_LONG_DATA as u8;

/// A client that was admitted.
pub(super) struct Client {
    pub(super) frames: Frames,
    pub(super) service: Arc<MySql>,
    peer: IpAddr,
    pub(super) watch: Watch,
    pub(super) place: Registered,
    pub(super) login: Login,
    pub(super) session: Session,
    pub(super) statements: Statements,
    /// Whether a text may hold several statements.
    pub(super) multi: bool,
    /// The connection, as instruments see it.
    connection: Arc<Foreground>,
}

/// Serves one connection.
pub(super) async fn drive(
    stream: impl Stream + 'static,
    peer: IpAddr,
    service: Arc<MySql>,
    place: Registered,
    stop: watch::Receiver<bool>,
) {
    let settings = &service.settings;
    let entrance =
        Entrance { service: &service, peer, deadline: Instant::now() + settings.login_max };
    let mut watch = Watch { wish: place.wish.clone(), stop, pass: None, seen: 0 };
    // Each step of the login has its own limit; this one covers all of them, and the output.
    let greeting = timeout_at(entrance.deadline, entrance.greet(stream, place.id));
    let greeted = tokio::select! {
        greeted = greeting => greeted,
        _ = watch.ended() => return,
    };
    let (frames, login) = match greeted {
        Ok(Ok(greeted)) => greeted,
        Ok(Err(refused)) => {
            if !matches!(refused, CommandError::Lost(_)) {
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
    let connection = Arc::new(Foreground::attach("mysql/connection"));
    let client = Client {
        multi: false,
        connection: Arc::clone(&connection),
        session: Session::new(u64::from(place.id), "", false),
        statements: Statements::new(settings.limits.statements_max, service.budget.clone()),
        frames,
        service,
        peer,
        watch,
        place,
        login,
    };
    connection.scope(client.serve()).await;
}

impl Client {
    async fn serve(mut self) {
        let begun = self.begin_session().map_err(CommandError::Fatal);
        let arrived = begun.map(|()| self.put_ok(false));
        if !self.conclude(arrived).await {
            return;
        }
        let idle_max = self.service.settings.limits.idle_max;
        let packet_max = self.service.settings.limits.packet_max;
        loop {
            self.frames.restart();
            let idle = IDLE.begin_in_task();
            let packet = tokio::select! {
                biased;
                // Nothing was asked, so nothing is answered: the client finds the connection
                // closed.
                _ = self.watch.ended() => return,
                packet = self.frames.read(packet_max, idle_max) => packet,
            };
            drop(idle);
            self.watch.begin();
            let done = match packet {
                Ok(packet) if packet.bytes == [QUIT] => return,
                Ok(packet) => self.answer(packet).await,
                Err(error) => Err(error),
            };
            if !self.conclude(done).await {
                return;
            }
        }
    }

    /// Sends the answer to a command or its error; returns whether the session goes on.
    async fn conclude(&mut self, done: Result<(), CommandError>) -> bool {
        let last = matches!(done, Err(CommandError::Fatal(_)));
        match done {
            Ok(()) => {}
            Err(CommandError::Reported(error) | CommandError::Fatal(error)) => {
                self.service.counters.mysql_errors.add(1);
                self.frames.packet(|body| packets::error(body, &error, true));
            }
            Err(CommandError::Lost(why)) => {
                debug!(%why, "A MySQL connection ended.");
                return false;
            }
        }
        let sent = self.send().await.is_ok();
        if sent && last {
            self.frames.close().await;
        }
        sent && !last
    }

    /// Starts a new session for the current user, in the database of a login.
    fn begin_session(&mut self) -> Result<(), SqlError> {
        let user = format!("{}@{}", self.login.user, self.peer);
        self.place.set_owner(self.owner());
        self.connection.set_client(instruments::thread::Client {
            id: Some(u64::from(self.place.id)),
            user: self.login.user.clone(),
            host: self.peer.to_string(),
            protocol: "TCP/IP",
        });
        self.watch.pass = Some(self.login.pass.clone());
        self.session = Session::new(u64::from(self.place.id), user, self.is_admin());
        self.session.tls = self.frames.tls.clone();
        self.multi = self.login.terms.has(CapabilityFlags::CLIENT_MULTI_STATEMENTS);
        self.statements.clear();
        match self.login.database.take() {
            Some(database) => self.set_database(&database),
            None => Ok(()),
        }
    }

    /// The identity of the client, independent of its name.
    fn owner(&self) -> Owner {
        Owner::of(&self.login.pass.identity, self.peer)
    }

    fn is_admin(&self) -> bool {
        self.login.pass.identity.role == Role::Admin
    }

    /// Answers one command.
    async fn answer(&mut self, packet: Received) -> Result<(), CommandError> {
        let Some((&command, body)) = packet.bytes.split_first() else {
            return Err(unknown_command().into());
        };
        match command {
            QUERY => return self.query(body).await,
            PING => {}
            INIT_DB => self.set_database(utf8(body)?)?,
            FIELD_LIST => return self.field_list(body).await,
            STATISTICS => {
                let line = self.service.statistics();
                self.frames.packet(|body| body.extend_from_slice(line.as_bytes()));
                return Ok(());
            }
            SET_OPTION => {
                self.multi = match body {
                    [0, 0] => true,
                    [1, 0] => false,
                    _ => return Err(unknown_command().into()),
                };
                self.put_end(false);
                return Ok(());
            }
            PROCESS_KILL => {
                let kill = Kill { id: statement_id(body)?.into(), victim: Victim::Connection };
                return self.kill(kill, false);
            }
            RESET_CONNECTION => {
                let database = self.session.database.take();
                self.begin_session()?;
                self.session.database = database;
            }
            CHANGE_USER => self.change_user(&packet.bytes).await?,
            STMT_PREPARE => return self.prepare(body).await,
            STMT_EXECUTE => return self.execute(body).await,
            STMT_SEND_LONG_DATA => {
                let value_max = self.service.settings.limits.packet_max;
                self.statements.add_long(body, value_max);
                return Ok(());
            }
            STMT_CLOSE => {
                if let Ok(id) = statement_id(body) {
                    self.statements.close(id);
                }
                return Ok(());
            }
            STMT_RESET => {
                let id = statement_id(body)?;
                self.statements.get(id, "mysqld_stmt_reset")?.reset();
            }
            STMT_FETCH => {
                let id = statement_id(body)?;
                self.statements.get(id, "mysqld_stmt_fetch")?;
                let problem = format!("The statement ({id}) has no open cursor.");
                return Err(error(1421, "HY000", problem).into());
            }
            _ => return Err(unknown_command().into()),
        }
        self.put_ok(false);
        Ok(())
    }

    /// Status flags of the session for an answer.
    fn status(&self, more: bool) -> StatusFlags {
        let mut status = StatusFlags::empty();
        status.set(StatusFlags::SERVER_STATUS_AUTOCOMMIT, self.session.autocommit());
        status.set(StatusFlags::SERVER_STATUS_IN_TRANS, self.session.in_transaction);
        status.set(StatusFlags::SERVER_MORE_RESULTS_EXISTS, more);
        status
    }

    /// Confirms a command without rows.
    pub(super) fn put_ok(&mut self, more: bool) {
        let status = self.status(more);
        let warnings = u16::try_from(self.session.warnings.len()).unwrap_or(u16::MAX);
        self.frames.packet(|body| packets::ok(body, packets::OK, status, warnings));
    }

    pub(super) fn put_end(&mut self, more: bool) {
        let status = self.status(more);
        let capabilities = self.login.terms.capabilities;
        self.frames.packet(|body| packets::end_of_rows(body, capabilities, status));
    }

    /// Sends the output, unless the connection is to end while the client accepts nothing.
    async fn send(&mut self) -> Result<(), CommandError> {
        tokio::select! {
            biased;
            sent = self.frames.flush() => sent,
            _ = self.watch.ended() => Err(CommandError::late("ended in the middle of an answer")),
        }
    }

    fn set_database(&mut self, name: &str) -> Result<(), SqlError> {
        self.session.database = Some(self.service.engine.database(name)?);
        Ok(())
    }

    pub(super) fn kill(&mut self, kill: Kill, more: bool) -> Result<(), CommandError> {
        let Kill { id, victim } = kill;
        let all = &self.service.connections;
        all.kill(id, victim, &self.owner(), self.is_admin())?;
        if id == u64::from(self.place.id) {
            return Err(CommandError::killed(victim));
        }
        self.put_ok(more);
        Ok(())
    }

    async fn change_user(&mut self, packet: &[u8]) -> Result<(), CommandError> {
        let entrance = Entrance {
            service: &self.service,
            peer: self.peer,
            deadline: Instant::now() + self.service.settings.login_max,
        };
        let change = entrance.change(&mut self.frames, packet, &self.login);
        match change.await {
            Ok(login) => self.login = login,
            Err(lost @ CommandError::Lost(_)) => return Err(lost),
            // As in MySQL, a client that fails to change the user is nobody.
            Err(CommandError::Reported(error) | CommandError::Fatal(error)) => {
                self.service.counters.mysql_logins_refused.add(1);
                return Err(CommandError::Fatal(error));
            }
        }
        Ok(self.begin_session()?)
    }
}
