//! The temporary ring between receivers and merger.
//!
//! Receiver threads append records to blocks of bytes through a [`Producer`] each; the merger
//! thread takes whole blocks through the one [`Consumer`] and gives them back. Never blocks: when
//! all blocks are full, the OLDEST is overwritten and its requests are counted, because the newest
//! data is worth most and a receiver must never stall. All blocks are created at start
//! (`temp_pool_size`, `temp_pool_bytes`) and only change hands after that. Blocks used before are
//! reused before a new one is touched, so the resident size is the peak of what was needed at once.
//!
//! Built from crossbeam's bounded queues, without `unsafe`. Those are not wait-free: a thread that
//! is preempted between two instructions of a `push` makes others spin until it is back. That
//! window is a few nanoseconds, once a block.

use std::sync::Arc;

use crossbeam::queue::ArrayQueue;
use crossbeam::utils::CachePadded;

use crate::input::record::RecordSink;
use crate::limits::BLOCK_BYTES;
use crate::telemetry::SocketCounters;

/// Empty blocks kept for the receiver that filled them, so that a few warm ones circulate instead
/// of all.
const RETURNED_MAX: usize = 8;

/// Most blocks that the merger may hold at a time.
pub const HELD_MAX: usize = 6;

/// Least number of blocks in addition to two for each receiver: those the merger holds, and two
/// that [`Consumer::pop`] may keep back. That leaves one for a receiver to find at any time.
const OUTLET_BLOCKS: usize = HELD_MAX + 2;

/// The size of the ring: blocks, and requests in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingPlan {
    /// Number of blocks, all created at start.
    pub blocks: usize,
    /// Most requests in one block, however small they are.
    pub block_requests_max: u32,
}

impl RingPlan {
    /// Plans a ring that keeps `temp_pool_size` requests within `temp_pool_bytes`, for `receivers`
    /// threads.
    ///
    /// There are at least `2 x receivers + 8` blocks, even if `temp_pool_bytes` is smaller than
    /// that. The last `temp_pool_size` requests are kept if they are small enough for the bytes. Up
    /// to one block per receiver may be almost empty when the ring overflows, so each block takes a
    /// little more than its share, and a ring with all blocks full holds up to `blocks x
    /// block_requests_max`: 0.4 % more than requested with the defaults and two receivers, and less
    /// than twice as much (plus one per block) in the smallest ring.
    pub fn new(temp_pool_size: usize, temp_pool_bytes: usize, receivers: usize) -> Self {
        let receivers = receivers.max(1);
        let blocks = (temp_pool_bytes / BLOCK_BYTES).max(2 * receivers + OUTLET_BLOCKS);
        let share = temp_pool_size.div_ceil(blocks - receivers).max(1);
        Self { blocks, block_requests_max: u32::try_from(share).unwrap_or(u32::MAX) }
    }

    /// Bytes of all blocks, for the memory plan.
    pub const fn bytes(&self) -> usize {
        self.blocks * BLOCK_BYTES
    }

    /// Most requests that can wait.
    pub const fn requests_max(&self) -> usize {
        self.blocks * self.block_requests_max as usize
    }
}

/// A run of records from one receiver, oldest first.
#[derive(Debug)]
pub struct Block {
    /// The records, one after the other.
    pub bytes: Vec<u8>,
    /// How many records there are.
    pub requests: u32,
    /// The receiver that filled it: its counters get the requests, and the block goes back to it.
    pub lane: usize,
    /// Sequence number among that receiver's blocks: tells which of two is older.
    turn: u64,
}

impl Block {
    fn new() -> Self {
        Self { bytes: Vec::with_capacity(BLOCK_BYTES), requests: 0, lane: 0, turn: 0 }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.requests = 0;
    }
}

/// The state of one receiver.
#[derive(Debug)]
struct Lane {
    /// Between batches: the block being filled, so that the merger need not wait until it is full.
    open: CachePadded<ArrayQueue<Box<Block>>>,
    /// Empty blocks that came back from the merger.
    returned: CachePadded<ArrayQueue<Box<Block>>>,
    /// Counts of the socket this receiver reads: pushed, popped and overwritten requests.
    counters: Arc<SocketCounters>,
}

/// The state shared by producers and the consumer; by itself it only tells how full it is.
#[derive(Debug)]
pub struct TempRing {
    /// Full blocks, oldest first, from all receivers.
    filled: ArrayQueue<Box<Block>>,
    /// Empty blocks that no receiver has used recently.
    spare: ArrayQueue<Box<Block>>,
    /// Empty blocks never used: the kernel gives them memory when they are written.
    untouched: ArrayQueue<Box<Block>>,
    lanes: Box<[Lane]>,
    plan: RingPlan,
}

