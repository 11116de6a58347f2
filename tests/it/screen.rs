//! A terminal for a program under test: a pseudo-terminal, and behind it a screen that understands
//! escape sequences.
//!
//! The program believes in a terminal; a thread feeds what it writes to `vt100`, whose idea of the
//! screen is what a person would see. Keys are the bytes that a terminal sends for them.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::harness::{Running, await_condition};

/// A program on a pseudo-terminal.
pub(crate) struct Screen {
    keyboard: File,
    child: Running,
    seen: Arc<Mutex<Seen>>,
    /// Ends with what the program writes, or when the terminal is taken away.
    reader: JoinHandle<()>,
    gone: Arc<AtomicBool>,
}

struct Seen {
    parser: vt100::Parser,
    /// Everything that was written.
    bytes: Vec<u8>,
}

impl Screen {
    /// Starts a program on a terminal of that size.
    pub(crate) fn start(mut command: Command, columns: u16, rows: u16) -> Self {
        // No program holds our end too: the terminal goes when that is closed.
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let theirs: OwnedFd = ioctl_tiocgptpeer(&ours, flags).unwrap();
        set_size(&ours, columns, rows);
        let child = command
            .env("TERM", "xterm-256color")
            .stdin(Stdio::from(theirs.try_clone().unwrap()))
            .stdout(Stdio::from(theirs.try_clone().unwrap()))
            .stderr(Stdio::from(theirs))
            .spawn()
            .unwrap();
        // The command holds on to their end, and with it the terminal would never close.
        drop(command);
        let seen = Arc::new(Mutex::new(Seen {
            parser: vt100::Parser::new(rows, columns, 0),
            bytes: Vec::new(),
        }));
        let mut written = File::from(ours);
        let keyboard = written.try_clone().unwrap();
        let kept = Arc::clone(&seen);
        let gone = Arc::new(AtomicBool::new(false));
        let is_gone = Arc::clone(&gone);
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The end is an error: their side is closed.
            while !is_gone.load(Ordering::Relaxed)
                && let Ok(count @ 1..) = written.read(&mut bytes)
            {
                let mut seen = kept.lock().unwrap();
                seen.parser.process(&bytes[..count]);
                seen.bytes.extend_from_slice(&bytes[..count]);
            }
        });
        Self { keyboard, child: Running(child), seen, reader, gone }
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Returns the visible lines of the screen.
    pub(crate) fn lines(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        let (_, columns) = seen.parser.screen().size();
        let rows = seen.parser.screen().rows(0, columns);
        rows.map(|row| row.trim_end().to_owned()).collect()
    }

    /// Waits until a text is to be seen, and gives the line that it is in.
    #[track_caller]
    pub(crate) fn await_text(&self, text: &str) -> String {
        await_condition(&format!("{text:?} on the screen"), || {
            let lines = self.lines();
            lines.iter().find(|line| line.contains(text)).cloned().ok_or(lines)
        })
    }

    /// Looks at the screen as the terminal has it.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&vt100::Screen) -> T) -> T {
        look(self.seen.lock().unwrap().parser.screen())
    }

    /// Everything that was written so far.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.seen.lock().unwrap().bytes.clone()
    }

    /// Another size, and the signal that comes with it.
    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        let mut seen = self.seen.lock().unwrap();
        seen.parser.screen_mut().set_size(rows, columns);
        set_size(&self.keyboard, columns, rows);
        drop(seen);
        self.signal("WINCH");
    }

    /// Sends a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        let done = Command::new("sh").args(["-c", &kill]).status().unwrap();
        assert!(done.success(), "{kill}");
    }

    /// Takes the terminal away, as when its window is closed. Presses `key` for the last time, to
    /// which the program has to answer on the screen.
    pub(crate) fn hang_up(&mut self, key: &str) {
        self.gone.store(true, Ordering::Relaxed);
        self.press(key);
        await_condition("the screen is no longer looked at", || {
            self.reader.is_finished().then_some(()).ok_or(())
        });
        // The last of our descriptors of it.
        self.keyboard = File::open("/dev/null").unwrap();
    }

    /// Waits for the program's end, and until all that it has written is to be seen.
    #[track_caller]
    pub(crate) fn end(&mut self) -> ExitStatus {
        let status =
            await_condition("the program ends", || self.child.try_wait().unwrap().ok_or(()));
        await_condition("all of it is read", || match self.reader.is_finished() {
            true => Ok(()),
            false => Err(()),
        });
        status
    }
}

fn set_size(terminal: impl std::os::fd::AsFd, columns: u16, rows: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).unwrap();
}
