//! Divides memory among rows when there is too little of it: sums of the heaviest rows first, and
//! in the rest the histograms of the heaviest of these.

use std::cmp::Reverse;

/// Weight of a row; the second number breaks ties.
pub(crate) type Weight = (u64, u64);

/// A row's weight, its bytes without the histogram, and those of the histogram.
pub(crate) type Heft = (Weight, u32, u32);

/// Returns the weight of the heaviest row that finds no room, and of the heaviest whose histogram
/// finds none. `for_sums` is the part of the room that sums may take.
pub(crate) fn divide(mut rows: Vec<Heft>, room: usize, for_sums: usize) -> [Option<Weight>; 2] {
    rows.sort_unstable_by_key(|row| Reverse(row.0));
    let stay = fitting(rows.iter().map(|row| row.1), for_sums);
    let sums: usize = rows[..stay].iter().map(|row| row.1 as usize).sum();
    let full = fitting(rows[..stay].iter().map(|row| row.2), room.saturating_sub(sums));
    [stay, full].map(|at| rows.get(at).map(|row| row.0))
}

/// How many of these fit, one after the other.
fn fitting(sizes: impl Iterator<Item = u32>, mut room: usize) -> usize {
    let fits = sizes.take_while(|&size| {
        let rest = room.checked_sub(size as usize);
        room = rest.unwrap_or_default();
        rest.is_some()
    });
    fits.count()
}