impl TempRing {
    /// Creates all blocks, and one producer for each of `sockets`, in that order.
    ///
    /// # Panics
    /// If `plan` has fewer than `2 x sockets + 8` blocks, or `sockets` is empty: an error in the
    /// start-up code.
    pub fn new(
        plan: RingPlan,
        sockets: &[Arc<SocketCounters>],
    ) -> (Arc<Self>, Vec<Producer>, Consumer) {
        assert!(!sockets.is_empty(), "a ring needs a receiver");
        assert!(
            plan.blocks >= 2 * sockets.len() + OUTLET_BLOCKS,
            "too few blocks for the receivers"
        );
        assert!(plan.block_requests_max > 0, "a block has to take a request");
        let untouched = ArrayQueue::new(plan.blocks);
        while !untouched.is_full() {
            untouched.force_push(Box::new(Block::new()));
        }
        let lanes = sockets
            .iter()
            .map(|counters| Lane {
                open: CachePadded::new(ArrayQueue::new(1)),
                returned: CachePadded::new(ArrayQueue::new(RETURNED_MAX)),
                counters: Arc::clone(counters),
            })
            .collect();
        let ring = Arc::new(Self {
            filled: ArrayQueue::new(plan.blocks),
            spare: ArrayQueue::new(plan.blocks),
            untouched,
            lanes,
            plan,
        });
        let producers = (0..sockets.len())
            .map(|lane| Producer { ring: Arc::clone(&ring), lane, block: None, fresh: 0, turn: 0 })
            .collect();
        let consumer = Consumer {
            ring: Arc::clone(&ring),
            held: 0,
            round: Round::default(),
            newest: None,
            next: None,
        };
        (ring, producers, consumer)
    }

    /// Bytes of the blocks that wait for the merger.
    pub fn waiting_bytes(&self) -> u64 {
        (self.filled.len() * BLOCK_BYTES) as u64
    }

    /// Requests that wait for the merger, without those of a batch being decoded right now.
    ///
    /// Slightly too high while the merger runs, never too low: departures are read before arrivals.
    pub fn depth(&self) -> u64 {
        let left: u64 = self
            .lanes
            .iter()
            .map(|lane| {
                lane.counters.requests_popped.get() + lane.counters.requests_overwritten.get()
            })
            .sum();
        let came: u64 = self.lanes.iter().map(|lane| lane.counters.requests_pushed.get()).sum();
        came.saturating_sub(left)
    }

    /// The plan it was created with.
    pub const fn plan(&self) -> RingPlan {
        self.plan
    }

    /// An empty block for receiver `lane`: its own warm ones, spares, new ones, those of other
    /// receivers, and if there is none, the oldest filled one.
    ///
    /// There always is one. Each receiver has at most one block (in hand or open), the consumer at
    /// most [`OUTLET_BLOCKS`], so at least one block per receiver lies in the queues searched here.
    /// A search can miss it only if another thread moved blocks meanwhile, that is, made progress
    /// of its own.
    fn take_empty(&self, lane: usize) -> Box<Block> {
        loop {
            let empty = self.lanes[lane]
                .returned
                .pop()
                .or_else(|| self.spare.pop())
                .or_else(|| self.untouched.pop())
                .or_else(|| self.lanes.iter().find_map(|other| other.returned.pop()));
            if let Some(block) = empty {
                return block;
            }
            if let Some(mut block) = self.filled.pop() {
                self.overwrite(&mut block);
                return block;
            }
            std::hint::spin_loop();
        }
    }

    /// Counts the requests of `block` as overwritten, for the socket they came from, and empties
    /// it.
    fn overwrite(&self, block: &mut Block) {
        self.lanes[block.lane].counters.requests_overwritten.add(u64::from(block.requests));
        block.clear();
    }
}

/// A receiver's end of the ring, the only one that fills blocks of its lane.
#[derive(Debug)]
pub struct Producer {
    ring: Arc<TempRing>,
    lane: usize,
    /// The block being filled, during a batch.
    block: Option<Box<Block>>,
    /// Requests in `block` not yet counted as pushed.
    fresh: u32,
    /// Blocks taken so far.
    turn: u64,
}

impl RecordSink for Producer {
    /// May take the next block, and with a full ring overwrite the oldest one. `None` only if
    /// `bytes` is more than [`BLOCK_BYTES`]: no block fits such a record.
    #[inline]
    fn reserve(&mut self, bytes: usize) -> Option<&mut Vec<u8>> {
        if bytes > BLOCK_BYTES {
            return None;
        }
        if !self.fits(bytes) {
            self.next_block(bytes);
        }
        let block = self.block.as_mut()?;
        block.requests += 1;
        self.fresh += 1;
        Some(&mut block.bytes)
    }
}

impl Producer {
    #[inline]
    fn fits(&self, bytes: usize) -> bool {
        self.block.as_ref().is_some_and(|block| {
            block.requests < self.ring.plan.block_requests_max
                && BLOCK_BYTES - block.bytes.len() >= bytes
        })
    }

