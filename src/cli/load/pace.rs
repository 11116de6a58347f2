//! The schedule of a sender: precise on average, never bursting far above its rate.
//!
//! Packet number k (from 0) is due at k/rate. Packets leave in slots of half a millisecond, so that
//! a fast sender does not wake for each of them and a receiver never meets more than two slots at
//! once. A sender that was kept from running catches up at no more than twice the rate, and counts
//! late packets. No I/O and no clock in here: `run` passes the time in.

use std::time::Duration;

use super::sender::BATCH_PACKETS_MAX;

/// Length of a slot, whose packets leave together. Sleeps end some 60 us too late, so shorter slots
/// could not be kept; longer ones would fill an ordinary receive buffer (some 270 small packets) at
/// rates that a receiver can keep up with.
const SLOT: Duration = Duration::from_micros(500);
/// A packet that leaves this long after it was due counts as late.
pub(super) const LATE: Duration = Duration::from_millis(10);
/// How long after the end of a run packets that are still due may leave, so that a sleep that took
/// too long costs none.
const GRACE: Duration = Duration::from_millis(50);

/// The schedule of one sender.
#[derive(Debug)]
pub(super) struct Pace {
    /// Packets a second; 0 for no schedule.
    rate: f64,
    /// Packets in a slot.
    slot: u64,
    /// Packets to send in all.
    planned: u64,
    /// No packet leaves after this time, measured from the start.
    end: Duration,
    /// Packets sent so far.
    pub(super) packets_sent: u64,
    /// Packets sent more than [`LATE`] after they were due.
    pub(super) packets_late: u64,
    /// Packets left in the current slot.
    leaving: u64,
    /// Limit on catching up.
    not_before: Duration,
}

/// The next step of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Send up to this many, then report how many were [`sent`](Pace::sent).
    Send(usize),
    /// Sleep this long, then ask again.
    Wait(Duration),
    /// All packets are sent, or the time is over.
    Done,
}

impl Pace {
    /// Schedules `rate` packets a second (0: as fast as possible) until `planned` were sent or
    /// `duration` is over.
    pub(super) fn new(rate: f64, planned: u64, duration: Option<Duration>) -> Self {
        let grace = if rate > 0.0 { GRACE } else { Duration::ZERO };
        let slot = (rate * SLOT.as_secs_f64()).max(1.0) as u64;
        Self {
            rate,
            slot,
            planned,
            end: duration.map_or(Duration::MAX, |duration| duration.saturating_add(grace)),
            packets_sent: 0,
            packets_late: 0,
            leaving: 0,
            not_before: Duration::ZERO,
        }
    }

    /// Returns the next step at `now`, measured from the start.
    pub(super) fn next(&mut self, now: Duration) -> Step {
        const BATCH: u64 = BATCH_PACKETS_MAX as u64;
        let left = self.planned - self.packets_sent;
        if left == 0 || now >= self.end {
            return Step::Done;
        }
        if self.rate == 0.0 {
            return Step::Send(left.min(BATCH) as usize);
        }
        if self.leaving == 0 {
            // A slot leaves when its last packet is due.
            let slot_due =
                self.due_at(self.packets_sent + left.min(self.slot) - 1).max(self.not_before);
            if now < slot_due {
                return Step::Wait(slot_due - now);
            }
            let due = (now.as_secs_f64() * self.rate) as u64 + 1;
            self.leaving = due.saturating_sub(self.packets_sent).clamp(1, 2 * self.slot).min(left);
            self.not_before =
                now + Duration::from_secs_f64(self.leaving as f64 / (2.0 * self.rate));
        }
        Step::Send(self.leaving.min(BATCH) as usize)
    }

    /// Records that `packets` packets left at `now`.
    pub(super) fn sent(&mut self, packets: usize, now: Duration) {
        let packets = packets as u64;
        if self.rate > 0.0 && now > self.due_at(self.packets_sent) + SLOT + LATE {
            self.packets_late += packets;
        }
        self.leaving = self.leaving.saturating_sub(packets);
        self.packets_sent += packets;
    }

