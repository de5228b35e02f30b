//! The back-off of restarts and image pulls, in kubelet's own arithmetic: the first retry is at once, then 10 s, doubling to
//! 300 s, and forgotten when all went well for 10 minutes.
use jiff::{SignedDuration, Timestamp};

const FIRST: SignedDuration = SignedDuration::from_secs(10);
const LONGEST: SignedDuration = SignedDuration::from_secs(300);
/// Twice the longest delay, as kubelet has it.
const FORGOTTEN_AFTER: SignedDuration = SignedDuration::from_secs(600);

/// The delay that was last imposed, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackOff {
    entry: Option<(SignedDuration, Timestamp)>,
}

impl BackOff {
    /// The moment before which nothing may be tried, when the last failure was at `failed_at`; `None` when it may be now.
    pub fn not_before(&self, failed_at: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let (delay, _) = self.live_entry(failed_at)?;
        Some(failed_at + delay).filter(|until| *until > now)
    }

    /// The delay now in force.
    pub fn delay(&self) -> SignedDuration {
        self.entry.map_or(SignedDuration::ZERO, |(delay, _)| delay)
    }

    /// Notes that it is tried again now, after the failure at `failed_at`: the next delay is longer.
    pub fn advance(&mut self, failed_at: Timestamp, now: Timestamp) {
        let delay = self.live_entry(failed_at).map_or(FIRST, |(delay, _)| (delay * 2).min(LONGEST));
        self.entry = Some((delay, now));
    }

    fn live_entry(&self, failed_at: Timestamp) -> Option<(SignedDuration, Timestamp)> {
        self.entry.filter(|(_, tried)| failed_at.duration_since(*tried) <= FORGOTTEN_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_are_delayed_by_0_10_20_40_80_160_300_300() {
        let (mut back_off, mut now, mut delays) = (BackOff::default(), Timestamp::UNIX_EPOCH, Vec::new());
        for _ in 0..8 {
            let failed_at = now + SignedDuration::from_secs(1);
            let start = back_off.not_before(failed_at, failed_at).unwrap_or(failed_at);
            delays.push(start.duration_since(failed_at).as_secs());
            back_off.advance(failed_at, start);
            now = start;
        }
        assert_eq!(delays, [0, 10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn ten_good_minutes_forgive() {
        let (mut back_off, start) = (BackOff::default(), Timestamp::UNIX_EPOCH);
        back_off.advance(start, start);
        back_off.advance(start, start);
        let late = start + SignedDuration::from_secs(601);
        assert_eq!(back_off.not_before(late, late), None);
        back_off.advance(late, late);
        assert_eq!(back_off.delay(), FIRST);
    }
}
