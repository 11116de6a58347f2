//! The activities of Squid during a request: up to seven, several of them at a time.

use zerocopy::little_endian::I64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::input::record::counted;

counted! {
    /// An activity, in the order in which the patch of 1997 prints them; later Squids add `dns`.
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
        /// Waiting for name look-ups.
        Dns = "dns",
    }
}

impl Activity {
    /// The resource that it uses.
    pub const fn resource(self) -> Resource {
        match self {
            Self::ClientIn | Self::ClientOut => Resource::Client,
            Self::ServerOut | Self::ServerIn => Resource::Server,
            Self::DiskIn | Self::DiskOut => Resource::Disk,
            Self::Dns => Resource::Dns,
        }
    }

    /// Whether it is one of the two that may have been done for an earlier request.
    pub const fn is_disk(self) -> bool {
        matches!(self, Self::DiskIn | Self::DiskOut)
    }
}

counted! {
    /// Resources used by activities, in alphabetical order.
    Resource {
        /// The network to the client.
        Client = "client",
        /// The disk.
        Disk = "disk",
        /// The name server.
        Dns = "dns",
        /// The network to the server, and the server.
        Server = "server",
    }
}

counted! {
    /// The state of an activity.
    State {
        /// It has ended, its total is known.
        Done = "done",
        /// It has begun, and had not ended when the line was written.
        Unfinished = "unfinished",
        /// Squid logs nothing about it: it did not apply, or was not measured.
        Unknown = "unknown",
    }
}

/// The data on one activity of a request. Unknown values are `None`, never 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Measure {
    /// Its start, in microseconds after that of the request.
    pub start_us: Option<u64>,
    /// From its start to its first bytes, in microseconds.
    pub first_delay_us: Option<u64>,
    /// From its start to its end, in microseconds.
    pub total_us: Option<u64>,
    /// How long the object had been in memory when the request came, in milliseconds: then the
    /// activity was work for an earlier request, and its times are not part of this one.
    pub resident_ms: Option<u64>,
}

impl Measure {
    /// Its state.
    pub const fn state(&self) -> State {
        match (self.start_us, self.total_us) {
            (_, Some(_)) => State::Done,
            (Some(_), None) => State::Unfinished,
            (None, None) => State::Unknown,
        }
    }

    /// From its start to its first bytes, if that is part of this request, in microseconds.
    pub const fn first_byte_us(&self) -> Option<u64> {
        match self.resident_ms {
            Some(_) => None,
            None => self.first_delay_us,
        }
    }

    /// Its time in this request, in microseconds; `None` if it has none, or that is unknown.
    pub const fn spent_us(&self) -> Option<u64> {
        match self.resident_ms {
            Some(_) => None,
            None => self.total_us,
        }
    }
}

/// Indexed by `Activity as usize`.
pub type Measures = [Measure; Activity::COUNT];

/// A measure as stored in records and the pool.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Packed {
    /// `Activity as usize`; [`Activity::COUNT`] stands for a request without known activities.
    activity: u8,
    /// Microseconds; below 0, the milliseconds for which the object was in memory.
    start: I64,
    first_delay: I64,
    total: I64,
}

/// An unknown value.
const UNKNOWN: i64 = i64::MIN;

impl Packed {
    /// Stands for a request without known activities.
    const NOTHING: Self = Self {
        activity: Activity::COUNT as u8,
        start: I64::new(UNKNOWN),
        first_delay: I64::new(UNKNOWN),
        total: I64::new(UNKNOWN),
    };

    /// Encodes the known parts of `measures`, one after the other; at least one entry.
    pub fn all(measures: &Measures) -> impl Iterator<Item = Self> {
        let known = measures.iter().enumerate().filter_map(|(at, it)| {
            let number = |known: Option<u64>| {
                let shown = known.map_or(UNKNOWN, |it| i64::try_from(it).unwrap_or(i64::MAX));
                I64::new(shown)
            };
            let start = match it.resident_ms {
                Some(ms) => I64::new(number(Some(ms)).get().saturating_neg()),
                None => number(it.start_us),
            };
            (*it != Measure::default()).then_some(Self {
                activity: u8::try_from(at).ok()?,
                start,
                first_delay: number(it.first_delay_us),
                total: number(it.total_us),
            })
        });
        let is_nothing = measures.iter().all(|it| *it == Measure::default());
        known.chain(is_nothing.then_some(Self::NOTHING))
    }

    /// Decodes into `measures`.
    pub fn unpack(&self, measures: &mut Measures) {
        if let Some(measure) = measures.get_mut(usize::from(self.activity)) {
            let start = self.start.get();
            let known = |it: I64| u64::try_from(it.get()).ok();
            *measure = Measure {
                start_us: known(self.start),
                first_delay_us: known(self.first_delay),
                total_us: known(self.total),
                resident_ms: (start < 0 && start != UNKNOWN).then(|| start.unsigned_abs()),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let known = Measure {
            start_us: Some(0),
            first_delay_us: None,
            total_us: Some(u64::MAX),
            resident_ms: None,
        };
        let resident = Measure {
            start_us: None,
            first_delay_us: Some(5),
            total_us: Some(5),
            resident_ms: Some(38_024),
        };
        let mut measures = Measures::default();
        assert_eq!(Packed::all(&measures).collect::<Vec<_>>(), [Packed::NOTHING]);
        measures[1] = known;
        measures[5] = resident;
        let packed: Vec<Packed> = Packed::all(&measures).collect();
        assert_eq!(packed.len(), 2);
        let mut unpacked = Measures::default();
        for it in packed.iter().chain([&Packed::NOTHING]) {
            it.unpack(&mut unpacked);
        }
        measures[1].total_us = Some(i64::MAX.unsigned_abs());
        assert_eq!(unpacked, measures);
    }
}
