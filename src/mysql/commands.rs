//! Executes statements, in text or prepared, and lists of fields; writes the engine's answers as
//! packets.

use std::sync::Arc;

use mysql_common::constants::CapabilityFlags;
use mysql_common::io::BufMutExt as _;

use super::cells;
use super::columns;
use super::errors::{CommandError, error, malformed, utf8};
use super::federated;
use super::interruption::{send, wait};
use super::kill;
use super::session::Client;
use crate::sql::{self, Reply, Rows, SqlColumn, SqlError};

/// Bytes of an answer that are sent together.
const FLUSH: usize = 64 << 10;

impl Client {
    pub(super) async fn query(&mut self, body: &[u8]) -> Result<(), CommandError> {
        // Before the text is split: a packet may be many times as long as a statement.
        self.service.engine.check_length(body.len())?;
        let mut text = utf8(body)?;
        let mut more = true;
        while more {
            // A statement before may have set how quotes are read.
            let piece = sql::take_statement(&mut text, &self.session)
                .ok_or_else(|| SqlError::empty_query("Query was empty"))?;
            more = sql::take_statement(&mut { text }, &self.session).is_some();
            if more && !self.multi {
                return Err(SqlError::parse(
                    "several statements in one text, which this connection did not ask for (CLIENT_MULTI_STATEMENTS)",
                )
                .into());
            }
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

    async fn reply(&mut self, reply: Reply, more: bool, binary: bool) -> Result<(), CommandError> {
        match reply {
            Reply::Rows(rows) => self.rows(rows, more, binary).await,
            Reply::Done => {
                self.put_ok(more);
                Ok(())
            }
        }
    }

    /// Sends rows as they are produced. An interruption drops the query at once, even if the client
    /// accepts nothing.
    async fn rows(&mut self, mut rows: Rows, more: bool, binary: bool) -> Result<(), CommandError> {
        // An immediate failure is reported before the columns are sent.
        let mut batch = wait(&mut self.frames, &mut self.watch, rows.next()).await?;
        if let Some(Err(error)) = batch {
            return Err(error.into());
        }
        let columns = Arc::clone(&rows.columns);
        self.frames.packet(|body| body.put_lenenc_int(columns.len() as u64));
        self.put_columns(&columns, binary);
        while let Some(made) = batch {
            let made = made?;
            let cells = cells::of(&made, columns.len())?;
            for row in 0..made.num_rows() {
                self.frames.packet(|body| match binary {
                    true => cells::put_binary_row(body, &cells, row),
                    false => cells::put_text_row(body, &cells, row),
                });
                if self.frames.waiting() >= FLUSH {
                    send(&mut self.frames, &mut self.watch).await?;
                }
            }
            batch = wait(&mut self.frames, &mut self.watch, rows.next()).await?;
        }
        self.put_end(more);
        Ok(())
    }

    /// Writes column definitions, and their end if the client wants one.
    fn put_columns(&mut self, columns: &[SqlColumn], binary: bool) {
        let collation = self.collation();
        for column in columns {
            self.frames.packet(|body| columns::put_column(body, column, collation, binary));
        }
        self.put_end_of_columns();
    }

    fn put_end_of_columns(&mut self) {
        if !self.login.terms.has(CapabilityFlags::CLIENT_DEPRECATE_EOF) {
            self.put_end(false);
        }
    }

    /// The collation for texts, as the client last set it.
    fn collation(&self) -> u16 {
        let named = self.session.variables.get("character_set_results");
        named.and_then(|name| columns::collation_of(name)).unwrap_or(self.login.collation.into())
    }

    pub(super) async fn field_list(&mut self, body: &[u8]) -> Result<(), CommandError> {
        let end = body.iter().position(|byte| *byte == 0).unwrap_or(body.len());
        let table = utf8(&body[..end])?;
        let text = format!("SELECT * FROM `{}` LIMIT 0", table.replace('`', "``"));
        let prepare = self.service.engine.prepare(&self.session, &text);
        let prepared = wait(&mut self.frames, &mut self.watch, prepare).await??;
        let collation = self.collation();
        for column in &*prepared.columns {
            self.frames.packet(|body| {
                columns::put_column(body, column, collation, false);
                // The default value, which there never is.
                body.push(0xFB);
            });
        }
        self.put_end(false);
        Ok(())
    }

    pub(super) async fn prepare(&mut self, body: &[u8]) -> Result<(), CommandError> {
        self.statements.none_prepared();
        let text = utf8(body)?;
        let prepare = self.service.engine.prepare(&self.session, text);
        let prepared = wait(&mut self.frames, &mut self.watch, prepare).await??;
        let (parameters, columns) = (prepared.parameters, Arc::clone(&prepared.columns));
        let too_many = |_| {
            let problem = "Prepared statement contains too many placeholders or columns";
            error(1390, "HY000", problem)
        };
        let counts = [
            u16::try_from(columns.len()).map_err(too_many)?,
            u16::try_from(parameters).map_err(too_many)?,
        ];
        let id = self.statements.add(prepared)?;
        self.frames.packet(|body| {
            body.push(0x00);
            body.extend_from_slice(&id.to_le_bytes());
            body.extend(counts.iter().flat_map(|count| count.to_le_bytes()));
            // A filler, and no warnings.
            body.extend_from_slice(&[0, 0, 0]);
        });
        if parameters > 0 {
            for _ in 0..parameters {
                self.frames.packet(columns::put_parameter);
            }
            self.put_end_of_columns();
        }
        if !columns.is_empty() {
            self.put_columns(&columns, true);
        }
        Ok(())
    }

    pub(super) async fn execute(&mut self, body: &[u8]) -> Result<(), CommandError> {
        self.service.counters.mysql_statements.add(1);
        let id = statement_id(body)?;
        let statement = self.statements.get(id, "mysqld_stmt_execute")?;
        // Skips the cursor type and a count of one: without a cursor all rows are sent at once,
        // which clients that ask for one understand.
        let values = statement.values(body.get(9..).ok_or_else(|| malformed(""))?)?;
        let text = Arc::clone(&statement.prepared.text);
        let run = self.service.engine.run(&mut self.session, &text, &values);
        let reply = wait(&mut self.frames, &mut self.watch, run).await??;
        self.reply(reply, false, true).await
    }
}

pub(super) fn statement_id(body: &[u8]) -> Result<u32, SqlError> {
    let id = body.first_chunk().ok_or_else(|| malformed(""))?;
    Ok(u32::from_le_bytes(*id))
}
