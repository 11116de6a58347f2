//! A snapshot as a run of records: compressed, checked and bounded, so that no more than one is in memory.
//!
//! ```text
//!   magic, version (12 bytes) | an lz4 frame with checksums | magic
//!                               length | record             length of four bytes, little-endian; the record by postcard
//!                               ..
//!                               0
//! ```
//!
//! What is in a record is up to `snapshot`; the writer and the reader here guarantee that it is what was written. Lengths
//! are checked before memory is taken for them. The magic at the end is there because a frame may be cut before its end
//! mark unnoticed.

use std::io::{self, Read, Write};

use lz4_flex::frame::{BlockSize, FrameDecoder, FrameEncoder, FrameInfo};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::pool::snapshot::Damage;

/// What a snapshot begins and ends with.
pub(crate) const MAGIC: [u8; 8] = *b"pinbad\xf7S";

/// The layout of all that follows. A daemon reads this one alone: a snapshot is for the next start, not for keeping.
const VERSION: u32 = 8;

/// Bytes in one record at most: several times what the longest run of rows or groups takes.
const RECORD_BYTES_MAX: usize = 4 << 20;

/// Why a snapshot cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The file.
    #[error("cannot read it: {0}")]
    Io(io::Error),
    /// Somebody else's file.
    #[error("it is not a snapshot of pinbad")]
    Foreign,
    /// Of another pinbad.
    #[error("it has version {0}, and this daemon reads {VERSION}")]
    Version(u32),
    /// It ends too early.
    #[error("it ends in the middle, after {0} records")]
    Truncated(u64),
    /// A checksum or a length in it is wrong.
    #[error("it is damaged after {after} records, a checksum or a length is wrong: {problem}")]
    Checksum {
        /// Records before it.
        after: u64,
        /// What is wrong.
        problem: io::Error,
    },
    /// What is in a record.
    #[error("record {record} is damaged: {damage}")]
    Damaged {
        /// Counted from 1.
        record: u64,
        /// What is wrong.
        damage: Damage,
    },
}

/// Writes records.
#[derive(Debug)]
pub struct RecordsWriter<W: Write> {
    frame: FrameEncoder<W>,
    encoded: Vec<u8>,
}

impl<W: Write> RecordsWriter<W> {
    /// Begins a snapshot.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn new(mut to: W) -> io::Result<Self> {
        to.write_all(&MAGIC)?;
        to.write_all(&VERSION.to_le_bytes())?;
        let info = FrameInfo::new().block_size(BlockSize::Max1MB);
        let info = info.block_checksums(true).content_checksum(true);
        Ok(Self {
            frame: FrameEncoder::with_frame_info(info, to),
            encoded: Vec::new(),
        })
    }

    /// Writes a record.
    ///
    /// # Errors
    /// Those of [`bytes`](Self::bytes).
    pub fn record(&mut self, record: &impl Serialize) -> io::Result<()> {
        let mut encoded = std::mem::take(&mut self.encoded);
        encoded.clear();
        let encoded = postcard::to_extend(record, encoded).map_err(io::Error::other)?;
        let written = self.bytes(&encoded);
        self.encoded = encoded;
        written
    }

    /// Writes a record that is encoded already.
    ///
    /// # Errors
    /// Those of `to`, and when it is longer than any reader takes.
    pub fn bytes(&mut self, record: &[u8]) -> io::Result<()> {
        let length = record.len();
        if length > RECORD_BYTES_MAX {
            let error = format!("a record of {length} bytes is longer than {RECORD_BYTES_MAX}");
            return Err(io::Error::other(error));
        }
        self.frame.write_all(&(length as u32).to_le_bytes())?;
        self.frame.write_all(record)?;
        self.frame.flush()
    }

    /// Ends it; returns what it was written to.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn finish(mut self) -> io::Result<W> {
        self.frame.write_all(&0_u32.to_le_bytes())?;
        let mut to = self.frame.finish()?;
        to.write_all(&MAGIC)?;
        to.flush()?;
        Ok(to)
    }
}

/// Reads records.
#[derive(Debug)]
pub struct RecordsReader<R: Read> {
    frame: FrameDecoder<R>,
    record: Vec<u8>,
    /// How many were read.
    count: u64,
}

impl<R: Read> RecordsReader<R> {
    /// Opens a snapshot.
    ///
    /// # Errors
    /// When it is none.
    pub fn new(mut from: R) -> Result<Self, ReadError> {
        let (mut magic, mut version) = ([0; MAGIC.len()], [0; size_of::<u32>()]);
        fill(&mut from, &mut magic, 0)?;
        if magic != MAGIC {
            return Err(ReadError::Foreign);
        }
        fill(&mut from, &mut version, 0)?;
        match u32::from_le_bytes(version) {
            VERSION => Ok(Self {
                frame: FrameDecoder::new(from),
                record: Vec::new(),
                count: 0,
            }),
            other => Err(ReadError::Version(other)),
        }
    }

