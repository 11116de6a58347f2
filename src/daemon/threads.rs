//! The daemon's own threads: started here, joined here, and none of them dies alone.
//!
//! A receiver that is gone leaves a socket that still takes its senders' packets; a merger that is gone leaves reports half
//! counted, for the next snapshot to write over a good one. Nothing of that mends itself, so a panic on any of these
//! threads ends the process at once ([`Vital`]): a supervisor starts it anew from the last snapshot, which the panic did not
//! touch. What clients ask for runs in tasks of its own, where a panic ends that answer and no more.

use std::thread::JoinHandle;

use super::StartError;

/// Held by what the daemon cannot be without: a panic there ends the process.
pub(super) struct Vital(pub(super) String);

impl Drop for Vital {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // What went wrong and where stands on stderr.
            tracing::error!(
                thread = self.0,
                "A thread panicked, which is a defect of pinbad: the process ends, so that it can be started anew."
            );
            std::process::abort();
        }
    }
}

/// Starts a thread of this name.
///
/// # Errors
/// When the system gives none.
pub(super) fn spawn(
    name: &str,
    what: &'static str,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StartError> {
    let vital = Vital(name.to_owned());
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread
        .spawn(move || {
            let _vital = vital;
            run();
        })
        .map_err(|source| StartError::Thread { what, source })
}

/// Waits for the end of a thread that was told to stop.
pub(super) fn join(thread: JoinHandle<()>) {
    // One that panics takes this one with it.
    let _ended = thread.join();
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    /// In a process of its own, which is this test once more.
    #[test]
    fn a_thread_that_panics_ends_the_process() {
        const ASKED: &str = "A_THREAD_IS_TO_PANIC";
        if let Some(panics) = std::env::var_os(ASKED) {
            let panics = panics == "yes";
            let run = move || assert!(!panics, "a defect");
            join(spawn("receive-7", "a thread", run).unwrap());
            return;
        }
        let name = "daemon::threads::tests::a_thread_that_panics_ends_the_process";
        for (panics, signal) in [("no", None), ("yes", Some(6))] {
            let mut again = Command::new(std::env::current_exe().unwrap());
            again
                .args([name, "--exact", "--nocapture"])
                .env(ASKED, panics);
            let said = again.output().unwrap();
            assert_eq!(said.status.signal(), signal, "{said:?}");
            assert_eq!(said.status.success(), panics == "no", "{said:?}");
            let err = String::from_utf8_lossy(&said.stderr);
            let told = err.contains("'receive-7'") && err.contains("a defect");
            assert_eq!(told, panics == "yes", "{err}");
        }
    }
}
