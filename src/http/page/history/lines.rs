//! Lines of charts from both history and memory: in finer steps, and one after the other.

use crate::query::answer::PastLines;
use crate::series::Lines;

impl Lines {
    /// Without the step that is not over at `now`: its rate over the seconds so far would be taken
    /// back.
    pub(super) fn finished(mut self, now: u64) -> Self {
        let steps = now.saturating_sub(self.from) / self.step.max(1);
        self.points.iter_mut().for_each(|points| points.truncate(steps as usize));
        self
    }

    /// The same in finer steps, if they divide its own, by repeating points. Where counting began
    /// or ended within a step, of which `covered_secs` were counted, only as far as it went.
    pub(super) fn refined(self, step: u64, covered_secs: &[u64]) -> Self {
        let times = self.step.checked_div(step).unwrap_or(0);
        if times < 2 || !self.step.is_multiple_of(step) {
            return self;
        }
        let is_counted = |at: usize| covered_secs.get(at).is_none_or(|secs| *secs > 0);
        let part_of = |at: usize| {
            let secs = covered_secs.get(at).map_or(self.step, |secs| (*secs).max(1));
            let part = secs.div_ceil(step).min(times);
            match (at > 0 && is_counted(at - 1), is_counted(at + 1)) {
                (true, true) => 0..times,
                (false, true) => times - part..times,
                (_, false) => 0..part,
            }
        };
        let refined = |points: Vec<Option<f64>>| {
            let fine = |(at, point): (usize, Option<f64>)| {
                let part = part_of(at);
                (0..times).map(move |fine| point.filter(|_| part.contains(&fine)))
            };
            points.into_iter().enumerate().flat_map(fine).collect()
        };
        Self { from: self.from, step, points: self.points.into_iter().map(refined).collect() }
    }

    /// Prepends points of history, which end with the minute in which these begin and of which they
    /// cover `secs` seconds; `None` if their step does not divide those of history.
    pub(super) fn preceded_by(self, earlier: PastLines, secs: u64) -> Option<Self> {
        let PastLines { lines, covered_secs, .. } = earlier;
        let end = lines.from + lines.points.first().map_or(0, Vec::len) as u64 * lines.step;
        // Another process counted in that minute too. The newest second may be on its way.
        let is_shared = covered_secs.last().is_some_and(|covered| *covered > secs + 1);
        let begin = if is_shared { self.from.max(end) } else { self.from };
        let mut all = lines.refined(self.step, &covered_secs);
        let steps = |from: u64| (begin.saturating_sub(from) / self.step.max(1)) as usize;
        let (kept, skipped) = (steps(all.from), steps(self.from));
        for (points, more) in all.points.iter_mut().zip(self.points) {
            points.resize(kept, None);
            points.extend(more.into_iter().skip(skipped));
        }
        (all.step == self.step).then_some(all)
    }

    /// The middle of the first point's span, where it is drawn.
    pub(super) fn middle(&self) -> f64 {
        self.from as f64 + self.step as f64 / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_before_has_the_points_of_its_span() {
        let read = |from, step, points: &[Option<f64>]| Lines {
            from,
            step,
            points: vec![points.to_vec()],
        };
        // Minutes of history in a span drawn by the half minute.
        let minutes = read(60, 60, &[Some(1.0), None, Some(3.0)]);
        let fine = minutes.refined(30, &[]);
        let points = [Some(1.0), Some(1.0), None, None, Some(3.0), Some(3.0)];
        assert_eq!((fine.from, fine.step), (60, 30));
        assert_eq!(fine.points, [points]);
        // From the start of the last hour on, its points; of the minute in which it begins only if
        // nobody else counted in it.
        let both = |from, points: &[Option<f64>], secs, covered: [u64; 3]| {
            let earlier = PastLines {
                lines: read(60, 60, &[Some(1.0), None, Some(3.0)]),
                covered_secs: covered.into(),
                resolution_seconds: 60,
                partial: Vec::new(),
            };
            let both = read(from, 30, points).preceded_by(earlier, secs).unwrap();
            assert_eq!((both.from, both.step), (60, 30));
            both.points.concat()
        };
        let new = [Some(7.0), Some(8.0), Some(9.0)];
        assert_eq!(both(210, &new, 20, [60, 0, 20]), [&points[..4], &[None], &new].concat());
        assert_eq!(both(210, &new, 20, [60, 0, 50]), [&points[..], &new[1..]].concat());
        assert_eq!(both(240, &new, 0, [60, 0, 60]), [&points[..], &new].concat());
        // Steps that do not divide a minute stay as they are.
        let minutes = read(60, 60, &[Some(1.0)]);
        assert_eq!(minutes.refined(45, &[]).points, [[Some(1.0)]]);
        // Where counting began or ended within a minute, as far as it went.
        let minutes = read(60, 60, &[Some(1.0), Some(2.0), None, Some(3.0), Some(4.0)]);
        let parts = minutes.refined(20, &[60, 25, 0, 5, 45]).points[0].clone();
        let [one, two, three, four] = [1.0, 2.0, 3.0, 4.0].map(Some);
        let expected = [[one; 3], [two, two, None], [None; 3], [None, None, three], [four; 3]];
        assert_eq!(parts, expected.concat());
    }
}