    /// Makes pushed records available to the merger. Call it after each batch; does nothing if
    /// nothing was pushed.
    pub fn publish(&mut self) {
        let Some(block) = self.block.take() else { return };
        self.count_fresh();
        if let Some(mut old) = self.ring.lanes[self.lane].open.force_push(block) {
            // Impossible: only this producer puts blocks there, and it took the last one before it
            // got another.
            self.ring.overwrite(&mut old);
            self.ring.spare.force_push(old);
        }
    }

    /// Whether half of the blocks wait for the merger: producers that can wait should.
    pub fn is_crowded(&self) -> bool {
        self.ring.filled.len() > self.ring.plan.blocks / 2
    }

    /// Gets a block with room for `bytes`.
    #[cold]
    fn next_block(&mut self, bytes: usize) {
        if self.block.is_none() {
            // First record of a batch: continue where the last one ended, unless the merger took
            // it.
            self.block = self.ring.lanes[self.lane].open.pop();
            if self.fits(bytes) {
                return;
            }
        }
        // The full one is passed on before the next is taken, so that one is always found.
        if let Some(block) = self.block.take() {
            self.count_fresh();
            if let Some(mut old) = self.ring.filled.force_push(block) {
                // Impossible: the queue has a place for every block.
                self.ring.overwrite(&mut old);
                self.ring.spare.force_push(old);
            }
        }
        let mut block = self.ring.take_empty(self.lane);
        self.turn += 1;
        block.lane = self.lane;
        block.turn = self.turn;
        self.block = Some(block);
    }

    /// Runs before the block can be popped, so that no request leaves before it is counted.
    fn count_fresh(&mut self) {
        self.ring.lanes[self.lane].counters.requests_pushed.add(u64::from(self.fresh));
        self.fresh = 0;
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.publish();
    }
}

/// The position of [`Consumer::pop`] in its walk over the ring.
#[derive(Debug, Default)]
struct Round {
    /// Whether a walk has begun.
    begun: bool,
    /// Filled blocks to take before going on.
    filled: usize,
    /// The next open slot to check.
    lane: usize,
}

/// The merger's end of the ring.
#[derive(Debug)]
pub struct Consumer {
    ring: Arc<TempRing>,
    /// Blocks that the merger has not given back yet.
    held: usize,
    round: Round,
    /// An open block, taken before the filled ones that are older than it.
    newest: Option<Box<Block>>,
    /// A filled block that turned out to be younger than `newest` was.
    next: Option<Box<Block>>,
}

impl Consumer {
    /// The next block, or `None` when the walk over the ring is complete; the next call then starts
    /// a new one.
    ///
    /// A walk takes the filled blocks that existed when it began, then each receiver's open one,
    /// and ends even if receivers push all the time. Records of one receiver come in the order in
    /// which they were pushed; between receivers the order is that in which blocks became full.
    ///
    /// Also `None` while the merger holds [`HELD_MAX`] blocks: they have to be given back first.
    pub fn pop(&mut self) -> Option<Box<Block>> {
        if self.held >= HELD_MAX {
            return None;
        }
        let block = self.next_block()?;
        self.held += 1;
        self.ring.lanes[block.lane].counters.requests_popped.add(u64::from(block.requests));
        Some(block)
    }

    fn next_block(&mut self) -> Option<Box<Block>> {
        if let Some(block) = self.next.take() {
            return Some(block);
        }
        if !self.round.begun {
            self.round = Round { begun: true, filled: self.ring.filled.len(), lane: 0 };
        }
        loop {
            if self.round.filled > 0 {
                if let Some(block) = self.ring.filled.pop() {
                    self.round.filled -= 1;
                    // Overwriting moves younger blocks into the counted places.
                    let younger =
                        |open: &mut Box<Block>| open.lane == block.lane && open.turn < block.turn;
                    if let Some(older) = self.newest.take_if(younger) {
                        self.next = Some(block);
                        return Some(older);
                    }
                    return Some(block);
                }
                self.round.filled = 0;
            }
            if let Some(block) = self.newest.take() {
                return Some(block);
            }
            let Some(lane) = self.ring.lanes.get(self.round.lane) else {
                self.round = Round::default();
                return None;
            };
            self.round.lane += 1;
            self.newest = lane.open.pop();
            if self.newest.is_some() {
                // Its receiver may have filled blocks since the walk began, and they are older.
                self.round.filled = self.ring.filled.len();
            }
        }
    }

    /// Returns a block from [`Consumer::pop`] for reuse. The ring permanently lacks one that is
    /// dropped instead.
    pub fn give_back(&mut self, mut block: Box<Block>) {
        block.clear();
        self.held -= 1;
        let refused = self.ring.lanes[block.lane].returned.push(block);
        if let Err(block) = refused {
            // The queue of spares has a place for every block.
            self.ring.spare.force_push(block);
        }
    }
}

#[cfg(test)]
#[path = "ring/tests.rs"]
mod tests;
