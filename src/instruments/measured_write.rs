//! A writer whose writes are events.

use std::io::{self, Write};

use super::registry::Instrument;

/// A writer that measures each write as a wait.
#[derive(Debug)]
pub struct MeasuredWrite<W> {
    /// Underlying writer.
    pub to: W,
    wait: &'static Instrument,
}

impl<W> MeasuredWrite<W> {
    /// Measures writes to `to` as `wait`.
    pub(crate) fn new(to: W, wait: &'static Instrument) -> Self {
        Self { to, wait }
    }
}

impl<W: Write> Write for MeasuredWrite<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut waiting = self.wait.begin();
        let written = self.to.write(bytes)?;
        waiting.bytes(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
