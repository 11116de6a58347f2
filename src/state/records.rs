//! The format of a snapshot: a sequence of records, compressed, checksummed and bounded, with only
//! one in memory at a time.
//!
//! ```text
//!   magic, version (12 bytes) | an lz4 frame with checksums | magic
//!                               length | record             length of four bytes, little-endian; the record by postcard
//!                               ..
//!                               0
//! ```
//!
//! The content of records is up to `snapshot`; the writer and reader here guarantee that it is
//! unchanged. Lengths are checked before memory is allocated for them. The magic at the end is
//! there because a frame may be truncated before its end mark unnoticed.

use std::io::{self, Read, Write};

use lz4_flex::frame::{BlockSize, FrameDecoder, FrameEncoder, FrameInfo};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::pool::snapshot::Damage;
use crate::value::text::counted;

/// First and last bytes of a snapshot.
pub(crate) const MAGIC: [u8; 8] = *b"pinbad\xf7S";

/// The version of everything that follows. A daemon reads this one, and those before, which lack
/// one or more of: the error status, where history goes on, samples, spans. A snapshot is for the
/// next start, not for archiving. Any two differ by at least two bits, so no flipped bit turns one
/// into another.
const VERSION: u32 = 16;
const VERSIONS_BEFORE: [u32; 4] = [8, 11, 13, 14];

/// Most bytes in one record: several times the longest run of rows or groups.
const RECORD_BYTES_MAX: usize = 4 << 20;

