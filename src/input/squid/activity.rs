//! What Squid does for a request: up to seven activities, several of them at a time.

use crate::input::record::counted;

counted! {
    /// An activity, in the order in which the patch of 1997 prints them; `dns` is what later Squids tell beside.
    Activity {
        /// Receiving the request from the client.
        ClientIn = "client_in",
        /// Sending the answer to the client.
        ClientOut = "client_out",
        /// Connecting to the server and sending it the request.
        ServerOut = "server_out",
        /// Receiving the answer from the server.
        ServerIn = "server_in",
        /// Reading the object from disk.
        DiskIn = "disk_in",
        /// Writing the object to disk.
        DiskOut = "disk_out",
        /// Waiting for names to be looked up.
        Dns = "dns",
    }
}

impl Activity {
    /// Whether it is one of the two that may have been done for an earlier request.
    #[must_use]
    pub const fn is_disk(self) -> bool {
        matches!(self, Self::DiskIn | Self::DiskOut)
    }
}

/// How far an activity got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It has ended, its total is known.
    Done,
    /// It has begun, and had not ended when the line was written.
    Unfinished,
    /// Squid says nothing of it: it did not apply, or was not measured.
    Unknown,
}

/// What is known of one activity of a request. What is not known is `None`, never 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Measure {
    /// When it began, microseconds after the request did.
    pub start_us: Option<u64>,
    /// From then to its first bytes, microseconds.
    pub first_delay_us: Option<u64>,
    /// From its start to its end, microseconds.
    pub total_us: Option<u64>,
    /// For how long the object was in memory when the request came, milliseconds: then the activity was work for an earlier
    /// request, and its times are no part of this one.
    pub resident_ms: Option<u64>,
}

impl Measure {
    /// How far it got.
    #[must_use]
    pub const fn state(&self) -> State {
        match (self.start_us, self.total_us) {
            (_, Some(_)) => State::Done,
            (Some(_), None) => State::Unfinished,
            (None, None) => State::Unknown,
        }
    }

    /// What it took of this request, microseconds; `None`: nothing, or nobody knows.
    #[must_use]
    pub const fn spent_us(&self) -> Option<u64> {
        match self.resident_ms {
            Some(_) => None,
            None => self.total_us,
        }
    }
}

/// By `Activity as usize`.
pub type Measures = [Measure; Activity::COUNT];