    /// Goes to the next record; false after the last, which stays at hand. What comes behind the end is not looked at.
    ///
    /// # Errors
    /// When what comes is not what was written.
    pub fn advance(&mut self) -> Result<bool, ReadError> {
        let mut length = [0; size_of::<u32>()];
        fill(&mut self.frame, &mut length, self.count)?;
        let length = u32::from_le_bytes(length) as usize;
        if length == 0 {
            return self.end().map(|()| false);
        }
        if length > RECORD_BYTES_MAX {
            return Err(self.checksum("a record is longer than any"));
        }
        self.record.resize(length, 0);
        fill(&mut self.frame, &mut self.record, self.count)?;
        self.count += 1;
        Ok(true)
    }

    /// The frame has to end here, with the checksum of all, and the file with it.
    fn end(&mut self) -> Result<(), ReadError> {
        let more = self.frame.read(&mut [0]);
        match more {
            Ok(0) => {}
            Ok(_) => return Err(self.checksum("it goes on after its end")),
            Err(error) => return Err(failed(error, self.count)),
        }
        let mut magic = [0; MAGIC.len()];
        fill(self.frame.get_mut(), &mut magic, self.count)?;
        match magic == MAGIC {
            true => Ok(()),
            false => Err(self.checksum("its end is not that of a snapshot")),
        }
    }

    fn checksum(&self, problem: &str) -> ReadError {
        ReadError::Checksum {
            after: self.count,
            problem: io::Error::other(problem),
        }
    }

    /// The record at hand as it was encoded.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.record
    }

    /// The record at hand.
    ///
    /// # Errors
    /// When it is none of this kind.
    pub fn record<T: DeserializeOwned>(&self) -> Result<T, ReadError> {
        match postcard::take_from_bytes(&self.record) {
            Ok((record, [])) => Ok(record),
            Ok(_) | Err(_) => Err(self.damaged(Damage("it is not what was written"))),
        }
    }

    /// Why the record at hand is no good.
    #[must_use]
    pub fn damaged(&self, damage: Damage) -> ReadError {
        ReadError::Damaged {
            record: self.count,
            damage,
        }
    }
}

/// Reads so many bytes, after so many records.
fn fill(from: &mut impl Read, to: &mut [u8], after: u64) -> Result<(), ReadError> {
    from.read_exact(to).map_err(|error| failed(error, after))
}

fn failed(error: io::Error, after: u64) -> ReadError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => ReadError::Truncated(after),
        // What the decoder of frames says; `Other` is for blocks that cannot be decompressed.
        io::ErrorKind::InvalidData | io::ErrorKind::Other => ReadError::Checksum {
            after,
            problem: error,
        },
        _ => ReadError::Io(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_records() -> Vec<u8> {
        let mut writer = RecordsWriter::new(Vec::new()).unwrap();
        writer.bytes(&vec![7; 100_000]).unwrap();
        writer.record(&"the last").unwrap();
        writer.finish().unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = two_records();
        assert!(bytes.len() < 2_000, "compressed");
        let mut reader = RecordsReader::new(&bytes[..]).unwrap();
        assert!(reader.advance().unwrap());
        assert_eq!(reader.bytes(), &vec![7; 100_000][..]);
        assert!(reader.advance().unwrap());
        assert!(!reader.advance().unwrap());
        assert_eq!(reader.record::<String>().unwrap(), "the last");
        assert!(matches!(
            reader.record::<u8>(),
            Err(ReadError::Damaged { record: 2, .. })
        ));
        let mut writer = RecordsWriter::new(Vec::new()).unwrap();
        writer.bytes(&vec![0; RECORD_BYTES_MAX + 1]).unwrap_err();
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let bytes = two_records();
        let read = |bytes: &[u8]| -> Result<(), ReadError> {
            let mut reader = RecordsReader::new(bytes)?;
            while reader.advance()? {}
            Ok(())
        };
        read(&bytes).unwrap();
        for at in 0..bytes.len() {
            read(&bytes[..at]).unwrap_err();
            for bit in 0..8 {
                let mut bad = bytes.clone();
                bad[at] ^= 1 << bit;
                read(&bad).unwrap_err();
            }
        }
        assert!(matches!(read(b"{\"version\": 1}"), Err(ReadError::Foreign)));
        let mut newer = bytes;
        newer[8] = 9;
        assert!(matches!(read(&newer), Err(ReadError::Version(9))));
    }

    #[test]
    fn a_record_that_says_it_is_long_takes_no_memory() {
        let mut writer = RecordsWriter::new(Vec::new()).unwrap();
        writer.frame.write_all(&u32::MAX.to_le_bytes()).unwrap();
        let bytes = writer.finish().unwrap();
        let mut reader = RecordsReader::new(&bytes[..]).unwrap();
        assert!(matches!(
            reader.advance(),
            Err(ReadError::Checksum { after: 0, .. })
        ));
        assert_eq!(reader.record.capacity(), 0);
    }
}
