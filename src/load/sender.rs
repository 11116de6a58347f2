//! `sendmmsg`: up to 64 packets for one call into the kernel.
//!
//! One function, called by each sending thread of `run` on its own sockets. It keeps nothing between calls: the headers
//! live on its stack (5 KiB, filled in about a tenth of a microsecond for 64 packets, where the kernel takes a microsecond
//! for one), so there is no pointer that could outlive what it points to.
//!
//! This file contains `unsafe` because the standard library has no call that sends several datagrams. The invariant: every
//! pointer that the kernel gets is made from a reference that is alive during the call, and lengths are those of the slices
//! that the pointers were taken from. No raw pointer leaves this file.
#![expect(
    unsafe_code,
    reason = "sendmmsg has no safe wrapper among our dependencies"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Packets in one batch at most.
pub(super) const BATCH_PACKETS_MAX: usize = 64;

/// Sends `packets` (the first 64 of them) on a connected socket and returns how many the kernel took, from the front.
///
/// # Errors
/// What the kernel says when it takes not even the first; an error of a later packet is met again by the next call.
pub(super) fn send_batch(socket: BorrowedFd<'_>, packets: &[&[u8]]) -> io::Result<usize> {
    let packets = &packets[..packets.len().min(BATCH_PACKETS_MAX)];
    let mut iovecs = [libc::iovec {
        iov_base: ptr::null_mut(),
        iov_len: 0,
    }; BATCH_PACKETS_MAX];
    // SAFETY: an array of C structs of integers and pointers, for which zero is a valid value: no address (the socket
    // is connected), no control data, no flags.
    let mut headers: [libc::mmsghdr; BATCH_PACKETS_MAX] = unsafe { std::mem::zeroed() };
    for ((header, iovec), packet) in headers.iter_mut().zip(&mut iovecs).zip(packets) {
        // The kernel only reads through `iov_base` when it sends; the C type has no const.
        iovec.iov_base = packet.as_ptr().cast_mut().cast();
        iovec.iov_len = packet.len();
        header.msg_hdr.msg_iov = ptr::from_mut(iovec);
        header.msg_hdr.msg_iovlen = 1;
    }
    // SAFETY: the file descriptor is open (borrowed). The first `packets.len()` headers, at most as many as the array
    // has, each point to one iovec, and that to the bytes of one packet; headers, iovecs and packets outlive the call.
    let sent = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            packets.len() as libc::c_uint,
            0,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::time::Duration;

    fn pair() -> (UdpSocket, UdpSocket) {
        let to = UdpSocket::bind("127.0.0.1:0").unwrap();
        to.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let from = UdpSocket::bind("127.0.0.1:0").unwrap();
        from.connect(to.local_addr().unwrap()).unwrap();
        (to, from)
    }

    #[test]
    fn each_packet_arrives_as_it_was_and_in_order() {
        let (to, from) = pair();
        let packets: Vec<Vec<u8>> = (0..100).map(|i| vec![i; usize::from(i) * 13]).collect();
        let slices: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
        assert_eq!(
            send_batch(from.as_fd(), &slices).unwrap(),
            BATCH_PACKETS_MAX
        );
        assert_eq!(
            send_batch(from.as_fd(), &slices[BATCH_PACKETS_MAX..]).unwrap(),
            36
        );
        let mut buffer = [0; 2048];
        for packet in &packets {
            let bytes = to.recv(&mut buffer).unwrap();
            assert_eq!(buffer[..bytes], packet[..]);
        }
    }

    #[test]
    fn nothing_is_sent_when_there_is_nothing() {
        let (_to, from) = pair();
        assert_eq!(send_batch(from.as_fd(), &[]).unwrap(), 0);
    }

    #[test]
    fn errors_are_told_and_a_later_one_leaves_what_was_before() {
        let (to, from) = pair();
        let long = vec![0; 65_508];
        let error = send_batch(from.as_fd(), &[&long]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
        assert_eq!(
            send_batch(from.as_fd(), &[b"first", &long, b"third"]).unwrap(),
            1
        );
        let mut buffer = [0; 16];
        assert_eq!(to.recv(&mut buffer).unwrap(), 5);

        drop(to);
        // The first packet goes out; the answer that nobody is there comes back with the second.
        let refused = (0..10).find_map(|_| send_batch(from.as_fd(), &[b"packet"]).err());
        assert_eq!(refused.unwrap().kind(), io::ErrorKind::ConnectionRefused);
    }
}
