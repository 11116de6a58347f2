//! The kernel's part of `sendmmsg`, for Miri, which has no sockets: it reads what the pointers say, and keeps it.

use std::cell::RefCell;
use std::slice;

thread_local! {
    /// The datagrams that were sent, cut up as the control data ask for.
    pub(super) static SENT: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// As `libc::sendmmsg`.
///
/// # Safety
/// As there.
pub(super) unsafe fn sendmmsg(
    _socket: libc::c_int,
    headers: *mut libc::mmsghdr,
    count: libc::c_uint,
    _flags: libc::c_int,
) -> libc::c_int {
    for at in 0..count as usize {
        // SAFETY: the caller promises `count` headers.
        let header = unsafe { &mut *headers.add(at) };
        let message = &header.msg_hdr;
        // SAFETY: the caller promises so many iovecs.
        let iovecs = unsafe { slice::from_raw_parts(message.msg_iov, message.msg_iovlen as usize) };
        let mut bytes = Vec::new();
        for iovec in iovecs {
            // SAFETY: the caller promises so many bytes behind each.
            let part = unsafe { slice::from_raw_parts(iovec.iov_base.cast::<u8>(), iovec.iov_len) };
            bytes.extend_from_slice(part);
        }
        header.msg_len = bytes.len() as libc::c_uint;
        let message = &header.msg_hdr;
        let mut segment = bytes.len();
        if !message.msg_control.is_null() {
            let length = message.msg_controllen as usize;
            let control = message.msg_control.cast::<u8>();
            // SAFETY: the caller promises so many bytes of control data.
            let control = unsafe { slice::from_raw_parts(control, length) };
            let number = |at: usize| i32::from_ne_bytes(control[at..at + 4].try_into().expect("4"));
            assert_eq!((number(8), number(12)), (libc::SOL_UDP, libc::UDP_SEGMENT));
            segment = usize::from(u16::from_ne_bytes([control[16], control[17]]));
        }
        SENT.with_borrow_mut(|sent| {
            if bytes.is_empty() {
                sent.push(Vec::new());
            }
            sent.extend(bytes.chunks(segment.max(1)).map(<[u8]>::to_vec));
        });
    }
    count as libc::c_int
}
