//! Ends statements and connections from outside: KILL, a removed user, a stop, a client that went
//! away.

use std::future::Future;

use tokio::sync::watch;

use super::connections::{Victim, Wish};
use super::errors::{CommandError, error};
use super::frames::Frames;
use crate::access::Pass;

/// The events that may interrupt a command.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) wish: watch::Receiver<Wish>,
    pub(super) stop: watch::Receiver<bool>,
    /// The pass of the client; `None` before login.
    pub(super) pass: Option<Pass>,
    /// How many queries had been ended when this one began.
    pub(super) seen: u64,
}

impl Watch {
    /// Records that a statement starts.
    pub(super) fn begin(&mut self) {
        self.seen = self.wish.borrow_and_update().queries_ended;
    }

    /// Waits for an event that ends the connection.
    pub(super) async fn ended(&mut self) -> CommandError {
        self.wait(u64::MAX).await
    }

    /// Waits for such an event, or until more than `seen` queries have been killed.
    async fn wait(&mut self, seen: u64) -> CommandError {
        tokio::select! {
            wish = self.wish.wait_for(|wish| wish.end || wish.queries_ended > seen) => match wish {
                Ok(wish) if !wish.end => CommandError::killed(Victim::Query),
                Ok(_) | Err(_) => CommandError::killed(Victim::Connection),
            },
            () = revoked(self.pass.as_ref()) => CommandError::Fatal(error(
                1045,
                "28000",
                "Access denied: this user has gone, or has another role or password now",
            )),
            // An error means that the server is gone, which is a stop as well.
            _ = self.stop.wait_for(|stop| *stop) => {
                CommandError::Fatal(error(1053, "08S01", "Server shutdown in progress"))
            }
        }
    }
}

async fn revoked(pass: Option<&Pass>) {
    match pass {
        Some(pass) => pass.revoked().await,
        None => std::future::pending().await,
    }
}

/// Sends the output in the middle of an answer, unless interrupted: the rest goes out with the
/// error.
pub(super) async fn send(frames: &mut Frames, watch: &mut Watch) -> Result<(), CommandError> {
    tokio::select! {
        biased;
        sent = frames.flush() => sent,
        interruption = watch.wait(watch.seen) => Err(interruption),
    }
}

/// Waits for the engine, unless interrupted.
pub(super) async fn wait<T>(
    frames: &mut Frames,
    watch: &mut Watch,
    work: impl Future<Output = T>,
) -> Result<T, CommandError> {
    tokio::select! {
        biased;
        done = work => Ok(done),
        interruption = watch.wait(watch.seen) => Err(interruption),
        () = frames.gone() => {
            Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into())
        }
    }
}
