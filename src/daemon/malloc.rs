//! How the heap is shared by threads: two arenas of the C library instead of eight a core, and pages of their own for large blocks.
//!
//! glibc gives threads that allocate arenas of their own, and an arena keeps the pages of the largest moment that it has seen.
//! Threads that answer come and go, so which arenas see a large report or a query is chance: resident memory climbed for hours
//! by a step of some MiB whenever another one saw its first. All of them in two are at their largest within minutes.
//!
//! A block that is freed leaves its pages to its arena, however large it is: glibc raises the bound from which blocks have pages of
//! their own to the largest that it has seen freed. With a fixed bound the large buffers of answers and deltas go back to the
//! system: 250 MB became 235 with a million requests of five timers. What is free at the end of an arena goes back from the same bound
//! on: with glibc's, 128 KiB, each piece of a large answer got new pages, a third of the system's time for it.
//!
//! Nobody waits for it: receivers and merger take no memory for a packet (`tests/it/memory.rs`).
//!
//! The `unsafe` code is a call without pointers.

/// Arenas of the heap, the first of them that of the main thread.
pub const ARENAS_MAX: i32 = 2;

/// Blocks of so many bytes have pages of their own, and an arena keeps so many that are free at its end.
const OWN_PAGES_BYTES: i32 = 4 << 20;

/// Sets it up. To be called before there is another thread.
///
/// What the operator has set (`MALLOC_ARENA_MAX`, `MALLOC_MMAP_THRESHOLD_`, or the same in `GLIBC_TUNABLES`) stays as it is. With
/// another C library than glibc it does nothing.
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
        // SAFETY: two integers; it takes the allocator's own lock, and no other thread is there yet.
        let _known = unsafe { libc::mallopt(parameter, value) };
    }
}
