//! A snapshot as a run of blocks: each compressed, checked and bounded, so that no more than one is in memory.
//!
//! ```text
//!   magic, version (12 bytes)
//!   last | bytes | bytes as stored | crc32 of all three and of what is stored (13 bytes) | an lz4 block
//!   ..
//! ```
//!
//! Numbers are little-endian. What is in a block is up to `snapshot`; the writer and the reader here guarantee that it is
//! what was written. Lengths are checked before memory is taken for them. lz4 in its plain form, because lengths and
//! checksums are here already, and the framed one clears some megabytes for every block.

use std::io::{self, Read, Write};

use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};
use thiserror::Error;

/// What a snapshot begins with.
pub(crate) const MAGIC: [u8; 8] = *b"pinbad\xf7S";

/// The layout of all that follows. A daemon reads this one alone: a snapshot is for the next start, not for keeping.
const VERSION: u32 = 3;

/// Bytes in one block at most: several times what the longest run of rows or groups takes.
pub const BLOCK_BYTES_MAX: usize = 4 << 20;

/// The same as stored: what lz4 cannot make smaller becomes a little longer.
const STORED_BYTES_MAX: usize = get_maximum_output_size(BLOCK_BYTES_MAX);

const HEADER_BYTES: usize = 13;

/// Why a snapshot cannot be read.
#[derive(Debug, Error)]
pub enum BlockError {
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
    #[error("it ends in the middle, after {0} blocks")]
    Truncated(u64),
    /// A block is not what was written.
    #[error("block {block} is damaged: {what}")]
    Damaged {
        /// Counted from 1.
        block: u64,
        /// What is wrong.
        what: &'static str,
    },
}

/// Writes blocks.
#[derive(Debug)]
pub struct BlockWriter<W> {
    to: W,
    stored: Vec<u8>,
    /// How many were written.
    pub blocks: u64,
    /// How many bytes they take.
    pub bytes: u64,
}

impl<W: Write> BlockWriter<W> {
    /// Begins a snapshot.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn new(mut to: W) -> io::Result<Self> {
        to.write_all(&MAGIC)?;
        to.write_all(&VERSION.to_le_bytes())?;
        Ok(Self {
            to,
            stored: Vec::new(),
            blocks: 0,
            bytes: (MAGIC.len() + size_of::<u32>()) as u64,
        })
    }

    /// Writes one block.
    ///
    /// # Errors
    /// Those of `to`, and when the block is longer than any reader takes.
    pub fn block(&mut self, bytes: &[u8], last: bool) -> io::Result<()> {
        if bytes.len() > BLOCK_BYTES_MAX {
            return Err(io::Error::other(format!(
                "a block of {} bytes is longer than {BLOCK_BYTES_MAX}",
                bytes.len()
            )));
        }
        let most = get_maximum_output_size(bytes.len());
        if self.stored.len() < most {
            self.stored.resize(most, 0);
        }
        let stored = compress_into(bytes, &mut self.stored).map_err(io::Error::other)?;
        let stored = &self.stored[..stored];
        let header = header(last.into(), bytes.len(), stored.len(), stored);
        self.to.write_all(&header)?;
        self.to.write_all(stored)?;
        self.blocks += 1;
        self.bytes += (header.len() + stored.len()) as u64;
        Ok(())
    }

    /// Ends it; returns what it was written to.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn finish(mut self) -> io::Result<W> {
        self.to.flush()?;
        Ok(self.to)
    }
}

fn header(last: u8, bytes: usize, stored_bytes: usize, stored: &[u8]) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[0] = last;
    header[1..5].copy_from_slice(&(bytes as u32).to_le_bytes());
    header[5..9].copy_from_slice(&(stored_bytes as u32).to_le_bytes());
    let mut crc = crc32fast::Hasher::new();
    crc.update(&header[..9]);
    crc.update(stored);
    header[9..].copy_from_slice(&crc.finalize().to_le_bytes());
    header
}

/// Reads blocks.
#[derive(Debug)]
pub struct BlockReader<R> {
    from: R,
    stored: Vec<u8>,
    bytes: Vec<u8>,
    /// How many were read.
    pub blocks: u64,
    /// Whether the last one was. What comes after it is not looked at.
    pub ended: bool,
}

