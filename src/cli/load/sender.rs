//! `sendmmsg`: up to 64 packets for one call into the kernel.
//!
//! One function, called by each sending thread of `run` on its own sockets. It keeps nothing between calls: the
//! headers live on its stack (7 KiB, filled in a fraction of a microsecond for 64 packets, where the kernel takes two
//! for one), so there is no pointer that could outlive what it points to.
//!
//! Packets of equal length that follow one another can go as one message, which the kernel cuts up at the end of the
//! way (`UDP_SEGMENT`, Linux 4.18): they arrive as they would have alone, for a fifth of the sender's time.
//!
//! This file contains `unsafe` because the standard library has no call that sends several datagrams. The invariant:
//! every pointer that the kernel gets is made from a reference that is alive during the call, and lengths are those of
//! what the pointers were taken from. No raw pointer leaves this file.
#![expect(
    unsafe_code,
    reason = "sendmmsg has no safe wrapper among our dependencies"
)]

use std::io;
use std::mem::{offset_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

#[cfg(not(miri))]
use libc::sendmmsg;

#[cfg(miri)]
use self::pretended::sendmmsg;
use crate::limits::UDP_PAYLOAD_BYTES_MAX;

#[cfg(miri)]
mod pretended;

/// Packets in one batch at most. The kernel takes as many segments of one message.
pub(super) const BATCH_PACKETS_MAX: usize = 64;

/// The control data of a message that the kernel shall cut into datagrams of `bytes` bytes.
///
/// ```text
/// | cmsg_len | cmsg_level | cmsg_type | bytes |      |
/// 0          8            12          16      18     24 = CMSG_SPACE(2)
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
struct Segments {
    header: libc::cmsghdr,
    bytes: u16,
}

/// `CMSG_LEN(2)`: the space after `bytes` does not count.
const SEGMENTS_LEN: usize = offset_of!(Segments, bytes) + size_of::<u16>();

/// Sends `packets` (the first 64 of them) on a connected socket and returns how many the kernel took, from the front.
/// Up to `segments_max` neighbours of equal length are one message; 1: none are.
///
/// # Errors
/// What the kernel says when it takes not even the first; an error of a later packet is met again by the next call.
pub(super) fn send_batch(
    socket: BorrowedFd<'_>,
    packets: &[&[u8]],
    segments_max: usize,
) -> io::Result<usize> {
    let packets = &packets[..packets.len().min(BATCH_PACKETS_MAX)];
    // SAFETY: three arrays of C structs of integers and pointers, for which zero is a valid value. In `headers` it
    // means no address (the socket is connected), no control data, no flags.
    let mut iovecs: [libc::iovec; BATCH_PACKETS_MAX] = unsafe { zeroed() };
    // SAFETY: as above.
    let mut headers: [libc::mmsghdr; BATCH_PACKETS_MAX] = unsafe { zeroed() };
    // SAFETY: as above.
    let mut controls: [Segments; BATCH_PACKETS_MAX] = unsafe { zeroed() };
    for (iovec, packet) in iovecs.iter_mut().zip(packets) {
        // The kernel only reads through `iov_base` when it sends; the C type has no const.
        iovec.iov_base = packet.as_ptr().cast_mut().cast();
        iovec.iov_len = packet.len();
    }
    let all_iovecs = iovecs.as_mut_ptr();
    let mut packets_of = [0; BATCH_PACKETS_MAX];
    let (mut messages, mut first) = (0, 0);
    while first < packets.len() {
        let segments = segments(&packets[first..], segments_max);
        let (header, control) = (&mut headers[messages].msg_hdr, &mut controls[messages]);
        header.msg_iov = all_iovecs.wrapping_add(first);
        header.msg_iovlen = segments as _;
        if segments > 1 {
            control.header.cmsg_len = SEGMENTS_LEN as _;
            control.header.cmsg_level = libc::SOL_UDP;
            control.header.cmsg_type = libc::UDP_SEGMENT;
            control.bytes = u16::try_from(packets[first].len()).expect("a segment of a datagram");
            header.msg_control = ptr::from_mut(control).cast();
            header.msg_controllen = size_of::<Segments>() as _;
        }
        packets_of[messages] = segments;
        messages += 1;
        first += segments;
    }
    // SAFETY: the file descriptor is open (borrowed). The first `messages` headers, at most as many as the array has,
    // each point to a part of `iovecs` and to nothing or one element of `controls`; the iovecs point to the bytes of
    // `packets`. All of them outlive the call, and no reference to them is used during it.
    let sent = unsafe {
        sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            messages as libc::c_uint,
            0,
        )
    };
    let sent = usize::try_from(sent).map_err(|_| io::Error::last_os_error())?;
    Ok(packets_of[..sent].iter().sum())
}

