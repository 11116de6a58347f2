//! What ends a statement or a connection from outside: KILL, a user that is gone, a stop, a client that went away.

use std::future::Future;

use tokio::sync::watch;

use super::connections::Wish;
use super::errors::error;
use super::frames::{FrameError, Frames};
use crate::access::Pass;
use crate::sql::SqlError;

/// Why a command has no proper end.
pub(super) enum Fault {
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
        match error.answer() {
            Some(told) if !matches!(error, FrameError::OutOfOrder) => Self::Sql(told),
            Some(told) => Self::Last(told),
            None => Self::Over(error),
        }
    }
}

/// What may come between.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) wish: watch::Receiver<Wish>,
    pub(super) stop: watch::Receiver<bool>,
    /// Whoever is logged in; `None`: nobody yet.
    pub(super) pass: Option<Pass>,
    /// How many queries had been ended when this one began.
    pub(super) seen: u64,
}

/// What came between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interruption {
    Query,
    Connection,
    Revoked,
    Stop,
}

impl Watch {
    /// From here on, a statement runs.
    pub(super) fn begin(&mut self) {
        self.seen = self.wish.borrow_and_update().queries_ended;
    }

    async fn interrupted(&mut self) -> Interruption {
        self.wait(self.seen).await
    }

    /// Only what ends the connection.
    pub(super) async fn ended(&mut self) -> Interruption {
        self.wait(u64::MAX).await
    }

    /// Waits for what ends the connection, or a query after so many that were ended.
    async fn wait(&mut self, seen: u64) -> Interruption {
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
}

async fn revoked(pass: Option<&Pass>) {
    match pass {
        Some(pass) => pass.revoked().await,
        None => std::future::pending().await,
    }
}

impl Interruption {
    pub(super) fn fault(self) -> Fault {
        match self {
            Self::Query => Fault::Sql(SqlError::interrupted("Query execution was interrupted")),
            Self::Connection => Fault::Last(error(1927, "70100", "Connection was killed")),
            Self::Revoked => Fault::Last(error(
                1045,
                "28000",
                "Access denied: this user has gone, or has another role or password now",
            )),
            Self::Stop => Fault::Last(error(1053, "08S01", "Server shutdown in progress")),
        }
    }
}

/// Waits for what the engine does, as long as anybody wants it.
pub(super) async fn wait<T>(
    frames: &mut Frames,
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