/// The reason why a snapshot cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// Reading the file failed.
    #[error("cannot read it: {0}")]
    Io(io::Error),
    /// It is not a snapshot.
    #[error("it is not a snapshot of pinbad")]
    Foreign,
    /// It has another version.
    #[error("it has version {0}, and this daemon reads {VERSION}")]
    Version(u32),
    /// It ends too early, after this many records.
    #[error("it ends in the middle, after {}", counted(*.0, "record"))]
    Truncated(u64),
    /// A checksum or length is wrong.
    #[error("it is damaged after {}: {problem}", counted(*.after, "record"))]
    Checksum {
        /// Records before it.
        after: u64,
        /// The problem.
        problem: &'static str,
    },
    /// The content of a record is invalid.
    #[error("record {record} is damaged: {damage}")]
    Damaged {
        /// Counted from 1.
        record: u64,
        /// The problem.
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
    /// Starts a snapshot.
    ///
    /// # Errors
    /// Errors of `to`.
    pub(crate) fn new(mut to: W) -> io::Result<Self> {
        to.write_all(&MAGIC)?;
        to.write_all(&VERSION.to_le_bytes())?;
        let info = FrameInfo::new().block_size(BlockSize::Max1MB);
        let info = info.block_checksums(true).content_checksum(true);
        Ok(Self { frame: FrameEncoder::with_frame_info(info, to), encoded: Vec::new() })
    }

    /// Writes a record.
    ///
    /// # Errors
    /// As for [`bytes`](Self::bytes).
    pub(crate) fn record(&mut self, record: &impl Serialize) -> io::Result<()> {
        let mut encoded = std::mem::take(&mut self.encoded);
        encoded.clear();
        let encoded = postcard::to_extend(record, encoded).map_err(io::Error::other)?;
        let written = self.bytes(&encoded);
        self.encoded = encoded;
        written
    }

    /// Writes an encoded record.
    ///
    /// # Errors
    /// Errors of `to`, and if it is longer than readers accept.
    pub(crate) fn bytes(&mut self, record: &[u8]) -> io::Result<()> {
        let length = record.len();
        if length > RECORD_BYTES_MAX {
            let error = format!("a record of {length} bytes is longer than {RECORD_BYTES_MAX}");
            return Err(io::Error::other(error));
        }
        self.frame.write_all(&(length as u32).to_le_bytes())?;
        self.frame.write_all(record)?;
        self.frame.flush()
    }

    /// Ends the snapshot; returns the underlying writer.
    ///
    /// # Errors
    /// Errors of `to`.
    pub(crate) fn finish(mut self) -> io::Result<W> {
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
    /// The current record, encoded.
    pub(crate) record: Vec<u8>,
    /// Records read so far.
    count: u64,
}

impl<R: Read> RecordsReader<R> {
    /// Opens a snapshot.
    ///
    /// # Errors
    /// Fails if it is not a snapshot.
    pub(crate) fn new(mut from: R) -> Result<Self, ReadError> {
        let (mut magic, mut version) = ([0; MAGIC.len()], [0; size_of::<u32>()]);
        fill(&mut from, &mut magic, 0)?;
        if magic != MAGIC {
            return Err(ReadError::Foreign);
        }
        fill(&mut from, &mut version, 0)?;
        let version = u32::from_le_bytes(version);
        if version != VERSION && !VERSIONS_BEFORE.contains(&version) {
            return Err(ReadError::Version(version));
        }
        Ok(Self { frame: FrameDecoder::new(from), record: Vec::new(), count: 0 })
    }

    /// Goes to the next record; returns false after the last, which stays current. Data after the
    /// end is ignored.
    ///
    /// # Errors
    /// Fails if the data is not as written.
    pub(crate) fn advance(&mut self) -> Result<bool, ReadError> {
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

    /// Checks that the frame ends here, with the checksum of everything, and the file with it.
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

    fn checksum(&self, problem: &'static str) -> ReadError {
        ReadError::Checksum { after: self.count, problem }
    }

    /// Decodes the current record.
    ///
    /// # Errors
    /// Fails if it is not of this kind.
    pub(crate) fn record<T: DeserializeOwned>(&self) -> Result<T, ReadError> {
        match postcard::take_from_bytes(&self.record) {
            Ok((record, [])) => Ok(record),
            Ok(_) | Err(_) => Err(self.damaged(Damage("it is not what was written"))),
        }
    }

    /// The error for an invalid current record.
    pub(crate) fn damaged(&self, damage: Damage) -> ReadError {
        ReadError::Damaged { record: self.count, damage }
    }
}

/// Reads exactly `to.len()` bytes; `after` is the number of records so far, for errors.
fn fill(from: &mut impl Read, to: &mut [u8], after: u64) -> Result<(), ReadError> {
    from.read_exact(to).map_err(|error| failed(error, after))
}

fn failed(error: io::Error, after: u64) -> ReadError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => ReadError::Truncated(after),
        // Errors of the frame decoder; `Other` is for blocks that cannot be decompressed.
        io::ErrorKind::InvalidData | io::ErrorKind::Other => {
            ReadError::Checksum { after, problem: "a checksum or a length is wrong" }
        }
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
        assert_eq!(reader.record, vec![7; 100_000]);
        assert!(reader.advance().unwrap());
        assert!(!reader.advance().unwrap());
        assert_eq!(reader.record::<String>().unwrap(), "the last");
        assert!(matches!(reader.record::<u8>(), Err(ReadError::Damaged { record: 2, .. })));
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
        newer[8] = 10;
        assert!(matches!(read(&newer), Err(ReadError::Version(10))));
        newer[8] = 8;
        read(&newer).unwrap();
    }

    #[test]
    fn errors_are_for_people() {
        let damaged = failed(io::Error::other("BlockChecksumError"), 122);
        for (error, said) in [
            (damaged, "it is damaged after 122 records: a checksum or a length is wrong"),
            (ReadError::Truncated(1), "it ends in the middle, after 1 record"),
        ] {
            assert_eq!(error.to_string(), said);
        }
    }

    #[test]
    fn a_record_that_says_it_is_long_takes_no_memory() {
        let mut writer = RecordsWriter::new(Vec::new()).unwrap();
        writer.frame.write_all(&u32::MAX.to_le_bytes()).unwrap();
        let bytes = writer.finish().unwrap();
        let mut reader = RecordsReader::new(&bytes[..]).unwrap();
        assert!(matches!(reader.advance(), Err(ReadError::Checksum { after: 0, .. })));
        assert_eq!(reader.record.capacity(), 0);
    }
}
