//! `sendmmsg`: up to 64 packets per system call.
//!
//! One function, called by each sending thread of `run` on its own sockets. It keeps nothing
//! between calls.
//!
//! Consecutive packets of equal length can go as one message that the kernel splits at the end of
//! its path (`UDP_SEGMENT`, Linux 4.18): they arrive as separate datagrams, for a fifth of the
//! sender's time.
//!
//! This file contains `unsafe` because none of our libraries sets that option. The invariant: the
//! pointer passed to the kernel is made from a reference to an `int` that is alive during the call.
//! It does not leave this file.
#![expect(unsafe_code, reason = "UDP_SEGMENT has no safe wrapper among our dependencies")]

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg, sendmsg};

use crate::limits::UDP_PAYLOAD_BYTES_MAX;

/// Most packets in one batch, and most segments that the kernel takes in one message.
pub(super) const BATCH_PACKETS_MAX: usize = 64;

/// Sends `packets` (the first 64 of them) on a connected socket and returns how many the kernel
/// took, from the front. Up to `segments_max` neighbours of equal length are one message; with 1,
/// none are, and none ever were on this socket, which remembers the length.
///
/// # Errors
/// The kernel's error if it does not take even the first; an error of a later packet is met again
/// by the next call, unless it answers an earlier packet: that one the kernel keeps to itself.
pub(super) fn send_batch(
    socket: BorrowedFd<'_>,
    packets: &[&[u8]],
    segments_max: usize,
) -> io::Result<usize> {
    let packets = &packets[..packets.len().min(BATCH_PACKETS_MAX)];
    let mut slices = [IoSlice::new(&[]); BATCH_PACKETS_MAX];
    for (slice, packet) in slices.iter_mut().zip(packets) {
        *slice = IoSlice::new(packet);
    }
    let slices = &slices[..packets.len()];
    if segments_max == 1 {
        let mut controls = [(); BATCH_PACKETS_MAX].map(|()| SendAncillaryBuffer::default());
        let messages = slices.chunks(1).zip(&mut controls);
        let mut messages: Vec<_> =
            messages.map(|(packet, control)| MMsgHdr::new(packet, control)).collect();
        return Ok(sendmmsg(socket, &mut messages, SendFlags::empty())?);
    }
    let mut sent = 0;
    for run in slices.chunk_by(|a, b| a.len() == b.len()) {
        let bytes = run[0].len();
        let segments = segments_max.min(UDP_PAYLOAD_BYTES_MAX / bytes.max(1));
        for message in run.chunks(segments.max(1)) {
            let taken = cut_into(socket, bytes).and_then(|()| {
                let mut control = SendAncillaryBuffer::default();
                Ok(sendmsg(socket, message, &mut control, SendFlags::empty())?)
            });
            match taken {
                Ok(_) => sent += message.len(),
                Err(error) if sent == 0 => return Err(error),
                Err(_) => return Ok(sent),
            }
        }
    }
    Ok(sent)
}

