//! Buckets and quantiles: Pinba's published vectors, pinba2's rules, and the permitted error of
//! log-linear buckets.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::*;

/// A sorted sparse histogram of times in microseconds with weights.
fn histogram(layout: &BucketLayout, samples: &[(u64, u64)]) -> Vec<(u32, u64)> {
    let mut buckets = std::collections::BTreeMap::new();
    for &(us, weight) in samples {
        *buckets.entry(layout.bucket(us)).or_insert(0) += weight;
    }
    buckets.into_iter().collect()
}

fn quantile(layout: &BucketLayout, samples: &[(u64, u64)], rank: Rank) -> f64 {
    let total = samples.iter().map(|(_, weight)| weight).sum();
    layout.quantile(rank, total, histogram(layout, samples))
}

fn down(percent: f64) -> Rank {
    Rank::percent(percent, Rounding::Down).unwrap()
}

fn up(percent: f64) -> Rank {
    Rank::percent(percent, Rounding::Up).unwrap()
}

#[test]
fn linear_buckets_give_the_vectors_of_pinba() {
    let layout = BucketLayout::linear(10, 1024).unwrap();
    let three: Vec<(u64, u64)> = [1_000, 5_000, 25_000].map(|us| (us, 1)).to_vec();
    let hundred: Vec<(u64, u64)> = (1..=100).map(|ms| (ms * 1000, 1)).collect();
    let median = down(50.0);
    for (samples, rank, want) in [
        (&three, median, 0.004_882_812),
        (&three, down(95.0), 0.009_765_625),
        (&three, down(100.0), 0.029_296_875),
        (&vec![(1_000, 1)], median, 0.009_765_625),
        (&vec![(50_000, 2)], median, 0.053_710_938),
        (&vec![(50_000, 2)], down(90.0), 0.053_710_938),
        (&hundred, median, 0.050_781_250),
        (&hundred, down(90.0), 0.090_820_312),
        (&hundred, down(95.0), 0.095_703_125),
        (&hundred, down(99.0), 0.104_166_672),
        (&hundred, down(100.0), 0.107_421_875),
        (&vec![(12_000_000, 1)], down(99.0), 10.0),
        // Pinba puts exactly the maximum into bucket 0; here it is in the last.
        (&vec![(10_000_000, 1)], down(99.0), 10.0),
    ] {
        let got = quantile(&layout, samples, rank);
        assert!((got - want).abs() < 1e-6, "{samples:?} {rank:?}: {got} instead of {want}");
    }
}

#[test]
fn linear_edges_fall_on_the_right_side() {
    let layout = BucketLayout::linear(10, 1024).unwrap();
    for (us, bucket) in [
        (0, 0),
        (9_765, 0),
        (9_766, 1),
        (19_531, 1),
        (19_532, 2),
        (9_990_234, 1022),
        (9_990_235, 1023),
    ] {
        assert_eq!(layout.bucket(us), bucket, "{us} us");
    }
    for us in [9_999_999, 10_000_000, 10_000_001, u64::MAX] {
        assert_eq!(layout.bucket(us), 1023);
    }
}

#[test]
fn nothing_is_zero_and_too_little_is_the_upper_end() {
    let linear = BucketLayout::linear(10, 1024).unwrap();
    assert_eq!(linear.quantile(down(99.0), 0, []), 0.0);
    assert_eq!(linear.quantile(down(99.0), 10, [(0, 1)]), 10.0);
    assert_eq!(BucketLayout::LogLinear.quantile(down(99.0), 0, []), 0.0);
    assert_eq!(BucketLayout::v2(100, 200, 100).unwrap().quantile(up(99.0), 0, []), 0.1);
}

