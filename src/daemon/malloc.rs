//! Tunes the heap: two arenas of the C library instead of eight per core, and separate pages for
//! large blocks.
//!
//! glibc gives allocating threads arenas of their own, and an arena keeps the pages of its peak.
//! Threads that answer requests come and go, so which arenas see a large report or query is chance:
//! resident memory climbed for hours by some MiB whenever another one saw its first. With two
//! arenas all of them reach their peak within minutes.
//!
//! A freed block leaves its pages to its arena, however large it is: glibc raises the threshold for
//! separate pages to the largest block it has seen freed. With a fixed threshold the large buffers
//! of answers and deltas go back to the system: 250 MB became 235 with a million requests of five
//! timers. Free memory at the end of an arena is returned above the same threshold: with glibc's,
//! 128 KiB, each piece of a large answer got new pages, which cost a third of the system time.
//!
//! This slows nothing down: receivers and merger allocate nothing per packet
//! (`tests/it/memory.rs`).
//!
//! The `unsafe` code is a call without pointers.

/// Arenas of the heap, including that of the main thread.
pub const ARENAS_MAX: i32 = 2;

/// Blocks of this size get pages of their own, and an arena keeps up to this much free memory at
/// its end.
const OWN_PAGES_BYTES: i32 = 4 << 20;

/// Sets up the allocator. Call it before there is another thread.
///
/// Settings of the operator (`MALLOC_ARENA_MAX`, `MALLOC_MMAP_THRESHOLD_`, or the same in
/// `GLIBC_TUNABLES`) are kept. Does nothing with C libraries other than glibc.
pub fn set_up() {
    let set = |name: &str, part: &str| {
        std::env::var_os(name).is_some_and(|value| value.to_string_lossy().contains(part))
    };
    #[cfg(target_env = "gnu")]
    for (parameter, value, name) in [
        (libc::M_ARENA_MAX, ARENAS_MAX, "ARENA_MAX"),
        (libc::M_MMAP_THRESHOLD, OWN_PAGES_BYTES, "MMAP_THRESHOLD_"),
        (libc::M_TRIM_THRESHOLD, OWN_PAGES_BYTES, "TRIM_THRESHOLD_"),
    ] {
        let tunable = name.trim_end_matches('_').to_lowercase();
        if set(&format!("MALLOC_{name}"), "") || set("GLIBC_TUNABLES", &tunable) {
            continue;
        }
        #[expect(unsafe_code, reason = "no crate wraps mallopt")]
        // SAFETY: two integers; it takes the allocator's own lock, and no other thread is there
        // yet.
        let _known = unsafe { libc::mallopt(parameter, value) };
    }
}
