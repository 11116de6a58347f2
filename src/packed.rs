//! Numbers and texts one after the other: how parts are written to a snapshot, and read back without trusting it.
//!
//! Each part of the pool and of the reports has its own pair of functions over these two; they neither read files nor
//! know of each other's layout. Whole numbers take seven bits a byte, the lowest first; the top bit says that more
//! follow. An [`Unpacker`] looks at a slice that somebody else has bounded, never takes memory, and ends in a
//! [`Damage`] where the bytes cannot be what a [`Packer`] wrote; it does not panic, whatever they are.

use std::fmt;

/// Longest text that is read back, bytes: what a COMMENT may be.
const TEXT_BYTES_MAX: u64 = 1 << 16;

/// What is wrong with bytes that should have been written by a [`Packer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage(pub &'static str);

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Damage {}

/// Writes one after the other.
#[derive(Debug, Default)]
pub struct Packer {
    bytes: Vec<u8>,
}

impl Packer {
    /// Nothing written yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A whole number.
    pub fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// Yes or no.
    pub fn switch(&mut self, on: bool) {
        self.bytes.push(on.into());
    }

    /// Seconds, bit by bit.
    pub fn float(&mut self, value: f32) {
        self.bytes.extend_from_slice(&value.to_bits().to_le_bytes());
    }

    /// A text with its length.
    pub fn text(&mut self, text: &[u8]) {
        self.number(text.len() as u64);
        self.bytes.extend_from_slice(text);
    }

    /// What was packed already, as it is.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// All of it.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How much that is.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Forgets it, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }
}

/// Reads what a [`Packer`] wrote, in the same order.
#[derive(Debug, Clone, Copy)]
pub struct Unpacker<'a> {
    rest: &'a [u8],
}

impl<'a> Unpacker<'a> {
    /// Over these bytes.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// A whole number of up to 128 bits, as journals have them.
    ///
    /// # Errors
    /// When it does not end, or is wider.
    pub fn wide(&mut self) -> Result<u128, Damage> {
        let mut value = 0u128;
        for shift in (0..126).step_by(7) {
            let byte = self.byte()?;
            value |= u128::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        match self.byte()? {
            last @ 0..=3 => Ok(value | u128::from(last) << 126),
            _ => Err(Damage("a number is too wide")),
        }
    }

    /// A whole number.
    ///
    /// # Errors
    /// When there is none, or it is wider than 64 bits.
    pub fn number(&mut self) -> Result<u64, Damage> {
        // Most are one or two bytes.
        match *self.rest {
            [one, ref rest @ ..] if one < 0x80 => {
                self.rest = rest;
                Ok(one.into())
            }
            [one, two, ref rest @ ..] if two < 0x80 => {
                self.rest = rest;
                Ok(u64::from(one & 0x7f) | u64::from(two) << 7)
            }
            _ => u64::try_from(self.wide()?).map_err(|_| Damage("a number is too large")),
        }
    }

    /// A whole number of 32 bits.
    ///
    /// # Errors
    /// When there is none, or it is wider.
    pub fn small(&mut self) -> Result<u32, Damage> {
        u32::try_from(self.number()?).map_err(|_| Damage("a number is too large"))
    }

    /// A whole number of at most `most`.
    ///
    /// # Errors
    /// When there is none, or it is larger: then `what` says what is wrong.
    pub fn at_most(&mut self, most: u64, what: &'static str) -> Result<u64, Damage> {
        let number = self.number()?;
        if number <= most {
            Ok(number)
        } else {
            Err(Damage(what))
        }
    }

    /// Yes or no.
    ///
    /// # Errors
    /// When it is neither.
    pub fn switch(&mut self) -> Result<bool, Damage> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Damage("neither yes nor no")),
        }
    }

    /// Seconds: finite, not negative, within what a packet can carry.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn seconds(&mut self) -> Result<f32, Damage> {
        let (bits, rest) = self.rest.split_first_chunk().ok_or(ENDS)?;
        self.rest = rest;
        let value = f32::from_bits(u32::from_le_bytes(*bits));
        if (0.0..crate::limits::SECONDS_END).contains(&value) {
            Ok(value)
        } else {
            Err(Damage("a time is out of range"))
        }
    }

    /// A text.
    ///
    /// # Errors
    /// When it does not end, or is longer than any that is kept.
    pub fn text(&mut self) -> Result<&'a [u8], Damage> {
        let len = self.at_most(TEXT_BYTES_MAX, "a text is too long")?;
        self.raw(usize::try_from(len).unwrap_or(usize::MAX))
    }

    /// A text that is a name of ours.
    ///
    /// # Errors
    /// As [`text`](Self::text), and when it is not UTF-8.
    pub fn name(&mut self) -> Result<&'a str, Damage> {
        std::str::from_utf8(self.text()?).map_err(|_| Damage("a name is not UTF-8"))
    }

    /// So many bytes as they are.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn raw(&mut self, len: usize) -> Result<&'a [u8], Damage> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(ENDS)?;
        self.rest = rest;
        Ok(taken)
    }

    /// What was not read yet.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether all was read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// To be called at the end.
    ///
    /// # Errors
    /// When something is left.
    pub const fn finish(&self) -> Result<(), Damage> {
        if self.is_empty() {
            Ok(())
        } else {
            Err(Damage("there is more than there should be"))
        }
    }

    fn byte(&mut self) -> Result<u8, Damage> {
        let (&byte, rest) = self.rest.split_first().ok_or(ENDS)?;
        self.rest = rest;
        Ok(byte)
    }
}

const ENDS: Damage = Damage("it ends in the middle of something");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let numbers = [
            0,
            1,
            127,
            128,
            16_383,
            16_384,
            u64::from(u32::MAX),
            u64::MAX,
        ];
        let mut packer = Packer::new();
        for number in numbers {
            packer.number(number);
        }
        packer.float(0.25);
        packer.switch(true);
        packer.text("/häuser.php".as_bytes());
        let mut unpacker = Unpacker::new(packer.bytes());
        for number in numbers {
            assert_eq!(unpacker.number(), Ok(number));
        }
        assert_eq!(unpacker.seconds(), Ok(0.25));
        assert_eq!(unpacker.switch(), Ok(true));
        assert_eq!(unpacker.name(), Ok("/häuser.php"));
        assert_eq!(unpacker.finish(), Ok(()));
        assert_eq!(unpacker.number(), Err(ENDS));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let wide = [0xff; 18];
        let widest = [&wide[..], &[3]].concat();
        assert_eq!(Unpacker::new(&widest).wide(), Ok(u128::MAX));
        assert!(Unpacker::new(&widest).number().is_err());
        assert!(Unpacker::new(&[&wide[..], &[4]].concat()).wide().is_err());
        assert!(Unpacker::new(&wide).wide().is_err(), "it does not end");
        assert!(
            Unpacker::new(&[0xff, 0xff, 0xff, 0xff, 0x7f])
                .small()
                .is_err()
        );
        for seconds in [-1.0, f32::NAN, f32::INFINITY, 2_147_483_648.0] {
            assert!(Unpacker::new(&seconds.to_le_bytes()).seconds().is_err());
        }
        assert!(Unpacker::new(&[5, b'x']).text().is_err());
        assert!(Unpacker::new(&[0xff, 0xff, 0xff, 0x7f]).text().is_err());
        assert!(Unpacker::new(&[1, 0xff]).name().is_err());
        assert!(Unpacker::new(&[2]).switch().is_err());
        assert!(Unpacker::new(&[2]).finish().is_err());
        assert!(Unpacker::new(&[9]).at_most(8, "too many").is_err());
    }
}
