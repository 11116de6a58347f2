//! How the heap is shared by threads: two arenas of the C library instead of eight a core.
//!
//! glibc gives threads that allocate arenas of their own, and an arena keeps the pages of the largest moment that it has seen.
//! Threads that answer come and go, so which arenas see a large report or a query is chance: resident memory climbed for hours
//! by a step of some MiB whenever another one saw its first. All of them in two are at their largest within minutes.
//!
//! Nobody waits for it: receivers and merger take no memory for a packet (`tests/it/memory.rs`).
//!
//! The `unsafe` code is one call without pointers.

/// Arenas of the heap, the first of them that of the main thread.
pub const ARENAS_MAX: i32 = 2;

/// Sets it up. To be called before there is another thread.
///
/// What the operator has set (`MALLOC_ARENA_MAX`, or `glibc.malloc.arena_max` in `GLIBC_TUNABLES`) stays as it is. With another C
/// library than glibc it does nothing.
pub fn share_arenas() {
    let set = |name: &str, part: &str| {
        std::env::var_os(name).is_some_and(|value| value.to_string_lossy().contains(part))
    };
    if set("MALLOC_ARENA_MAX", "") || set("GLIBC_TUNABLES", "glibc.malloc.arena_max") {
        return;
    }
    #[cfg(target_env = "gnu")]
    {
        #[expect(unsafe_code, reason = "no crate wraps mallopt")]
        // SAFETY: two integers; it takes the allocator's own lock, and no other thread is there yet.
        let _known = unsafe { libc::mallopt(libc::M_ARENA_MAX, ARENAS_MAX) };
    }
}
