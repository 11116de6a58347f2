//! Numbers that the daemon reports about itself: the only source of `/api/v1/status`, `SHOW STATUS`
//! and `/metrics`.
//!
//! A [`Reading`] is one number with its name, kind and help. Counters are declared once in
//! [`counters`](super::counters); numbers looked up on demand (pool sizes, memory) are declared
//! where they are looked up. A [`Group`] is a set of related numbers: the status itself, an object
//! in it, or one of a list of objects, such as a socket.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

/// Name and labels of a metric.
pub type Series = (String, Vec<(String, String)>);

/// Counts by series.
pub type SeriesCounts = BTreeMap<Series, u64>;

/// Kind of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows; rates are meaningful.
    Counter,
    /// Moves both ways; only the present value is meaningful.
    Gauge,
    /// Repeats another number under a name that Pinba had; not exported as a metric.
    Alias,
}

/// A number with its description.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Name in the status; ends with the unit.
    pub name: &'static str,
    /// Name of the metric, if different; without `pinbad_`, unit and `_total`.
    pub metric: Option<&'static str>,
    /// Help text of a sentence or two.
    pub help: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// Present value: a number, a text, or an object of counts by reason.
    pub value: Json,
}

impl Reading {
    /// Creates a number that is looked up on demand.
    pub(crate) fn new(
        kind: Kind,
        name: &'static str,
        help: &'static str,
        value: impl Into<Json>,
    ) -> Self {
        Self { name, metric: None, help, kind, value: value.into() }
    }

    /// Returns the count, summed over all reasons.
    pub(crate) fn total(&self) -> u64 {
        let count = |value: &Json| value.as_u64().or(value.as_f64().map(|number| number as u64));
        match &self.value {
            Json::Object(reasons) => reasons.values().filter_map(count).sum(),
            value => count(value).unwrap_or(0),
        }
    }
}

/// Declares numbers that are looked up on demand, one a line: kind, name (and the metric's name, if
/// different), value, help.
macro_rules! readings {
    ($( $kind:ident $name:ident $(as $metric:literal)? = $value:expr, $help:literal; )*) => {
        vec![ $( {
            use $crate::telemetry::reading::{Kind, Reading};
            let reading = Reading::new(Kind::$kind, stringify!($name), $help, $value);
            $( let reading = Reading { metric: Some($metric), ..reading }; )?
            reading
        } ),* ]
    };
}
pub(crate) use readings;

/// Position of a [`Group`] in the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The status itself.
    Top,
    /// An object of this name.
    Object(&'static str),
    /// An element of a list; the second name denotes one of them in metrics. A group without
    /// members stands for an empty list.
    List(&'static str, &'static str),
}

/// Related numbers.
#[derive(Debug, Clone)]
pub struct Group {
    /// Position in the status.
    pub place: Place,
    /// Labels that distinguish the metrics of a list's elements.
    pub labels: Vec<(&'static str, String)>,
    /// Members other than numbers; they come first.
    pub texts: Map<String, Json>,
    /// The numbers.
    pub readings: Vec<Reading>,
}

impl Group {
    /// Creates a group of numbers only.
    pub(crate) fn new(place: Place, readings: Vec<Reading>) -> Self {
        Self { place, labels: Vec::new(), texts: Map::new(), readings }
    }

    /// Creates an element of a list, identified by its index and its description.
    pub(crate) fn listed(
        place: Place,
        at: usize,
        (label, is): (&'static str, String),
        readings: Vec<Reading>,
    ) -> Self {
        let mut group = Self::new(place, readings);
        if let Place::List(_, one) = place {
            group.labels = vec![(one, at.to_string()), (label, is)];
        }
        group
    }

    /// Returns the value of a number, by reason if it is counted so.
    pub(crate) fn value(&self, name: &str) -> Option<Json> {
        self.readings.iter().find(|it| it.name == name).map(|it| it.value.clone())
    }

    /// Adds members other than numbers; `texts` has to be an object.
    pub(crate) fn with_texts(mut self, texts: Json) -> Self {
        if let Json::Object(texts) = texts {
            self.texts = texts;
        }
        self
    }

    /// Returns the count of a number, or 0 if there is no such number.
    pub(crate) fn count(&self, name: &str) -> u64 {
        self.readings.iter().find(|it| it.name == name).map_or(0, Reading::total)
    }

    fn members(&self) -> Map<String, Json> {
        let mut members = self.texts.clone();
        for reading in &self.readings {
            let value = match self.place {
                Place::List(..) => reading.total().into(),
                Place::Top | Place::Object(_) => reading.value.clone(),
            };
            members.insert(reading.name.to_owned(), value);
        }
        members
    }
}

/// Builds the object of `GET /api/v1/status`.
pub(crate) fn object(groups: &[Group]) -> Map<String, Json> {
    let mut object = Map::new();
    for group in groups {
        match group.place {
            Place::Top => object.extend(group.members()),
            Place::Object(name) => {
                object.insert(name.to_owned(), group.members().into());
            }
            Place::List(name, _) => {
                let list = object.entry(name).or_insert_with(|| Json::Array(Vec::new()));
                let members = group.members();
                if let Json::Array(list) = list
                    && !members.is_empty()
                {
                    list.push(members.into());
                }
            }
        }
    }
    object
}
