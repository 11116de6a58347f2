//! The memory budget that all reports share.
//!
//! What groups, shortcuts, journals and histograms take is added up after every merge, and what a merge makes is added as
//! it is made. It is used up in steps, and sums stay exact at each of them:
//!
//! | from | |
//! |---|---|
//! | 7/8 | no new group: a new key folds into `(other)`, at first only where names are without end |
//! | 15/16 | a new key folds into `(other)` whole, and no shortcut is remembered that needs memory |
//! | all | ticks are closed without their histograms; percentiles are NULL until those have left the window |

/// How much the reports may take, and how much they do.
#[derive(Debug)]
pub(super) struct Budget {
    limit: usize,
    used: usize,
    folded: u64,
    /// A key was folded since pressure ended last.
    folds: bool,
}

impl Budget {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            used: 0,
            folded: 0,
            folds: false,
        }
    }

    /// Sets what is used now; true when pressure ended, so that what was folded may unfold.
    pub(super) fn measure(&mut self, used: usize) -> bool {
        self.used = used;
        self.folds && !self.exhausted() && std::mem::take(&mut self.folds)
    }

    /// Adds what was taken or given back since the last [`measure`](Self::measure).
    pub(super) fn changed(&mut self, before: usize, after: usize) {
        self.used = (self.used + after).saturating_sub(before);
    }

    /// Bytes that shortcuts may still take.
    pub(super) fn shortcuts(&self) -> usize {
        (self.limit / 16 * 15).saturating_sub(self.used)
    }

    /// Whether no new group may be made: the last eighth is kept for the journals of the groups that exist.
    pub(super) fn exhausted(&self) -> bool {
        self.used > self.limit / 8 * 7
    }

    /// Whether not even groups may be made that a few of what folds share.
    pub(super) fn exhausted_for_folded(&self) -> bool {
        self.used > self.limit / 16 * 15
    }

    /// Whether even histograms must be left out.
    pub(super) fn exhausted_for_histograms(&self) -> bool {
        self.used > self.limit
    }

    /// A record found no group of its own.
    pub(super) fn folded(&mut self) {
        self.folded += 1;
        self.folds = true;
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
