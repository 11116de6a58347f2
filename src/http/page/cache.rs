//! Caches pages, so that each is built at most once a second, however many people look at it.
//!
//! Live pages reload every second, and show sums over whole reports. So a page is kept for a
//! second, by its URL, and a request that comes while it is being built waits for it. Errors are
//! kept as well. At most [`PAGES_MAX`] pages of [`PAGE_BYTES_MAX`] are kept; others are built each
//! time. Called from tasks; the lock is held for a look-up.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::compressed::Text;
use crate::http::error::Problem;

/// Most pages kept.
const PAGES_MAX: usize = 32;
/// Longest page kept, in bytes, uncompressed; a usual one has a quarter of that.
const PAGE_BYTES_MAX: usize = 128 << 10;
/// Most bytes of kept pages, each plain and compressed.
pub(super) const BYTES: usize = 2 * PAGES_MAX * PAGE_BYTES_MAX;
/// Largest age of a page that is served.
const AGE_MAX: Duration = Duration::from_millis(900);
/// Longest URL kept, in bytes.
const TARGET_BYTES_MAX: usize = 1024;

type Made = Arc<OnceCell<Result<Text, Problem>>>;

/// The pages of the last second.
#[derive(Debug, Default)]
pub(in crate::http) struct PageCache {
    pages: Mutex<HashMap<String, (Instant, Made)>>,
}

impl PageCache {
    /// The page for this URL, built by `make` unless it was built just now.
    pub(super) async fn get(
        &self,
        target: &str,
        make: impl Future<Output = Result<Text, Problem>>,
    ) -> Result<Text, Problem> {
        match self.slot(target) {
            Some(slot) => {
                let made = slot.get_or_init(|| make).await.clone();
                if matches!(&made, Ok(text) if text.plain().len() > PAGE_BYTES_MAX) {
                    self.pages.lock().remove(target);
                }
                made
            }
            None => make.await,
        }
    }

    fn slot(&self, target: &str) -> Option<Made> {
        if target.len() > TARGET_BYTES_MAX {
            return None;
        }
        let now = Instant::now();
        let mut pages = self.pages.lock();
        if let Some((made, slot)) = pages.get(target)
            && now.duration_since(*made) < AGE_MAX
        {
            return Some(Arc::clone(slot));
        }
        pages.retain(|_, (made, _)| now.duration_since(*made) < AGE_MAX);
        if pages.len() >= PAGES_MAX {
            return None;
        }
        let slot = Made::default();
        pages.insert(target.to_owned(), (now, Arc::clone(&slot)));
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn requests_within_a_second_get_the_same_page() {
        let (cache, made) = (PageCache::default(), AtomicUsize::new(0));
        let get = |target: &'static str| {
            let (cache, made) = (&cache, &made);
            async move {
                let make = async {
                    tokio::task::yield_now().await;
                    made.fetch_add(1, Ordering::SeqCst);
                    Ok(Text::new(target))
                };
                cache.get(target, make).await.unwrap().plain().clone()
            }
        };
        let (a, b, c) = tokio::join!(get("/a"), get("/a"), get("/b"));
        assert_eq!([a, b, c], ["/a", "/a", "/b"]);
        assert_eq!(made.load(Ordering::SeqCst), 2);
        tokio::time::advance(AGE_MAX - Duration::from_millis(1)).await;
        get("/a").await;
        assert_eq!(made.load(Ordering::SeqCst), 2);
        tokio::time::advance(Duration::from_millis(1)).await;
        get("/a").await;
        assert_eq!(made.load(Ordering::SeqCst), 3);
    }

    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn no_more_are_kept_than_planned() {
        let cache = PageCache::default();
        let get = async |cache: &PageCache, target: &str, text: &str| {
            let text = Text::new(text.to_owned());
            let got = cache.get(target, async { Ok(text.clone()) }).await;
            assert_eq!(got.unwrap().plain(), text.plain());
        };
        for page in 0..3 * PAGES_MAX {
            let target = format!("/{page}");
            get(&cache, &target, &target).await;
        }
        assert_eq!(cache.pages.lock().len(), PAGES_MAX);
        let cache = PageCache::default();
        get(&cache, "/", &"x".repeat(PAGE_BYTES_MAX + 1)).await;
        assert!(cache.pages.lock().is_empty());
        let long = "x".repeat(TARGET_BYTES_MAX + 1);
        assert!(cache.slot(&long).is_none());
    }
}