    fn due_at(&self, packet: u64) -> Duration {
        // A rate of one in a million years is as good as never.
        Duration::try_from_secs_f64(packet as f64 / self.rate).unwrap_or(Duration::MAX / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a schedule on a clock moved by hand, with sleeps that take `oversleep` too long.
    /// Returns times and numbers of packets sent.
    fn run(pace: &mut Pace, oversleep: Duration) -> Vec<(Duration, usize)> {
        let (mut now, mut sends) = (Duration::ZERO, Vec::new());
        loop {
            match pace.next(now) {
                Step::Send(packets) => {
                    pace.sent(packets, now);
                    sends.push((now, packets));
                    now += Duration::from_micros(20);
                }
                Step::Wait(time) => now += time + oversleep,
                Step::Done => return sends,
            }
        }
    }

    #[test]
    fn exactly_the_planned_packets_leave_in_time() {
        for rate in [1.0, 7.5, 999.0, 1000.0, 12_345.0, 64_000.0, 100_000.0, 300_000.0] {
            let planned = (rate * 2.0) as u64;
            let mut pace = Pace::new(rate, planned, Some(Duration::from_secs(2)));
            let sends = run(&mut pace, Duration::from_micros(60));
            assert_eq!(pace.packets_sent, planned, "at {rate}");
            assert_eq!(pace.packets_late, 0, "at {rate}");
            // At any time as many packets were sent as were due, give or take two slots.
            let mut sent = 0;
            for (at, packets) in sends {
                sent += packets;
                let due = at.as_secs_f64() * rate + 1.0;
                assert!(sent as f64 <= due + 1e-6, "at {rate}, {at:?}: {sent} of {due}");
                assert!(sent as f64 >= due - 2.0 * pace.slot as f64 - 1.0, "at {rate}, {at:?}");
            }
        }
    }

    #[test]
    fn slots_are_half_a_millisecond_and_leave_in_batches() {
        for (rate, slot) in [(10.0, 1), (1000.0, 1), (10_000.0, 5), (100_000.0, 50), (1e6, 500)] {
            let mut pace = Pace::new(rate, 10_000, None);
            assert_eq!(pace.slot, slot);
            let sends = run(&mut pace, Duration::ZERO);
            assert!(sends.iter().all(|(_, packets)| *packets <= BATCH_PACKETS_MAX));
        }
    }

    #[test]
    fn a_slow_schedule_sleeps_until_the_next_packet() {
        let mut pace = Pace::new(2.0, 10, None);
        assert_eq!(pace.next(Duration::ZERO), Step::Send(1));
        pace.sent(1, Duration::ZERO);
        assert_eq!(pace.next(Duration::from_millis(100)), Step::Wait(Duration::from_millis(400)));
    }

    #[test]
    fn catching_up_takes_no_more_than_twice_the_rate() {
        let mut pace = Pace::new(10_000.0, 100_000, None);
        let mut now = Duration::from_secs(1);
        let mut sent = 0;
        while now < Duration::from_millis(1100) {
            match pace.next(now) {
                Step::Send(packets) => {
                    assert!(packets <= 10);
                    pace.sent(packets, now);
                    sent += packets;
                }
                Step::Wait(time) => now += time,
                Step::Done => panic!("there is more to send"),
            }
        }
        assert!((1980..=2020).contains(&sent), "{sent} in 100 ms");
        assert_eq!(pace.packets_late, sent as u64);
    }

    #[test]
    fn time_ends_a_run_that_cannot_keep_up() {
        let mut pace = Pace::new(1000.0, 1000, Some(Duration::from_secs(1)));
        assert_eq!(pace.next(Duration::from_millis(1020)), Step::Send(2), "within the grace");
        pace.sent(2, Duration::from_millis(1020));
        assert_eq!(pace.next(Duration::from_millis(1050)), Step::Done);
        let mut fast = Pace::new(0.0, u64::MAX, Some(Duration::from_secs(1)));
        assert_eq!(fast.next(Duration::from_millis(999)), Step::Send(BATCH_PACKETS_MAX));
        assert_eq!(fast.next(Duration::from_secs(1)), Step::Done);
    }
}
