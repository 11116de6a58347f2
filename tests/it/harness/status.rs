//! The answer of `/api/v1/status`, and that it adds up.

use std::fmt::Debug;

use serde_json::Value as Json;

/// The object of `/api/v1/status`.
#[derive(Clone)]
pub(crate) struct Status(pub(crate) Json);

impl Debug for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl Status {
    /// A counter; of one that is an object by reason, the sum.
    #[track_caller]
    pub(crate) fn count(&self, name: &str) -> u64 {
        sum(&self.0[name]).unwrap_or_else(|| panic!("{name} in {self:?}"))
    }

    /// One reason of a counter.
    #[track_caller]
    pub(crate) fn reason(&self, name: &str, reason: &str) -> u64 {
        let count = self.0[name][reason].as_u64();
        count.unwrap_or_else(|| panic!("{name}.{reason} in {self:?}"))
    }

    /// The sockets, each as a status of its own.
    pub(crate) fn sockets(&self) -> Vec<Self> {
        let sockets = self.0["sockets"].as_array().unwrap();
        sockets.iter().cloned().map(Self).collect()
    }

    /// Counters that sockets have too: the name, the sum over the sockets, and the total.
    pub(crate) fn sums_of_sockets(&self) -> Vec<(&'static str, u64, u64)> {
        let sockets = self.sockets();
        let names = "datagrams_received datagrams_accepted datagrams_invalid requests_decoded \
                     requests_invalid requests_overwritten kernel_drops";
        let sums = names.split(' ').map(|name| {
            let sum = sockets.iter().map(|socket| socket.count(name)).sum();
            (name, sum, self.count(name))
        });
        sums.collect()
    }

    /// Asserts the two identities, for all and for each socket, and that the sockets add up.
    #[track_caller]
    pub(crate) fn assert_accounted(&self) {
        assert_eq!(
            self.count("datagrams_received"),
            self.count("datagrams_accepted") + self.count("datagrams_invalid"),
            "{self:?}"
        );
        assert_eq!(
            self.count("requests_decoded"),
            self.count("requests_merged")
                + self.count("requests_overwritten")
                + self.count("requests_invalid"),
            "{self:?}"
        );
        assert_eq!(
            self.count("requests_invalid"),
            self.count("requests_invalid_by_reason"),
            "{self:?}"
        );
        let sockets = self.sockets();
        for socket in &sockets {
            assert_eq!(
                socket.count("datagrams_received"),
                socket.count("datagrams_accepted") + socket.count("datagrams_invalid"),
                "{socket:?}"
            );
        }
        for (name, sum, total) in self.sums_of_sockets() {
            assert_eq!(sum, total, "{name}: {self:?}");
        }
        // What Pinba calls these.
        assert_eq!(self.count("lost_tmp_records"), self.count("requests_overwritten"));
        assert_eq!(self.count("invalid_packets"), self.count("datagrams_invalid"));
    }
}

fn sum(counter: &Json) -> Option<u64> {
    match counter {
        Json::Object(reasons) => reasons.values().map(Json::as_u64).sum(),
        other => other.as_u64(),
    }
}