#[test]
fn ranks_are_exact() {
    for (percent, count, floor, ceil) in [
        (99.9, 1000, 999, 999),
        (99.9, 10_000_000, 9_990_000, 9_990_000),
        (99.99, 10_000, 9999, 9999),
        (33.3, 1000, 333, 333),
        (33.3, 1001, 333, 334),
        (50.0, 3, 1, 2),
        (0.000_001, 1, 1, 1),
        (100.0, u64::MAX, u64::MAX, u64::MAX),
        (95.0, 0, 1, 1),
        (16.1, 1000, 161, 161),
    ] {
        assert_eq!(down(percent).target(count), floor, "{percent}% of {count}, down");
        assert_eq!(up(percent).target(count), ceil, "{percent}% of {count}, up");
    }
    for percent in [0.0, -1.0, 100.1, 101.0, f64::NAN, f64::INFINITY, 1e-9] {
        assert_eq!(Rank::percent(percent, Rounding::Down), None, "{percent}");
    }
    // Every tenth of a percent of 1000, compared with the text.
    for tenths in 1..=1000_u64 {
        let percent: f64 = format!("{}.{}", tenths / 10, tenths % 10).parse().unwrap();
        assert_eq!(down(percent).target(1000), tenths);
        assert_eq!(up(percent).target(1000), tenths);
    }
}

#[test]
fn log_linear_buckets_are_seamless() {
    let mut next = 0;
    for bucket in 0..LOG_LINEAR_BUCKETS {
        let (low, end) = BucketLayout::LogLinear.bounds(bucket);
        assert_eq!(low, next, "bucket {bucket} starts where the last one ended");
        assert_eq!(BucketLayout::LogLinear.bucket(low), bucket);
        assert_eq!(BucketLayout::LogLinear.bucket(end - 1), bucket);
        next = end;
    }
    assert_eq!(next, TIME_US_MAX + 1);
    assert_eq!(BucketLayout::LogLinear.bucket(u64::MAX), LOG_LINEAR_BUCKETS - 1);
}

#[test]
fn log_linear_answers_are_within_a_hundredth_of_the_sample() {
    let seed = 0x5eed_0001;
    let mut rng = StdRng::seed_from_u64(seed);
    // Single values, evenly over the octaves up to the longest time.
    for _ in 0..200_000 {
        let us = rng.random_range(0..=TIME_US_MAX) >> rng.random_range(0..51);
        let got = quantile(&BucketLayout::LogLinear, &[(us, 1)], down(50.0)) * 1e6;
        let error = (got - us as f64).abs() / (us as f64).max(1.0);
        assert!(error <= 1.0 / 128.0 + 1e-12, "seed {seed}: {us} us became {got}");
        assert!(us >= 128 || error < 1e-12, "seed {seed}: {us} us is not exact");
    }
}

/// The sample at a rank, and the log-linear and pinba2 results, over several distributions.
#[test]
fn percentiles_are_near_the_sample_at_their_rank() {
    let seed = 0x5eed_0002;
    let mut rng = StdRng::seed_from_u64(seed);
    let v2 = BucketLayout::v2(0, 60_000, 60_000_000).unwrap();
    let shapes: [fn(&mut StdRng) -> u64; 4] = [
        |rng| rng.random_range(0..2_000_000),
        |rng| {
            if rng.random_bool(0.7) { rng.random_range(900..1100) } else { 5_000_000 }
        },
        // Heavy tail, up to hours: the inverse of a uniform, cubed.
        |rng| ((1.0 / rng.random_range(0.001..1.0_f64)).powi(3) * 40.0) as u64,
        |rng| rng.random_range(0..40),
    ];
    for draw in shapes {
        let mut samples: Vec<u64> = (0..5_000).map(|_| draw(&mut rng)).collect();
        samples.sort_unstable();
        let weighted: Vec<(u64, u64)> = samples.iter().map(|us| (*us, 1)).collect();
        for percent in [1.0, 50.0, 90.0, 99.0, 99.9, 100.0] {
            for rank in [down(percent), up(percent)] {
                let place = usize::try_from(rank.target(5_000)).unwrap() - 1;
                let want = samples[place] as f64 / 1e6;
                let got = quantile(&BucketLayout::LogLinear, &weighted, rank);
                assert!(
                    (got - want).abs() <= want / 128.0 + 1e-9,
                    "seed {seed}: {got}, not {want}"
                );
                // One unit of these buckets is a microsecond: they cannot distinguish less.
                let got = quantile(&v2, &weighted, rank);
                let want = want.min(60.0);
                assert!(
                    (got - want).abs() <= want / 128.0 + 1.1e-6,
                    "seed {seed}: {got}, not {want}"
                );
            }
        }
    }
}

