//! Histograms against a map of counts, under random additions and subtractions.

use std::collections::BTreeMap;

use super::*;

#[test]
fn subtracting_leaves_no_trace() {
    let mut histogram = Histogram::new();
    for (bucket, count) in [(5, 1), (3, 2), (900, 7), (5, 4), (0, 1), (BUCKET_MAX, 3)] {
        histogram.add(bucket, count);
    }
    let pairs: Vec<_> = histogram.iter().collect();
    assert_eq!(pairs, [(0, 1), (3, 2), (5, 5), (900, 7), (BUCKET_MAX, 3)]);
    for (bucket, count) in [(900, 7), (5, 2), (5, 3), (0, 1), (3, 2), (BUCKET_MAX, 3)] {
        histogram.subtract(bucket, count);
    }
    assert_eq!((histogram.len(), histogram.iter().next()), (0, None));
}

#[test]
fn counts_beyond_all_bits_are_kept() {
    let mut histogram = Histogram::new();
    histogram.add(7, COUNT_MAX - 1);
    histogram.add(7, 5);
    histogram.add(8, 1);
    assert!(matches!(histogram, Histogram::Dense(_)));
    histogram.add(7, u64::from(u32::MAX) * 3);
    histogram.add(BUCKET_MAX, COUNT_MAX + 1);
    let most = COUNT_MAX + 4 + u64::from(u32::MAX) * 3;
    let pairs = [(7, most), (8, 1), (BUCKET_MAX, COUNT_MAX + 1)];
    assert_eq!(histogram.iter().collect::<Vec<_>>(), pairs);
    histogram.subtract(7, most);
    histogram.subtract(BUCKET_MAX, COUNT_MAX + 1);
    assert_eq!(histogram.iter().collect::<Vec<_>>(), [(8, 1)]);
}

/// In any shape, it counts like a map.
#[test]
fn counts_like_a_map_in_any_shape() {
    let mut seed = 1u64;
    let mut next = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    let (mut dense, mut sorted, mut wide) = (false, false, false);
    for round in 0..300 {
        let mut histogram = Histogram::new();
        let mut model: BTreeMap<u32, u64> = BTreeMap::new();
        let width = [4, 60, 900, 7_000, u64::from(BUCKET_MAX)][round % 5];
        let counts = [1_000, 1 << 17, 1 << 31][round % 3];
        let mut parts = vec![Histogram::new()];
        for step in 0..600 {
            let bucket = if next(40) == 0 { next(width * 3 + 1) } else { next(width) + width };
            let bucket = bucket.min(u64::from(BUCKET_MAX)) as u32;
            if step > 300 && next(3) > 0 {
                let Some((&bucket, &count)) = model.range(bucket..).next() else {
                    continue;
                };
                let less = next(count) + 1;
                histogram.subtract(bucket, less);
                model.insert(bucket, count - less);
                model.retain(|_, count| *count > 0);
                histogram.tidy();
            } else {
                let count = next(counts) + 1;
                histogram.add(bucket, count);
                match parts.last_mut() {
                    Some(part) if next(1 + width % 50) > 0 => part.add(bucket, 1),
                    _ => parts.push(Histogram::new()),
                }
                *model.entry(bucket).or_default() += count;
            }
            match &histogram {
                Histogram::Sorted(_) => sorted |= step > 100,
                Histogram::Dense(_) => dense = true,
                Histogram::Wide(_) => wide = true,
            }
            assert_eq!(histogram.len(), model.len(), "round {round} step {step}");
        }
        let mut all = Histogram::new();
        for part in parts {
            let (before, most) = (all.heap_bytes(), all.growth_max(&part));
            all.add_all(&part);
            assert!(all.heap_bytes() <= before + most, "round {round}");
        }
        let pairs: Vec<_> = histogram.iter().collect();
        assert_eq!(pairs, model.into_iter().collect::<Vec<_>>(), "round {round}");
        histogram.clear();
        assert_eq!((histogram.len(), histogram.iter().next()), (0, None));
    }
    assert!(dense && sorted && wide, "all shapes were tried");
}
