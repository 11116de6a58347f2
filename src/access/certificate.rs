//! Reads a certificate's validity, what is to be said of it, and whether it is an authority's.
//!
//! rustls passes certificates on and verifies those of others, but does not expose the fields of
//! one's own. The few fields before the validity are skipped by their lengths (X.509 in DER); for
//! anything malformed there is no answer.

use std::ops::RangeInclusive;
use std::time::UNIX_EPOCH;

use chrono::{DateTime, NaiveDateTime};

use crate::value::text::roughly;

/// DER tags.
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const BOOLEAN: u8 = 0x01;
/// The id of the extension basicConstraints, 2.5.29.19, as an element.
const BASIC_CONSTRAINTS: [u8; 5] = [0x06, 0x03, 0x55, 0x1d, 0x13];

/// A certificate with fewer seconds left should be renewed.
const RENEWAL_SECS: u64 = 14 * 86_400;

/// What is to be said of a certificate that is marked as that of an authority.
pub const AUTHORITY: &str = "is marked as that of an authority (basicConstraints CA:TRUE): some clients refuse it as that of \
    a server, pinbad's commands unless --ca-file names this very certificate";

/// Says what is wrong, or soon will be, with a certificate that is valid between these unix
/// seconds.
pub(crate) fn validity_remark(validity: &RangeInclusive<u64>) -> Option<String> {
    let now = UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
    let [begin, end] = [validity.start(), validity.end()].map(|secs| moment(*secs));
    if now < *validity.start() {
        return Some(format!("is not valid before {begin}: clients refuse it until then"));
    }
    match validity.end().saturating_sub(now) {
        0 => Some(format!("has expired on {end}: clients refuse it")),
        left if left < RENEWAL_SECS => {
            let left = roughly(left as f64);
            Some(format!("expires soon, in {left}, on {end}: renew it; SIGHUP reads it again"))
        }
        _ => None,
    }
}

/// A unix second in words.
pub(crate) fn moment(secs: u64) -> String {
    let moment = DateTime::from_timestamp(secs.cast_signed(), 0).unwrap_or_default();
    moment.format("%Y-%m-%d %H:%M UTC").to_string()
}

/// Returns the unix seconds between which a certificate is valid, as far as they are after 1970.
pub(crate) fn validity(der: &[u8]) -> Option<RangeInclusive<u64>> {
    let certificate = inside(&mut { der })?;
    let mut fields = inside(&mut { certificate })?;
    if fields.first() == Some(&VERSION) {
        next(&mut fields)?;
    }
    // Serial number, signature algorithm, issuer.
    for _ in 0..3 {
        next(&mut fields)?;
    }
    let mut validity = inside(&mut fields)?;
    Some(time(&mut validity)?..=time(&mut validity)?)
}

/// Reads a time, as a unix second.
fn time(der: &mut &[u8]) -> Option<u64> {
    let (tag, text) = next(der)?;
    let text = std::str::from_utf8(text).ok()?;
    let text = match tag {
        // Years 1950 to 2049.
        UTC_TIME if text < "5" => format!("20{text}"),
        UTC_TIME => format!("19{text}"),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let time = NaiveDateTime::parse_from_str(&text, "%Y%m%d%H%M%SZ").ok()?;
    Some(u64::try_from(time.and_utc().timestamp()).unwrap_or(0))
}

/// Returns true if a certificate is marked as an authority: basicConstraints with CA:TRUE.
pub(crate) fn is_authority(der: &[u8]) -> bool {
    let mut places = der.windows(BASIC_CONSTRAINTS.len());
    let Some(at) = places.position(|it| it == BASIC_CONSTRAINTS) else { return false };
    let mut rest = der.get(at + BASIC_CONSTRAINTS.len()..).unwrap_or_default();
    let mut field = next(&mut rest);
    // Whether the extension is critical comes first, if at all.
    if field.is_some_and(|it| it.0 == BOOLEAN) {
        field = next(&mut rest);
    }
    let mut constraints = field.and_then(|(_, mut it)| inside(&mut it));
    let first = constraints.as_mut().and_then(next);
    first.is_some_and(|(tag, value)| tag == BOOLEAN && value != [0])
}

/// Reads a sequence and returns its contents.
fn inside<'d>(der: &mut &'d [u8]) -> Option<&'d [u8]> {
    next(der).filter(|(tag, _)| *tag == SEQUENCE).map(|it| it.1)
}

/// Reads the next element: tag and contents.
fn next<'d>(der: &mut &'d [u8]) -> Option<(u8, &'d [u8])> {
    let (&[tag, first], mut rest) = der.split_first_chunk::<2>()?;
    let mut length = usize::from(first);
    if first >= 0x80 {
        let (bytes, behind) = rest.split_at_checked(usize::from(first & 0x7f))?;
        if bytes.len() > 4 {
            return None;
        }
        length = bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        rest = behind;
    }
    let (contents, rest) = rest.split_at_checked(length)?;
    *der = rest;
    Some((tag, contents))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expires(der: &[u8]) -> Option<u64> {
        validity(der).map(|it| *it.end())
    }

    fn made(year: i32) -> Vec<u8> {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["stats.example".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 2, 3);
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn the_end_of_its_validity_is_found() {
        assert_eq!(expires(&made(2031)), Some(1_927_843_200));
        assert_eq!(expires(&made(2062)), Some(2_906_150_400), "with four digits");
        assert_eq!(expires(&made(1999)), Some(918_000_000));
    }

    #[test]
    fn an_authority_is_told_from_a_server() {
        let key = rcgen::KeyPair::generate().unwrap();
        let unlimited = rcgen::BasicConstraints::Unconstrained;
        for (is_ca, expected) in [
            (rcgen::IsCa::NoCa, false),
            (rcgen::IsCa::ExplicitNoCa, false),
            (rcgen::IsCa::Ca(unlimited), true),
        ] {
            let mut params = rcgen::CertificateParams::new(vec!["h".to_owned()]).unwrap();
            params.is_ca = is_ca;
            let der = params.self_signed(&key).unwrap().der().to_vec();
            assert_eq!(is_authority(&der), expected);
        }
        assert!(!is_authority(&BASIC_CONSTRAINTS));
    }

    #[test]
    fn what_is_none_has_none() {
        let whole = made(2031);
        for end in 0..whole.len() - 200 {
            let _nothing_or_the_same = expires(&whole[..end]);
        }
        assert_eq!(expires(&whole[..100]), None);
        assert_eq!(expires(b"hello"), None);
        assert_eq!(expires(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    }
}
