//! The macro of the table of keys: from one declaration of each it makes the structs of values, the
//! list of keys, and what a reload does with each. Names in it are those of the table's file.

/// Declares the lists of tables, and sections, their keys and the structs that hold their values.
///
/// A list is `name => field: Type, live;`, a key `name: Type = default, kind, "why the range",
/// live;`; the last one and the reason are optional. A reload leaves a list `apart` to its caller.
macro_rules! settings {
    (lists {$(
        $(#[doc = $of_list:literal])*
        $list:ident => $field:ident: $Entry:ty $(, $how:ident)?;
    )*}
    $(
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
            $($(#[doc = $of_list])* pub $field: Vec<$Entry>,)*
            /// Why the folder that `data.dir = "auto"` stands for is there and cannot be used.
            pub folder_refused: Option<String>,
            /// Where keys and lists were given.
            pub locations: BTreeMap<&'static str, Location>,
        }

        /// The lists of tables.
        pub(super) const LISTS: [&str; [$(stringify!($list)),*].len()] = [$(stringify!($list)),*];

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
                    $($field: Vec::new(),)*
                    folder_refused: None,
                    locations: raw.locations(),
                }
            }

            /// Takes over from `new` the settings that can change at run time, except `[[report]]`
            /// entries. Returns the keys and lists that changed, and those that need a restart and
            /// keep their value.
            pub(crate) fn reload(&mut self, new: &Self) -> Changes {
                let mut changes = Changes::default();
                $($(
                    let name = concat!(stringify!($section), ".", stringify!($key));
                    settings!(@take self.$section.$key, new.$section.$key, changes, name $(, $live)?);
                )*)*
                $(settings!(@take self.$field, new.$field, changes, stringify!($list) $(, $how)?);)*
                changes
            }
        }
    };
    (@take $old:expr, $new:expr, $changes:ident, $name:expr, live) => {
        if $old != $new {
            $changes.live.push($name);
        }
        // Locations too, which do not count as a change.
        $old.clone_from(&$new);
    };
    (@take $old:expr, $new:expr, $changes:ident, $name:expr, apart) => {};
    (@take $old:expr, $new:expr, $changes:ident, $name:expr) => {
        if $old != $new {
            $changes.needs_restart.push($name);
        }
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