#[test]
fn many_ranks_in_one_walk_come_in_column_order() {
    let samples: Vec<(u64, u64)> = (1..=1000).map(|us| (us * 1000, 1)).collect();
    for layout in [
        BucketLayout::LogLinear,
        BucketLayout::linear(10, 1024).unwrap(),
        BucketLayout::v2(0, 1000, 1000).unwrap(),
    ] {
        let ranks = [99.9, 5.0, 100.0, 50.0, 50.5].map(up).to_vec();
        let mut out = vec![-1.0];
        layout.quantiles(&ranks, 1000, histogram(&layout, &samples), &mut out);
        let alone: Vec<f64> = ranks.iter().map(|rank| quantile(&layout, &samples, *rank)).collect();
        assert_eq!(out[0], -1.0, "what was there stays");
        assert_eq!(out[1..], alone, "{layout}");
        assert!(out[2] < out[4] && out[4] < out[5] && out[5] < out[1] && out[1] <= out[3]);
    }
}

#[test]
fn ranks_of_both_roundings_mean_the_same_sample_as_alone() {
    let samples: Vec<(u64, u64)> = [1, 2, 4, 8, 256].map(|ms| (ms * 1000, 1)).to_vec();
    let ranks = vec![down(50.0), down(95.0), up(94.0), up(50.0), down(96.0)];
    let mut out = Vec::new();
    let pairs = histogram(&BucketLayout::LogLinear, &samples);
    BucketLayout::LogLinear.quantiles(&ranks, 5, pairs, &mut out);
    let alone = ranks.iter();
    let alone: Vec<f64> =
        alone.map(|rank| quantile(&BucketLayout::LogLinear, &samples, *rank)).collect();
    assert_eq!(out, alone);
    assert!(out[2] > out[1], "94 % up is a later sample than 95 % down: {out:?}");
}

#[test]
fn quantiles_stay_within_what_the_longest_reaches_and_are_the_time_of_equal_ones() {
    let layouts = [
        BucketLayout::LogLinear,
        BucketLayout::linear(10, 1024).unwrap(),
        BucketLayout::v2(0, 60_000, 32_768).unwrap(),
    ];
    let mut dice = crate::dice::Dice(1);
    let mut next = |below: u64| dice.below(below);
    for layout in layouts {
        for round in 0..2_000 {
            let count = 1 + next(if round % 2 == 0 { 4 } else { 200 });
            let most = 10_u64.pow(1 + next(8) as u32);
            let samples: Vec<(u64, u64)> = (0..count).map(|_| (next(most), 1 + next(3))).collect();
            let sum = samples.iter().map(|(us, count)| u128::from(us * count)).sum();
            let longest = samples.iter().map(|it| it.0).max().unwrap();
            let pairs = histogram(&layout, &samples);
            let ends = |bucket| layout.ends(bucket);
            let (least, most) = BucketLayout::bounds_of(sum, pairs, ends).unwrap();
            let [least, most] = [least, most].map(|secs| (secs * 1e6).round() as u64);
            let (low, _) = layout.ends(layout.bucket(longest));
            assert!((low..=longest).contains(&most), "{layout}: {most}, longest {longest}");
            assert!(least <= most, "{layout}: {least} {most}");
            if samples.len() == 1 && longest < 10_000_000 {
                assert_eq!([least, most], [longest; 2], "{layout}: of one time it is that time");
            }
        }
        let nothing = BucketLayout::bounds_of(7, [], |bucket| layout.ends(bucket));
        assert_eq!(nothing, None);
    }
}