impl<R: Read> BlockReader<R> {
    /// Opens a snapshot.
    ///
    /// # Errors
    /// When it is none.
    pub fn new(from: R) -> Result<Self, BlockError> {
        let mut reader = Self {
            from,
            stored: Vec::new(),
            bytes: Vec::new(),
            blocks: 0,
            ended: false,
        };
        let (mut magic, mut version) = ([0; MAGIC.len()], [0; size_of::<u32>()]);
        reader.fill(&mut magic)?;
        if magic != MAGIC {
            return Err(BlockError::Foreign);
        }
        reader.fill(&mut version)?;
        match u32::from_le_bytes(version) {
            VERSION => Ok(reader),
            other => Err(BlockError::Version(other)),
        }
    }

    /// Goes to the next block, and sees that it is what was written.
    ///
    /// # Errors
    /// When there is none, or it is not.
    pub fn advance(&mut self) -> Result<(), BlockError> {
        let mut header_read = [0; HEADER_BYTES];
        self.fill(&mut header_read)?;
        let number = |at: usize| {
            let bytes = [0, 1, 2, 3].map(|place| header_read[at + place]);
            u32::from_le_bytes(bytes) as usize
        };
        let (last, bytes, stored) = (header_read[0], number(1), number(5));
        let block = self.blocks + 1;
        let damaged = |what| Err(BlockError::Damaged { block, what });
        if bytes > BLOCK_BYTES_MAX || stored > STORED_BYTES_MAX {
            return damaged("it is longer than any block");
        }
        let mut read = std::mem::take(&mut self.stored);
        read.resize(stored, 0);
        self.fill(&mut read)?;
        self.stored = read;
        if header(last, bytes, stored, &self.stored) != header_read {
            return damaged("its checksum is wrong");
        }
        self.bytes.resize(bytes, 0);
        self.blocks = block;
        self.ended = last != 0;
        Ok(())
    }

    /// What is in the block.
    ///
    /// # Errors
    /// When it cannot be decompressed to what it says.
    pub fn bytes(&mut self) -> Result<&[u8], BlockError> {
        match decompress_into(&self.stored, &mut self.bytes) {
            Ok(bytes) if bytes == self.bytes.len() => Ok(&self.bytes),
            Ok(_) | Err(_) => Err(BlockError::Damaged {
                block: self.blocks,
                what: "it cannot be decompressed",
            }),
        }
    }

    fn fill(&mut self, to: &mut [u8]) -> Result<(), BlockError> {
        self.from
            .read_exact(to)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => BlockError::Truncated(self.blocks),
                _ => BlockError::Io(error),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_blocks() -> Vec<u8> {
        let mut writer = BlockWriter::new(Vec::new()).unwrap();
        writer.block(&vec![7; 100_000], false).unwrap();
        writer.block(b"", true).unwrap();
        let count = writer.bytes;
        let bytes = writer.finish().unwrap();
        assert_eq!(count, bytes.len() as u64);
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = two_blocks();
        assert!(bytes.len() < 2_000, "compressed");
        let mut reader = BlockReader::new(&bytes[..]).unwrap();
        reader.advance().unwrap();
        assert_eq!(
            (reader.ended, reader.bytes().unwrap()),
            (false, &vec![7; 100_000][..])
        );
        reader.advance().unwrap();
        assert_eq!((reader.ended, reader.bytes().unwrap()), (true, &b""[..]));
        assert!(matches!(reader.advance(), Err(BlockError::Truncated(2))));
        assert!(
            BlockWriter::new(Vec::new())
                .unwrap()
                .block(&vec![0; BLOCK_BYTES_MAX + 1], false)
                .is_err()
        );
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let bytes = two_blocks();
        let read = |bytes: &[u8]| -> Result<(), BlockError> {
            let mut reader = BlockReader::new(bytes)?;
            while !reader.ended {
                reader.advance()?;
                reader.bytes()?;
            }
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
        assert!(matches!(
            read(b"{\"version\": 1}"),
            Err(BlockError::Foreign)
        ));
        let mut newer = bytes;
        newer[8] = 9;
        assert!(matches!(read(&newer), Err(BlockError::Version(9))));
    }

    #[test]
    fn a_block_that_says_it_is_small_stays_small() {
        let mut writer = BlockWriter::new(Vec::new()).unwrap();
        writer.block(&vec![0; 4 << 20], true).unwrap();
        let mut bytes = writer.finish().unwrap();
        let stored = bytes[12 + HEADER_BYTES..].to_vec();
        let lying = header(1, 10, stored.len(), &stored);
        bytes[12..12 + HEADER_BYTES].copy_from_slice(&lying);
        let mut reader = BlockReader::new(&bytes[..]).unwrap();
        reader.advance().unwrap();
        assert!(matches!(
            reader.bytes(),
            Err(BlockError::Damaged { block: 1, .. })
        ));
        assert!(reader.bytes.capacity() < 1 << 16);
    }
}