/// Makes the kernel split longer messages of this socket into datagrams of `bytes` bytes.
fn cut_into(socket: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let bytes = bytes as libc::c_int;
    // SAFETY: the file descriptor is open (borrowed), and the pointer is to an int, as the length
    // says.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            ptr::from_ref(&bytes).cast(),
            size_of_val(&bytes) as libc::socklen_t,
        )
    };
    match set {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::time::Duration;

    fn pair() -> (UdpSocket, UdpSocket) {
        let to = UdpSocket::bind("127.0.0.1:0").unwrap();
        to.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let from = UdpSocket::bind("127.0.0.1:0").unwrap();
        from.connect(to.local_addr().unwrap()).unwrap();
        (to, from)
    }

    /// Sends all of `packets` and checks that they arrive unchanged and in order.
    fn assert_arrive(packets: &[Vec<u8>], segments_max: usize) {
        let (to, from) = pair();
        let slices: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
        let mut sent = 0;
        let mut buffer = vec![0; 65_536];
        while sent < slices.len() {
            let taken = send_batch(from.as_fd(), &slices[sent..], segments_max).unwrap();
            assert_eq!(taken, (slices.len() - sent).min(BATCH_PACKETS_MAX));
            for packet in &packets[sent..sent + taken] {
                let bytes = to.recv(&mut buffer).unwrap();
                assert!(buffer[..bytes] == packet[..], "{bytes} of {} bytes", packet.len());
            }
            sent += taken;
        }
    }

    #[test]
    fn each_packet_arrives_as_it_was_and_in_order() {
        let packets: Vec<Vec<u8>> = (0..100).map(|i| vec![i; usize::from(i) * 13]).collect();
        assert_arrive(&packets, 1);
        assert_arrive(&packets, 64);
    }

    #[test]
    fn packets_of_equal_length_arrive_one_by_one() {
        for segments_max in [1, 2, 7, 64] {
            // Runs of 1 to 30 of one length; the content differs from packet to packet.
            let lengths = (1..=30).flat_map(|run| vec![run * 11; run]);
            let packets: Vec<Vec<u8>> =
                lengths.enumerate().map(|(i, bytes)| vec![(i % 251) as u8; bytes]).collect();
            assert_arrive(&packets, segments_max);
            // Together longer than a message can be.
            let long: Vec<Vec<u8>> = (0..9).map(|i| vec![i; 9000]).collect();
            assert_arrive(&long, segments_max);
        }
    }

    /// Batches on both sides at once on several threads: every byte of every packet, in order,
    /// whatever the lengths.
    #[test]
    fn what_many_threads_send_in_batches_arrives_in_batches_byte_for_byte() {
        use crate::input::udp::batch::Batch;

        const PACKETS: usize = if cfg!(debug_assertions) { 4_000 } else { 200_000 };
        let threads: Vec<_> = (0..4_u64)
            .map(|seed| {
                std::thread::spawn(move || {
                    let (to, from) = pair();
                    let mut batch = Batch::new(true);
                    let mut state = seed * 7919 + 1;
                    let mut random = || {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        (state >> 33) as usize
                    };
                    let mut done = 0;
                    while done < PACKETS {
                        // Runs of one length, few enough for any buffer.
                        let mut packets: Vec<Vec<u8>> = Vec::new();
                        while packets.len() < 12 {
                            let (bytes, run) = (1 + random() % 1400, 1 + random() % 5);
                            let run = (0..run).map(|_| vec![random() as u8; bytes]);
                            packets.extend(run);
                        }
                        let slices: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
                        let mut sent = 0;
                        while sent < slices.len() {
                            let segments_max = if seed == 0 { 1 } else { 2 + random() % 7 };
                            sent +=
                                send_batch(from.as_fd(), &slices[sent..], segments_max).unwrap();
                        }
                        let mut seen = 0;
                        while seen < packets.len() {
                            let received = batch.receive(to.as_fd()).unwrap();
                            assert!(received > 0, "nothing is lost on the loopback");
                            for datagram in batch.datagrams() {
                                assert!(*datagram == packets[seen], "packet {seen} of {}", done);
                                seen += 1;
                            }
                            let own = from.local_addr().unwrap().ip();
                            let own = crate::input::udp::senders::bits(own);
                            assert!(batch.senders().all(|sender| sender == own));
                        }
                        done += packets.len();
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
    }

    #[test]
    fn nothing_is_sent_when_there_is_nothing() {
        let (_to, from) = pair();
        assert_eq!(send_batch(from.as_fd(), &[], 1).unwrap(), 0);
    }

    #[test]
    fn errors_are_told_and_a_later_one_leaves_what_was_before() {
        let (to, from) = pair();
        let long = vec![0; 65_508];
        for segments_max in [1, 64] {
            let error = send_batch(from.as_fd(), &[&long], segments_max).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
            let packets: [&[u8]; 4] = [b"first", b"again", &long, b"fourth"];
            assert_eq!(send_batch(from.as_fd(), &packets, segments_max).unwrap(), 2);
            let mut buffer = [0; 16];
            for expected in [b"first", b"again"] {
                assert_eq!(to.recv(&mut buffer).unwrap(), 5);
                assert_eq!(buffer[..5], expected[..]);
            }
        }

        // Nobody listens there any more, and nobody else gets the port.
        to.connect(to.local_addr().unwrap()).unwrap();
        // The first packet goes out; the ICMP error comes back with the second.
        let refused = (0..10).find_map(|_| send_batch(from.as_fd(), &[b"packet"], 1).err());
        assert_eq!(refused.unwrap().kind(), io::ErrorKind::ConnectionRefused);
    }
}