#[test]
fn v2_units_round_up_and_are_counted_from_zero() {
    let layout = BucketLayout::v2(100, 1100, 100).unwrap();
    // Width 10 ms; below unit 10 is "min", above unit 110 is "max".
    for (us, bucket) in [
        (0, V2_MIN),
        (90_000, V2_MIN),
        (90_001, 10),
        (100_000, 10),
        (100_001, 11),
        (1_100_000, 110),
        (1_100_001, V2_MAX),
        (u64::MAX, V2_MAX),
    ] {
        assert_eq!(layout.bucket(us), bucket, "{us} us");
    }
    let fine = BucketLayout::v2(0, 1000, 1000).unwrap();
    for (ms, unit) in [
        (255, 255),
        (256, 256),
        (257, 256),
        (258, 258),
        (511, 510),
        (512, 512),
        (515, 512),
        (516, 516),
        (1000, 1000),
    ] {
        let (lowest, _) = octave_bounds(fine.bucket(ms * 1000), V2_BITS);
        assert_eq!(lowest, unit, "{ms} ms");
    }
}

#[test]
fn v2_percentiles_do_not_add_the_minimum_again() {
    let layout = BucketLayout::v2(100, 1100, 100).unwrap();
    // Two items in (190, 200] ms, one below, one above.
    let samples = [(1, 1), (195_000, 2), (5_000_000, 1)];
    for (percent, want) in [(25.0, 0.1), (50.0, 0.195), (75.0, 0.2), (76.0, 1.1), (100.0, 1.1)] {
        let got = quantile(&layout, &samples, up(percent));
        assert!((got - want).abs() < 1e-9, "p{percent}: {got} instead of {want}");
    }
    // p100 is the upper edge of the highest bucket in use if nothing is above the range.
    let got = quantile(&layout, &[(195_000, 2)], up(100.0));
    assert!((got - 0.2).abs() < 1e-9, "{got}");
}

#[test]
fn v2_text_has_its_sentinels_last() {
    let BucketLayout::V2(buckets) = BucketLayout::v2(100, 1100, 100).unwrap() else { panic!() };
    let layout = BucketLayout::V2(buckets);
    let rows = histogram(&layout, &[(1, 4), (95_000, 1), (195_000, 2), (5_000_000, 3)]);
    assert_eq!(buckets.text(&rows, ":"), "hv=100:1100:100;values=[10:1, 20:2, min:4, max:3]");
    assert_eq!(buckets.text(&rows[..1], ":"), "hv=100:1100:100;values=[min:4]");
    assert_eq!(buckets.text(&rows[1..3], ": "), "hv=100:1100:100;values=[10: 1, 20: 2]");
    assert_eq!(buckets.text(&[], ":"), "hv=100:1100:100;values=[]");
}

#[test]
fn layouts_that_cannot_be_are_refused() {
    for (layout, problem) in [
        (BucketLayout::linear(0, 1024), "the longest time"),
        (BucketLayout::linear(u64::MAX, 1024), "the longest time"),
        (BucketLayout::linear(10, 0), "the number of buckets"),
        (BucketLayout::linear(10, LINEAR_SIZE_MAX + 1), "8192"),
        (BucketLayout::v2(5, 5, 10), "greater than the minimum"),
        (BucketLayout::v2(0, 5, 0), "the number of buckets"),
        (BucketLayout::v2(0, 5, V2_BUCKETS_MAX + 1), "100000000"),
        // No width, one bucket, maximum below twice the minimum.
        (BucketLayout::v2(0, 1, V2_BUCKETS_MAX), "too little"),
        (BucketLayout::v2(0, 1000, 1), "too little"),
        (BucketLayout::v2(600, 1000, 100), "too little"),
    ] {
        let error = layout.unwrap_err();
        assert!(error.contains(problem), "{error}");
    }
    assert!(BucketLayout::v2(500, 1000, 100).is_ok());
    assert!(BucketLayout::v2(0, 60_000, 32_768).is_ok());
    // Even hand-made linear layouts have a bucket for everything.
    assert_eq!(BucketLayout::Linear { max_us: 0, size: 0 }.bucket(5), 0);
    assert!(BucketLayout::Linear { max_us: u64::MAX, size: 9 }.bucket(u64::MAX - 1) < 9);
}

#[test]
fn per_hit_rounds_half_to_even() {
    assert_eq!(per_hit(100, 0), 100);
    assert_eq!(per_hit(100, 1), 100);
    assert_eq!(per_hit(5, 2), 2);
    assert_eq!(per_hit(7, 2), 4);
    assert_eq!(per_hit(100_000, 3), 33_333);
    assert_eq!(per_hit(200_000, 3), 66_667);
}
