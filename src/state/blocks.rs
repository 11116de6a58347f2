//! A snapshot as a run of blocks: each compressed, checked and bounded, so that no more than one is in memory.
//!
//! ```text
//!   magic, version (12 bytes)
//!   kind | bytes | bytes as stored | crc32 of all three and of what is stored (13 bytes) | an lz4 block
//!   ..
//!   the last block is of kind END and says how many came before it
//! ```
//!
//! Numbers are little-endian. The writer and the reader here know nothing of what is in a block (`snapshot` does); they
//! answer for its being what was written, all of it, in order. Lengths are looked at before memory is taken for them.
//! lz4 in its plain form, because lengths and checksums are here already: the framed one takes and clears some megabytes
//! for every block, which was a third of the time of a restart.

use std::io::{self, Read, Write};

use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};
use thiserror::Error;

/// What a snapshot begins with.
pub(crate) const MAGIC: [u8; 8] = *b"pinbad\xf7S";

/// The layout of all that follows. A daemon reads this one alone: a snapshot is for the next start, not for keeping.
const VERSION: u32 = 1;

/// Bytes in one block at most.
pub const BLOCK_BYTES_MAX: usize = 8 << 20;

/// The same as stored: what lz4 cannot make smaller becomes a little longer.
const STORED_BYTES_MAX: usize = get_maximum_output_size(BLOCK_BYTES_MAX);

const HEADER_BYTES: usize = 13;

/// What a block is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The first: who wrote it, where ids go on.
    Head = 1,
    /// Counters of sockets and merger.
    Counters = 2,
    /// A family of reports begins.
    Family = 3,
    /// What some of its groups are called.
    Groups = 4,
    /// A part of the journal of one of its ticks.
    Journal = 5,
    /// Raw rows.
    Rows = 6,
    /// The last: when it was finished.
    End = 7,
}

impl Kind {
    pub(crate) const fn of(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Head,
            2 => Self::Counters,
            3 => Self::Family,
            4 => Self::Groups,
            5 => Self::Journal,
            6 => Self::Rows,
            7 => Self::End,
            _ => return None,
        })
    }
}

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
    blocks: u64,
    bytes: u64,
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
    pub fn block(&mut self, kind: Kind, bytes: &[u8]) -> io::Result<()> {
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
        let header = header(kind as u8, bytes.len(), stored.len(), stored);
        self.to.write_all(&header)?;
        self.to.write_all(stored)?;
        self.blocks += 1;
        self.bytes += (header.len() + stored.len()) as u64;
        Ok(())
    }

    /// How many were written.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Ends it; returns what it was written to, and how many bytes that were.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        self.to.flush()?;
        Ok((self.to, self.bytes))
    }
}

fn header(kind: u8, bytes: usize, stored_bytes: usize, stored: &[u8]) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[0] = kind;
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
    /// How long the block at hand says it is.
    bytes_promised: usize,
    blocks: u64,
}

