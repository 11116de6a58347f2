//! The daemon's own threads: started and joined here; none of them dies alone.
//!
//! A dead receiver leaves a socket that still takes its senders' packets; a dead merger leaves
//! reports half counted, for the next snapshot to write over a good one. Neither repairs itself, so
//! a panic on any of these threads ends the process at once ([`Vital`]): a supervisor restarts it
//! from the last snapshot, which the panic did not touch. Client requests run in tasks of their
//! own, where a panic ends only that answer.

use std::thread::JoinHandle;

use super::error::StartError;
use crate::instruments::thread::appear;
use crate::shutdown::Shutdown;

/// Held by threads and tasks that the daemon cannot do without: a panic there ends the process.
pub(super) struct Vital(pub(super) String);

impl Drop for Vital {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The panic message is on stderr already.
            tracing::error!(
                thread = self.0,
                "A thread panicked, which is a defect of pinbad: the process ends, so that it can be restarted."
            );
            std::process::abort();
        }
    }
}

/// A thread with the flag that stops it. Dropping it stops it.
#[derive(Debug)]
pub(super) struct Worker {
    stop: Shutdown,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a thread of this name; errors call it `what`.
    ///
    /// # Errors
    /// Fails if the system cannot create it.
    pub(super) fn start(
        name: &str,
        what: &'static str,
        run: impl FnOnce(&Shutdown) + Send + 'static,
    ) -> Result<Self, StartError> {
        let (vital, stop) = (Vital(name.to_owned()), Shutdown::new());
        let requested = stop.clone();
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || {
            let _vital = vital;
            appear();
            run(&requested);
        });
        let thread = thread.map_err(|source| StartError::Thread { what, source })?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Starts a thread with a lower priority: receivers and the merger go first. On Linux it
    /// applies to the thread only.
    pub(super) fn start_nice(
        name: &str,
        what: &'static str,
        niceness: i32,
        run: impl FnOnce(&Shutdown) + Send + 'static,
    ) -> Result<Self, StartError> {
        Self::start(name, what, move |stop| {
            if let Err(error) = rustix::process::setpriority_process(None, niceness) {
                tracing::warn!(%error, "Could not lower the priority of {what}.");
            }
            run(stop);
        })
    }

    /// Requests a stop.
    pub(super) fn request_stop(&self) {
        self.stop.request();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.request();
        if let Some(thread) = self.thread.take() {
            // A panic on it has already ended the process.
            let _ended = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    /// Runs in its own process, which is this test once more.
    #[test]
    fn a_thread_that_panics_ends_the_process() {
        const ASKED: &str = "A_THREAD_IS_TO_PANIC";
        if let Some(panics) = std::env::var_os(ASKED) {
            let panics = panics == "yes";
            let run = move |_: &Shutdown| assert!(!panics, "a defect");
            drop(Worker::start("receive-7", "a thread", run).unwrap());
            return;
        }
        let name = "daemon::threads::tests::a_thread_that_panics_ends_the_process";
        for (panics, signal) in [("no", None), ("yes", Some(6))] {
            let mut again = Command::new(std::env::current_exe().unwrap());
            again.args([name, "--exact", "--nocapture"]).env(ASKED, panics);
            let said = again.output().unwrap();
            assert_eq!(said.status.signal(), signal, "{said:?}");
            assert_eq!(said.status.success(), panics == "no", "{said:?}");
            let err = String::from_utf8_lossy(&said.stderr);
            let told = err.contains("'receive-7'") && err.contains("a defect");
            assert_eq!(told, panics == "yes", "{err}");
        }
    }
}
