//! Numbers that the daemon reports of itself: `/api/v1/status`, `SHOW STATUS` and `/metrics` are
//! made from these alone.
//!
//! A [`Reading`] is one number with its name, kind and help; what counts
//! ([`counters`](super::counters)) declares them once, and what is looked up on demand (pool sizes,
//! memory) where it is looked up. A [`Group`] is what belongs together: the status itself, an
//! object in it, or one of a list of objects, such as a socket.

use serde_json::{Map, Value as Json};

/// How a number moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows; rates make sense.
    Counter,
    /// Moves both ways; only the present value makes sense.
    Gauge,
    /// The same as another number, under a name that Pinba had: not among the metrics.
    Alias,
}

/// One number.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Its name in the status; the unit is the last word.
    pub name: &'static str,
    /// Its name among the metrics, where that is another; without `pinbad_`, unit and `_total`.
    pub metric: Option<&'static str>,
    /// A sentence or two about it.
    pub help: &'static str,
    /// How it moves.
    pub kind: Kind,
    /// Its value now: a number, a text, or an object of counts by reason.
    pub value: Json,
}

impl Reading {
    /// A number that is looked up on demand.
    pub fn new(kind: Kind, name: &'static str, help: &'static str, value: impl Into<Json>) -> Self {
        Self {
            name,
            metric: None,
            help,
            kind,
            value: value.into(),
        }
    }

    /// The count, over all reasons.
    #[must_use]
    pub fn total(&self) -> u64 {
        let count = |value: &Json| {
            value
                .as_u64()
                .or(value.as_f64().map(|number| number as u64))
        };
        match &self.value {
            Json::Object(reasons) => reasons.values().filter_map(count).sum(),
            value => count(value).unwrap_or(0),
        }
    }
}

/// Declares numbers that are looked up on demand, one a line: kind, name (and that of the metric,
/// where it is another), value, help.
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

/// Where the numbers of a [`Group`] stand in the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the status itself.
    Top,
    /// In an object of this name.
    Object(&'static str),
    /// In one of a list of objects; the second name is that of one of them, among the metrics. A
    /// group without members stands for a list that is empty.
    List(&'static str, &'static str),
}

/// Numbers that belong together.
#[derive(Debug, Clone)]
pub struct Group {
    /// Where they stand.
    pub place: Place,
    /// In a list: what tells the metrics of one from those of another.
    pub labels: Vec<(&'static str, String)>,
    /// Members that are no numbers; they come first.
    pub texts: Map<String, Json>,
    /// The numbers.
    pub readings: Vec<Reading>,
}

impl Group {
    /// Numbers alone.
    #[must_use]
    pub fn new(place: Place, readings: Vec<Reading>) -> Self {
        Self {
            place,
            labels: Vec::new(),
            texts: Map::new(),
            readings,
        }
    }

    /// One of a list, told from the others by its place and by what it is.
    #[must_use]
    pub fn listed(
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

    /// One of the numbers, by reason if it is counted so.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<Json> {
        let named = self.readings.iter().find(|it| it.name == name);
        named.map(|it| it.value.clone())
    }

    /// The same with members that are no numbers, which have to be an object.
    #[must_use]
    pub fn with_texts(mut self, texts: Json) -> Self {
        if let Json::Object(texts) = texts {
            self.texts = texts;
        }
        self
    }

    /// The count of one of the numbers; 0 when there is no such number.
    #[must_use]
    pub fn count(&self, name: &str) -> u64 {
        let named = self.readings.iter().find(|it| it.name == name);
        named.map_or(0, Reading::total)
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

/// The object of `GET /api/v1/status`.
#[must_use]
pub fn object(groups: &[Group]) -> Map<String, Json> {
    let mut object = Map::new();
    for group in groups {
        match group.place {
            Place::Top => object.extend(group.members()),
            Place::Object(name) => {
                object.insert(name.to_owned(), group.members().into());
            }
            Place::List(name, _) => {
                let list = object
                    .entry(name)
                    .or_insert_with(|| Json::Array(Vec::new()));
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