impl<R: Read> BlockReader<R> {
    /// Opens a snapshot.
    ///
    /// # Errors
    /// When it is none.
    pub fn new(mut from: R) -> Result<Self, BlockError> {
        let mut begin = [0; MAGIC.len() + size_of::<u32>()];
        if fill(&mut from, &mut begin)? < begin.len() {
            return Err(BlockError::Truncated(0));
        }
        let (magic, version) = begin.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(BlockError::Foreign);
        }
        match u32::from_le_bytes([version[0], version[1], version[2], version[3]]) {
            VERSION => Ok(Self {
                from,
                stored: Vec::new(),
                bytes: Vec::new(),
                bytes_promised: 0,
                blocks: 0,
            }),
            other => Err(BlockError::Version(other)),
        }
    }

    /// The next block. What comes after the one of kind [`Kind::End`] is not looked at.
    ///
    /// # Errors
    /// When there is none, or it is not what was written.
    pub fn read(&mut self) -> Result<(Kind, &[u8]), BlockError> {
        let kind = self.advance()?;
        Ok((kind, self.unpack()?))
    }

    /// Goes to the next block, and sees that it is what was written.
    ///
    /// # Errors
    /// When there is none, or it is not.
    pub fn advance(&mut self) -> Result<Kind, BlockError> {
        let mut header_read = [0; HEADER_BYTES];
        if fill(&mut self.from, &mut header_read)? < HEADER_BYTES {
            return Err(BlockError::Truncated(self.blocks));
        }
        let number = |at: usize| {
            let bytes = [0, 1, 2, 3].map(|place| header_read[at + place]);
            u32::from_le_bytes(bytes) as usize
        };
        let (kind, bytes, stored) = (header_read[0], number(1), number(5));
        self.blocks += 1;
        if bytes > BLOCK_BYTES_MAX || stored > STORED_BYTES_MAX {
            return Err(self.damaged("it is longer than any block"));
        }
        self.stored.resize(stored, 0);
        if fill(&mut self.from, &mut self.stored)? < stored {
            return Err(BlockError::Truncated(self.blocks - 1));
        }
        if header(kind, bytes, stored, &self.stored) != header_read {
            return Err(self.damaged("its checksum is wrong"));
        }
        self.bytes_promised = bytes;
        Kind::of(kind).ok_or_else(|| self.damaged("it is of a kind that there is not"))
    }

    /// What is in the block.
    ///
    /// # Errors
    /// When it cannot be unpacked to what it says.
    pub fn unpack(&mut self) -> Result<&[u8], BlockError> {
        self.bytes.resize(self.bytes_promised, 0);
        match decompress_into(&self.stored, &mut self.bytes) {
            Ok(bytes) if bytes == self.bytes_promised => Ok(&self.bytes),
            Ok(_) | Err(_) => Err(self.damaged("it cannot be unpacked")),
        }
    }

    /// How many were read.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    fn damaged(&self, what: &'static str) -> BlockError {
        BlockError::Damaged {
            block: self.blocks,
            what,
        }
    }
}

/// Reads as much as there is.
fn fill(from: &mut impl Read, to: &mut [u8]) -> Result<usize, BlockError> {
    let mut filled = 0;
    while filled < to.len() {
        match from.read(&mut to[filled..]) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(BlockError::Io(error)),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_blocks() -> Vec<u8> {
        let mut writer = BlockWriter::new(Vec::new()).unwrap();
        writer.block(Kind::Rows, &vec![7; 100_000]).unwrap();
        writer.block(Kind::End, b"").unwrap();
        let (bytes, count) = writer.finish().unwrap();
        assert_eq!(count, bytes.len() as u64);
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = two_blocks();
        assert!(bytes.len() < 2_000, "compressed");
        let mut reader = BlockReader::new(&bytes[..]).unwrap();
        let (kind, block) = reader.read().unwrap();
        assert_eq!((kind, block), (Kind::Rows, &vec![7; 100_000][..]));
        assert_eq!(reader.read().unwrap(), (Kind::End, &b""[..]));
        assert!(matches!(reader.read(), Err(BlockError::Truncated(2))));
        assert!(
            BlockWriter::new(Vec::new())
                .unwrap()
                .block(Kind::Rows, &vec![0; BLOCK_BYTES_MAX + 1])
                .is_err()
        );
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let bytes = two_blocks();
        let read = |bytes: &[u8]| -> Result<(), BlockError> {
            let mut reader = BlockReader::new(bytes)?;
            while reader.read()?.0 != Kind::End {}
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
        writer.block(Kind::Rows, &vec![0; 4 << 20]).unwrap();
        let (mut bytes, _) = writer.finish().unwrap();
        let stored = bytes[12 + HEADER_BYTES..].to_vec();
        let lying = header(Kind::Rows as u8, 10, stored.len(), &stored);
        bytes[12..12 + HEADER_BYTES].copy_from_slice(&lying);
        let mut reader = BlockReader::new(&bytes[..]).unwrap();
        assert!(matches!(
            reader.read(),
            Err(BlockError::Damaged { block: 1, .. })
        ));
        assert!(reader.bytes.capacity() < 1 << 16);
    }
}