/// How many packets from the front may be one message; at least one.
fn segments(packets: &[&[u8]], segments_max: usize) -> usize {
    let bytes = packets[0].len();
    let fit = UDP_PAYLOAD_BYTES_MAX / bytes.max(1);
    let most = segments_max.min(fit).max(1);
    packets
        .iter()
        .take(most)
        .take_while(|packet| packet.len() == bytes)
        .count()
}

/// `tests/miri.sh`: the kernel may read what it is told to, and that is the packets.
#[cfg(test)]
#[cfg(miri)]
mod in_miri {
    use std::os::fd::AsFd;

    use super::pretended::SENT;
    use super::*;

    #[test]
    fn the_kernel_may_read_what_it_is_told_to() {
        let stdin = std::io::stdin();
        let lengths = [0, 0, 1, 7, 7, 7, 300, 300, 9, 0];
        let packets: Vec<Vec<u8>> = lengths
            .iter()
            .enumerate()
            .map(|(at, bytes)| vec![at as u8; *bytes])
            .collect();
        let slices: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
        for segments_max in [1, 2, 64] {
            let sent = send_batch(stdin.as_fd(), &slices, segments_max).unwrap();
            assert_eq!(sent, packets.len());
            let seen = SENT.take();
            let with_bytes = |all: &[Vec<u8>]| -> Vec<Vec<u8>> {
                all.iter().filter(|one| !one.is_empty()).cloned().collect()
            };
            assert_eq!(with_bytes(&seen), with_bytes(&packets));
        }
        assert_eq!(send_batch(stdin.as_fd(), &[], 64).unwrap(), 0);
    }
}

#[cfg(test)]
#[cfg(not(miri))]
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

    /// Sends all of `packets`, and looks that they arrive as they are and in order.
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
                assert!(
                    buffer[..bytes] == packet[..],
                    "{bytes} of {} bytes",
                    packet.len()
                );
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
            let packets: Vec<Vec<u8>> = lengths
                .enumerate()
                .map(|(i, bytes)| vec![(i % 251) as u8; bytes])
                .collect();
            assert_arrive(&packets, segments_max);
            // All of them would be longer than a message can be.
            let long: Vec<Vec<u8>> = (0..9).map(|i| vec![i; 9000]).collect();
            assert_arrive(&long, segments_max);
        }
    }

    /// Batches of both sides at once on several threads: every byte of every packet, in order, whatever the lengths are.
    #[test]
    fn what_many_threads_send_in_batches_arrives_in_batches_byte_for_byte() {
        use crate::input::udp::batch::Batch;

        const PACKETS: usize = if cfg!(debug_assertions) {
            4_000
        } else {
            200_000
        };
        let threads: Vec<_> = (0..4_u64)
            .map(|seed| {
                std::thread::spawn(move || {
                    let (to, from) = pair();
                    let mut batch = Batch::with_senders();
                    let mut state = seed * 7919 + 1;
                    let mut random = || {
                        state = state
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1);
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
                            let segments_max = 1 + random() % 8;
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

        // Nobody is there any more, and nobody else gets the port.
        to.connect(to.local_addr().unwrap()).unwrap();
        // The first packet goes out; the answer that nobody is there comes back with the second.
        let refused = (0..10).find_map(|_| send_batch(from.as_fd(), &[b"packet"], 1).err());
        assert_eq!(refused.unwrap().kind(), io::ErrorKind::ConnectionRefused);
    }
}
