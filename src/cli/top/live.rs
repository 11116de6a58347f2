//! The event loop: keys and updates in, frames out, until a key or a signal ends it.
//!
//! Runs on the main thread and never blocks on the daemon. It waits up to `EVENT_WAIT` for keys,
//! then takes the updates that have arrived and draws if something changed. The terminal is
//! restored however this ends, a panic included.
//! When the terminal itself goes away, a thread of its own ends the process.

use std::io::{self, IsTerminal as _, stdin};
use std::mem::ManuallyDrop;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam::channel::TryRecvError;
use ratatui::crossterm::event::{self, Event};

use super::draw::draw;
use super::model::Model;
use super::poll;
use crate::cli::client::Client;
use crate::shutdown::Shutdown;

/// The longest that a key, a signal or an update may wait.
const EVENT_WAIT: Duration = Duration::from_millis(50);

/// Time between two looks at whether the terminal is still there.
const TERMINAL_WAIT: Duration = Duration::from_millis(500);

/// Ends the process once its terminal is gone. A read of such a terminal never returns: `crossterm`
/// tries again on EOF and on EIO, so neither the loop below nor a signal would end it.
fn end_with_terminal() {
    while stdin().is_terminal() {
        thread::sleep(TERMINAL_WAIT);
    }
    process::exit(1);
}

/// Restores the terminal when dropped. The terminal may be gone, as with a lost connection; then
/// there is nothing to restore, and what ratatui drops would panic for it.
struct TerminalGuard(ManuallyDrop<ratatui::DefaultTerminal>);

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        let _cursor_shown = self.0.show_cursor();
        let _put_back = ratatui::try_restore();
    }
}

/// Runs until `q` or a stop.
///
/// # Errors
/// When the terminal cannot be used, or the system gives no thread.
pub fn run(client: Client, mut model: Model, colour: bool, shutdown: &Shutdown) -> io::Result<()> {
    let mut query = model.query();
    let (queries, updates) = poll::start(client, query.clone())?;
    thread::Builder::new().name("terminal".to_owned()).spawn(end_with_terminal)?;
    let mut screen = TerminalGuard(ManuallyDrop::new(ratatui::try_init()?));
    let mut changed = true;
    while !shutdown.requested() {
        if changed {
            screen.0.draw(|frame| draw(frame, &mut model, colour))?;
        }
        changed = false;
        let deadline = Instant::now() + EVENT_WAIT;
        while event::poll(deadline.saturating_duration_since(Instant::now()))? {
            match event::read()? {
                Event::Key(key) => {
                    if !model.press(key) {
                        return Ok(());
                    }
                    changed = true;
                }
                Event::Resize(..) => changed = true,
                _ => {}
            }
        }
        loop {
            match updates.try_recv() {
                Ok(update) => {
                    model.take(update);
                    changed = true;
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    return Err(io::Error::other("the thread that asks the daemon has ended"));
                }
            }
        }
        let newer = model.query();
        if newer != query {
            query = newer;
            // If the thread is gone, the loop above notices.
            drop(queries.send(query.clone()));
        }
    }
    Ok(())
}
