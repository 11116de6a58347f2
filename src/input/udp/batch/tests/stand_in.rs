//! A fake `recvmmsg` for Miri, which has no sockets: it writes where the pointers say, as much as
//! the lengths allow, so that Miri checks whether each of them may be written through.

use std::slice;

/// The datagrams of the next calls: their lengths, and senders.
pub(super) const LENGTHS: [usize; 5] = [3, 0, 65_507, 1, 65_508];

/// As `libc::recvmmsg`.
///
/// # Safety
/// As there.
pub(super) unsafe fn recvmmsg(
    _socket: libc::c_int,
    headers: *mut libc::mmsghdr,
    count: libc::c_uint,
    flags: libc::c_int,
    timeout: *mut libc::timespec,
) -> libc::c_int {
    assert_eq!(flags, libc::MSG_WAITFORONE);
    assert!(timeout.is_null());
    // All slots, not only those that get a datagram: the kernel may write to each of them.
    for at in 0..count as usize {
        // SAFETY: the caller promises `count` headers.
        let header = unsafe { &mut *headers.add(at) };
        assert_eq!(header.msg_hdr.msg_iovlen, 1);
        // SAFETY: the caller promises one iovec behind each header.
        let iovec = unsafe { *header.msg_hdr.msg_iov };
        let bytes = LENGTHS[at % LENGTHS.len()];
        assert!(bytes <= iovec.iov_len);
        // SAFETY: the caller promises this many writable bytes behind each iovec.
        let buffer =
            unsafe { slice::from_raw_parts_mut(iovec.iov_base.cast::<u8>(), iovec.iov_len) };
        buffer[..bytes].fill(at as u8);
        header.msg_len = bytes as libc::c_uint;
        let name = header.msg_hdr.msg_name.cast::<u8>();
        if !name.is_null() {
            let length = header.msg_hdr.msg_namelen as usize;
            // SAFETY: the caller promises this many bytes of name.
            let name = unsafe { slice::from_raw_parts_mut(name, length) };
            name[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            name[4..8].copy_from_slice(&[127, 0, 0, at as u8]);
            header.msg_hdr.msg_namelen = 16;
        }
    }
    count as libc::c_int
}
