//! The macro of the table of keys: from one declaration of each it makes the structs of values, the
//! list of keys, and what a reload does with each. Names in it are those of the table's file.

/// Declares sections, their keys and the structs that hold their values.
///
/// A key is `name: Type = default, kind, "why the range", live;`; the last two are optional.
macro_rules! settings {
    ($(
        $(#[doc = $about:literal])*
        $section:ident: $Section:ident {$(
            $(#[doc = $doc:literal])*
            $key:ident: $Type:ty = $default:literal, $kind:expr $(, $why:literal)? $(, $live:ident)?;
        )*}
    )*) => {
        $(
            $(#[doc = $about])*
            #[derive(Debug, Clone, PartialEq)]
            pub struct $Section {
                $($(#[doc = $doc])* pub $key: $Type,)*
            }
        )*

        /// Everything that `serve` needs to know. Created once at start; nothing below `main` reads
        /// a file, an environment variable or a flag.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Config {
            $($(#[doc = $about])* pub $section: $Section,)*
            /// `[[report]]` entries as given; `query` turns them into definitions.
            pub configured_reports: Vec<Entry>,
            /// `[[otlp_input]]`: listeners for OpenTelemetry spans.
            pub otlp_inputs: Vec<OtlpInput>,
            /// `[[squid]]`: logs of Squid.
            pub squids: Vec<SquidSource>,
            /// `[[stat]]`: PHP processes with the stat extension.
            pub stats: Vec<StatSource>,
            /// `[[alert]]`: rules over reports.
            pub alerts: Vec<AlertEntry>,
            /// `[[slo]]`: what share of the requests must be good.
            pub slos: Vec<SloEntry>,
            /// `[[rewrite]]`: rules for names, in the order in which they run.
            pub rewrites: Vec<RewriteRule>,
            /// `[[user]]`: who may log in over HTTP and MySQL.
            pub users: Vec<ConfiguredUser>,
            /// Why the folder that `data.dir = "auto"` stands for is there and cannot be used.
            pub folder_refused: Option<String>,
            /// Where keys and lists were given.
            pub locations: BTreeMap<&'static str, Location>,
        }

        /// All keys, in the order of `config/pinbad.toml`.
        pub(crate) static KEYS: &[Key] = &[$($(Key {
            name: concat!(stringify!($section), ".", stringify!($key)),
            default: $default,
            #[cfg(test)]
            comment: &[$($doc),*],
        },)*)*];

        impl Config {
            /// The sections filled from `raw`, in the order of [`KEYS`]; the lists of tables are
            /// still empty.
            pub(super) fn of_sections(raw: &mut RawConfig) -> Self {
                let mut keys = KEYS.iter();
                let mut next = || keys.next().expect("KEYS has an element for each field");
                Self {
                    $($section: $Section {
                        $($key: raw.value(next(), $kind.because(concat!($($why)?))),)*
                    },)*
                    configured_reports: Vec::new(),
                    otlp_inputs: Vec::new(),
                    squids: Vec::new(),
                    stats: Vec::new(),
                    alerts: Vec::new(),
                    slos: Vec::new(),
                    rewrites: Vec::new(),
                    users: Vec::new(),
                    folder_refused: None,
                    locations: raw.locations(),
                }
            }

            /// Takes over the keys of `new` that can change at run time. Returns the keys that
            /// changed, and those that need a restart and keep their value.
            pub(super) fn take_live_keys(&mut self, new: &Self) -> Changes {
                let mut changes = Changes::default();
                $($(
                    if self.$section.$key != new.$section.$key {
                        let name = concat!(stringify!($section), ".", stringify!($key));
                        settings!(@changed self.$section.$key, new.$section.$key, changes, name $(, $live)?);
                    }
                )*)*
                changes
            }
        }
    };
    (@changed $old:expr, $new:expr, $changes:ident, $name:ident, live) => {
        $old.clone_from(&$new);
        $changes.live.push($name);
    };
    (@changed $old:expr, $new:expr, $changes:ident, $name:ident) => {
        $changes.needs_restart.push($name);
    };
}

pub(super) use settings;

/// Keys and lists in which two configurations differ.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Those that changed at once.
    pub live: Vec<&'static str>,
    /// Those that need a restart.
    pub needs_restart: Vec<&'static str>,
}
