//! The memory budget that all reports share.
//!
//! What groups, journals and histograms take is added up after every merge. Past the budget no new group is made:
//! new keys fold into `(other)`; a little further, ticks are closed without their histograms and percentiles become
//! NULL until those ticks have left the window. Sums stay exact in either case.

/// How much the reports may take, and how much they do.
#[derive(Debug)]
pub(super) struct Budget {
    limit: usize,
    used: usize,
    folded: u64,
}

impl Budget {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            used: 0,
            folded: 0,
        }
    }

    /// Sets what is used now; true when pressure ended, so that what was folded may unfold.
    pub(super) fn measure(&mut self, used: usize) -> bool {
        let before = self.exhausted();
        self.used = used;
        before && !self.exhausted()
    }

    /// Whether no new group may be made: the last eighth is kept for the journals of the groups that exist.
    pub(super) fn exhausted(&self) -> bool {
        self.used > self.limit / 8 * 7
    }

    /// Whether even histograms must be left out.
    pub(super) fn exhausted_for_histograms(&self) -> bool {
        self.used > self.limit
    }

    /// A record found no group of its own.
    pub(super) fn folded(&mut self) {
        self.folded += 1;
    }

    /// Goes on counting from what another process counted.
    pub(super) fn restore_folded(&mut self, folded: u64) {
        self.folded += folded;
    }

    /// How often a new key was folded, ever.
    pub(super) fn folded_count(&self) -> u64 {
        self.folded
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }
}
