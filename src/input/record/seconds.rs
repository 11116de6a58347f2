//! Times: 32-bit floats in seconds on the wire, integer microseconds everywhere else.
//!
//! The decoder cleans a time once (rules V9 to V16) and keeps it as a float. [`micros`] is the one
//! place where it becomes an integer: raw output, filters, histograms and sums all use that number.

use crate::limits::SECONDS_END;

/// Cleans a time: negative, not a number, infinite or past 2,147,483,647 s becomes 0, and so does
/// -0.0.
#[inline(always)]
pub(super) fn clean(seconds: f32) -> f32 {
    if seconds > 0.0 && seconds < SECONDS_END { seconds } else { 0.0 }
}

/// Converts seconds to integer microseconds, rounded half to even; at most 2,147,483,520,000,000.
/// Values that `clean` would make 0 are 0 here too.
///
/// Exact: a float has 24 significant bits and a million needs 14 beyond its power of two, so the
/// product fits the 53 of an `f64`; and below 2^51 adding 2^52 leaves no bits for a fraction, so
/// the addition itself rounds half to even.
#[inline]
pub fn micros(seconds: f32) -> u64 {
    const SHIFT: f64 = 4_503_599_627_370_496.0;
    let micros = f64::from(clean(seconds)) * 1e6;
    (micros + SHIFT).to_bits().wrapping_sub(SHIFT.to_bits())
}

/// Notes in the place of the system CPU time that CPU times and memory are not known, because the
/// request or timer came as a span, which began `seconds` after its request. The sign is the note:
/// sent times have none, and for [`micros`] it is 0.
pub(super) fn span_start(seconds: f32) -> f32 {
    -clean(seconds)
}

/// Whether a system CPU time is the note that the times and memory are not known.
#[inline(always)]
pub fn is_unmeasured(ru_stime: f32) -> bool {
    ru_stime.is_sign_negative()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_of_a_span_counts_as_no_time() {
        assert!(!is_unmeasured(clean(-1.0)) && !is_unmeasured(clean(-0.0)));
        for after in [0.0, 0.25, -3.0, f32::NAN] {
            let note = span_start(after);
            assert!(is_unmeasured(note), "{after}");
            assert_eq!((micros(note), micros(-note)), (0, micros(after)));
        }
    }

    #[test]
    fn rounds_half_to_even() {
        // Halves can occur at odd multiples of 2^-7 s in microseconds: x * 10^6 = n + 1/2 needs x =
        // m * 2^-7.
        assert_eq!(micros(0.007_812_5), 7812, "7812.5: down to even");
        assert_eq!(micros(3.0 * 0.007_812_5), 23_438, "23437.5: up to even");
        assert_eq!(micros(5.0 * 0.007_812_5), 39_062, "39062.5: down to even");
        assert_eq!(micros(0.1), 100_000, "0.1f32 is 0.100000001490116");
        assert_eq!(micros(0.01), 10_000, "0.01f32 is 0.009999999776: up, not cut to 9999");
        assert_eq!(micros(0.25), 250_000);
        assert_eq!(micros(1e-7), 0);
        assert_eq!(micros(6e-7), 1);
        assert_eq!(micros(f32::MIN_POSITIVE / 2.0), 0, "subnormal");
    }

    #[test]
    fn ends_are_kept_and_the_rest_is_zero() {
        assert_eq!(micros(2_147_483_520.0), 2_147_483_520_000_000, "the last float before 2^31");
        for bad in
            [2_147_483_648.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -1.0, -0.0, f32::MAX]
        {
            assert_eq!(micros(bad), 0, "{bad}");
            assert_eq!(clean(bad).to_bits(), 0, "{bad}");
        }
    }

    #[test]
    fn agrees_with_the_library_over_all_exponents() {
        let mut bits = 0_u32;
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..400_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            bits ^= (state >> 33) as u32;
            let seconds = f32::from_bits(bits);
            let expected = if seconds > 0.0 && f64::from(seconds) <= 2_147_483_647.0 {
                (f64::from(seconds) * 1e6).round_ties_even() as u64
            } else {
                0
            };
            assert_eq!(micros(seconds), expected, "bits {bits:#010x}");
        }
    }
}
