//! Stand-ins for the modules of the feature `sql` in a build without it: types of which there is no
//! value, and constants of no size, so that the rest of the program is the same in both builds.
//!
//! The five modules that such a build replaces as a whole are files beside the real ones:
//! `daemon/no_history`, `daemon/no_sql`, `query/catalog/no_past`, `http/api/no_sql` and
//! `http/answer/no_arrow`.

/// History.
pub mod history {
    use crate::instruments::Instrument;
    use crate::state::last_end::LostAtStop;
    use crate::telemetry::reading::Group;

    pub(crate) const INSTRUMENTS: [&Instrument; 0] = [];

    /// There is none.
    #[derive(Debug, Clone)]
    pub enum History {}

    impl History {
        pub(crate) fn why_failing(&self) -> Option<String> {
            match *self {}
        }

        pub(crate) fn why_lacking(&self) -> Option<String> {
            match *self {}
        }

        pub(crate) fn copy_requests(&self) {
            match *self {}
        }

        pub(crate) fn lost_at_stop(&self) -> Option<LostAtStop> {
            match *self {}
        }

        pub(crate) fn status(&self) -> Group {
            match *self {}
        }
    }

    /// Inspects a folder of history.
    pub mod inspect {
        use std::convert::Infallible;
        use std::path::Path;

        pub(crate) fn check(_: &Path) -> Result<(), Infallible> {
            Ok(())
        }
    }

    /// Imports of logs.
    pub mod import {
        pub(crate) const BYTES: usize = 0;

        /// There is none.
        #[derive(Debug)]
        pub enum Importer {}
    }
}

/// ClickHouse.
pub mod clickhouse {
    use crate::instruments::Instrument;
    use crate::telemetry::reading::Group;

    pub(crate) const INSTRUMENTS: [&Instrument; 0] = [];

    /// There is none.
    #[derive(Debug)]
    pub enum Fleet {}

    /// There is none.
    #[derive(Debug)]
    pub enum ShipStatus {}

    impl ShipStatus {
        pub(crate) fn why_failing(&self) -> Option<String> {
            match *self {}
        }

        pub(crate) fn group(&self) -> Group {
            match *self {}
        }
    }
}

/// SQL.
pub mod sql {
    use crate::instruments::Instrument;
    use crate::instruments::memory::Gauge;

    pub(crate) const INSTRUMENTS: [&Instrument; 0] = [];
    pub(crate) static VERBS: [Instrument; 0] = [];

    /// There is none.
    #[derive(Debug, Clone)]
    pub enum Engine {}

    impl Engine {
        pub(crate) fn memory_gauge(&self) -> Gauge {
            match *self {}
        }
    }
}
