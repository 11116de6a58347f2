//! The time that a page shows: now, or a span of the past, perhaps compared with another.
//!
//! It is in the URL as in the API (`from`, `to`, `tz`, `compare`), is parsed here for every page,
//! and is part of every link that [`Time::link`] creates. The control above each page (`control`)
//! consists of links and a form, so it needs no script.

use std::fmt::Display;
use std::ops::Range;

use maud::{Markup, html};

use super::formatting;
use super::frame::hidden_fields;
use super::render::Kind;
use crate::clock::rfc3339;
use crate::http::error::Problem;
use crate::http::fleet;
use crate::http::params::{Params, Rounding, moment, owned, pairs};
use crate::http::time_range::{Span, Zone};
use crate::query::answer::OfSpan;
use crate::query::catalog::Catalog;
use crate::query::question::{ReportQuestion, RequestSearch, Spans, Whose};
use crate::report::definition::Columns;
use crate::series::EVERYTHING;
use crate::value::link::{link, row_link, row_page};

mod control;

/// The parameters in the URL.
pub(super) use crate::value::link::TIME_NAMES as NAMES;

/// Uncounted seconds that need no mention: the newest are on their way. Likewise a part of the span
/// that changes no rate as far as it is shown.
const UNCOUNTED_SECS_MAX: u64 = 2;
const UNCOUNTED_DIVISOR: u64 = 500;

/// The time that a page shows.
#[derive(Debug, Clone, Default)]
pub(super) struct Time {
    /// The parameters as given.
    given: Vec<(String, String)>,
    /// Their meaning, in whole minutes except on pages of raw requests; `None` is now.
    pub(super) spans: Option<Spans>,
    /// Whose requests are shown.
    pub(super) whose: Whose,
    /// The time zone of the page.
    zone: Zone,
    /// Unix seconds.
    now: u64,
    /// Why the past cannot be shown; empty where the page says so above all.
    why_not: Option<String>,
}

/// Takes whose requests are shown: the fleet's only with an explicit `fleet`, since `dc` and
/// `collector` may be keys of a report.
pub(super) fn take_whose(params: &mut Params) -> Result<Whose, Problem> {
    fleet::take(params, || ["dc", "collector"].map(str::to_owned).to_vec())
}

impl Time {
    /// That of the address of a page, perhaps of one about a report. The span of all that a page
    /// shows is that of its tables, widened to whole minutes.
    pub(super) fn read(
        source: &Catalog,
        query: Option<&str>,
        report: Option<&str>,
        kind: Kind,
    ) -> Result<Self, Problem> {
        let mut params = Params::of_form(query)?;
        let has_span = kind == Kind::Compared;
        let mut span = Span::take_compared(&mut params);
        if has_span {
            span = span.or_before();
        }
        let whose = fleet::checked(take_whose(&mut params)?, source)?;
        let window = (has_span || whose.is_fleet()).then(|| fleet::window(source, EVERYTHING));
        let report = report.unwrap_or(EVERYTHING);
        let spans = span.at(source.now_ms(&whose), window)?;
        let spans = spans.map(|spans| match kind {
            Kind::ExactSpan => spans,
            _ => source.widened_spans(report, &spans, &whose),
        });
        let is_fleet = |name: &str| whose.is_fleet() && fleet::NAMES.contains(&name);
        let given = params
            .iter()
            .filter(|(name, _)| NAMES.contains(name) || is_fleet(name))
            // Other pages have nothing to compare without a span.
            .filter(|(name, _)| *name != "compare" || whose.is_fleet() || !span.is_now());
        Ok(Self {
            given: given.map(owned).collect(),
            spans,
            whose,
            zone: span.zone()?,
            now: source.unix_ms() / 1_000,
            why_not: source.past_keys(report).err().map(|why| match why.to_string() {
                why if source.cannot_keep().contains(&why) => String::new(),
                why => why,
            }),
        })
    }

    /// A time as given, which was not accepted.
    pub(super) fn unread(params: &Params) -> Self {
        let given = params.iter().filter(|(name, _)| NAMES.contains(name));
        Self { given: given.map(owned).collect(), ..Self::default() }
    }

    /// Whether no span is given, and so it is the present.
    pub(super) fn is_now(&self) -> bool {
        !self.whose.is_fleet() && self.get("from").or(self.get("to")).is_none()
    }

    /// The present of this daemon, in the same zone.
    pub(super) fn present(&self) -> Self {
        let mut given = self.given.clone();
        given.retain(|(name, _)| name == "tz");
        Self { given, spans: None, whose: Whose::Own, ..self.clone() }
    }

    /// As parameters.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        pairs(&self.given)
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.pairs().find_map(|(given, value)| (given == name).then_some(value))
    }

    /// A URL with the same time.
    pub(super) fn link<'a>(
        &'a self,
        path: &str,
        params: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> String {
        link(path, params.into_iter().chain(self.pairs()))
    }

    /// The URL of a request's page; ids of the past are unique within their run.
    pub(super) fn request_link(
        &self,
        id: impl Display,
        run: Option<impl ToString>,
        more: Option<(&str, &str)>,
    ) -> String {
        let run = run.map(|run| run.to_string());
        let run = run.as_deref().map(|run| ("run", run));
        link(&format!("/requests/{id}"), more.into_iter().chain(run).chain(self.pairs()))
    }

    /// A URL below a report with the keys of a row.
    pub(super) fn row_link<'a>(
        &'a self,
        report: &str,
        file: &str,
        keys: impl IntoIterator<Item = (&'a str, &'a str)>,
        more: Option<(&'a str, &'a str)>,
    ) -> String {
        row_link(report, file, keys, more.into_iter().chain(self.pairs()))
    }

    /// A link to the page of a row, or to its report's if there are no keys.
    pub(super) fn row_page<'a>(
        &'a self,
        report: &str,
        keys: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> String {
        row_page(report, keys, self.pairs())
    }

    /// The time as form fields.
    pub(super) fn fields(&self) -> Markup {
        hidden_fields(self.pairs())
    }

    /// Restricts a search to this time.
    pub(super) fn narrow(&self, search: &mut RequestSearch) {
        if let Some(Spans { span, .. }) = &self.spans {
            search.since = search.since.max(Some(span.start));
            let last = span.end.saturating_sub(1);
            search.until = Some(search.until.map_or(last, |until| until.min(last)));
        }
    }

    /// A note on a page that has no past.
    pub(super) fn only_now(&self) -> Markup {
        html! { @if self.spans.is_some() { p.note { "This page always shows the present." } } }
    }

    /// A note on data that is not available for the fleet.
    pub(super) fn only_here(&self) -> Markup {
        html! { @if self.whose.is_fleet() { p.note { "This daemon only: raw requests of the whole fleet are in ClickHouse." } } }
    }

    /// Whether there is a past, so that a chart can be zoomed.
    pub(super) fn has_past(&self) -> bool {
        self.why_not.is_none()
    }

    /// Seconds after which a page about the past should be reloaded; 0 for never.
    pub(super) fn refresh(&self) -> Option<u64> {
        let to = self.get("to").filter(|to| *to != "now");
        let is_over = |spans: &Spans| to.is_some() && spans.span.end < self.now;
        self.spans.as_ref().map(|spans| if is_over(spans) { 0 } else { 60 })
    }

    /// The name of the zone.
    pub(super) fn zone(&self) -> String {
        self.zone.name()
    }

    /// A time in the zone, with the day if it is not today.
    pub(super) fn moment(&self, unix_secs: u64) -> Markup {
        let [shown, now] = [unix_secs, self.now].map(|at| self.zone.shown(at));
        let format = if shown.date() == now.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
        html! { time datetime=(rfc3339(unix_secs)) { (shown.format(format)) } }
    }

    /// A text with its RFC 3339 times converted to the zone.
    pub(super) fn in_zone(&self, text: &str) -> String {
        let word = |word: &str| {
            let bare = word.trim_end_matches([',', ';', '.', ')']);
            let at = moment(bare, Rounding::Down).filter(|_| bare.ends_with('Z'));
            let Some(at) = at else { return word.to_owned() };
            let shown = self.zone.shown(at).format("%Y-%m-%d %H:%M:%S");
            format!("{shown} {}{}", self.zone(), &word[bare.len()..])
        };
        text.split(' ').map(word).collect::<Vec<_>>().join(" ")
    }

    /// The question for a report at this time; in the columns of the native form, or in its own.
    pub(super) fn question(
        &self,
        percentiles: Option<&[f64]>,
        equal: &[(String, String)],
    ) -> ReportQuestion {
        ReportQuestion {
            when: self.spans.clone().into(),
            whose: self.whose.clone(),
            columns: percentiles.map_or(Columns::Own, |it| Columns::Native(it.to_vec())),
            needed: None,
            equal: equal.to_vec(),
        }
    }

    /// From when to when: `2026-11-22 10:00 to 11:00 UTC`.
    pub(super) fn words(&self, span: &Range<u64>) -> String {
        let [from, to] = [span.start, span.end].map(|at| self.zone.shown(at));
        let day = if from.date() == to.date() { "" } else { "%Y-%m-%d " };
        let is_whole = [span.start, span.end].iter().all(|at| at.is_multiple_of(60));
        let clock = if is_whole { "%H:%M" } else { "%H:%M:%S" };
        let formats = [format!("%Y-%m-%d {clock}"), format!("{day}{clock}")];
        let (from, to) = (from.format(&formats[0]), to.format(&formats[1]));
        format!("{from} to {to} {}", self.zone())
    }

    /// The time of raw rows of which the oldest came at this moment, in words: that of the page, or
    /// up to now.
    pub(super) fn since(&self, oldest: u64) -> String {
        if let Some(spans) = &self.spans {
            return self.words(&spans.span);
        }
        let secs = self.now.saturating_sub(oldest).max(1);
        // Rows leave a little before or after their window ends.
        let minutes = (secs + 30) / 60 * 60;
        let is_near = minutes.abs_diff(secs) <= secs / 100;
        format!("last {}", formatting::lasting(if is_near { minutes } else { secs }))
    }

    /// The span that an answer covers, in words.
    pub(super) fn about(&self, of_span: &OfSpan, covered: u64) -> String {
        let Spans { span, before } = &of_span.spans;
        let mut about = self.words(span);
        if covered == 0 {
            about += ", no data";
        } else {
            // The running minute has not been counted to its end.
            let all = span.end.min(self.now).saturating_sub(span.start);
            let missing = all.saturating_sub(covered);
            if missing > UNCOUNTED_SECS_MAX.max(all / UNCOUNTED_DIVISOR) {
                let covered = formatting::lasting(covered);
                about += &format!(", counted for {covered} of it, which rates are over");
            }
        }
        if let Some(before) = before {
            about += &format!(", compared with {}", self.words(before));
        }
        if let Some(error) = of_span.percentile_error {
            about += &format!(", percentiles within {}", formatting::percent(100.0 * error));
        }
        about
    }

    /// Marks for a scale over a span, round in the zone, with labels.
    pub(super) fn ticks(&self, span: Range<u64>) -> Vec<(f64, String)> {
        const DAY: u64 = 86_400;
        const STEPS: [u64; 17] = [
            5, 15, 30, 60, 120, 300, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400,
            172_800, 604_800, 1_209_600,
        ];
        let secs = span.end - span.start;
        let step = STEPS.into_iter().find(|step| secs / step <= 4);
        let step = step.unwrap_or(30 * DAY * secs.div_ceil(150 * DAY));
        let tick = |at| {
            let shown = self.zone.shown(at);
            let format = match step {
                _ if step > 14 * DAY => "%b %Y",
                _ if shown.time() == chrono::NaiveTime::MIN => "%b %-d",
                ..60 => "%H:%M:%S",
                _ => "%H:%M",
            };
            (at as f64, shown.format(format).to_string())
        };
        self.zone.every(step, span).map(tick).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::tests::harness::catalog;

    pub(super) fn time(query: &str) -> Time {
        let time = Time::read(&catalog(0), Some(query), None, Kind::ExactSpan).unwrap();
        assert!(time.why_not.as_ref().is_some_and(|why| why.contains("no history")));
        Time { why_not: None, ..time }
    }

    #[test]
    fn links_keep_the_time() {
        let day = time("sort=x&from=2026-11-22&to=2026-11-23&tz=UTC&compare=");
        let kept = "from=2026-11-22&to=2026-11-23&tz=UTC";
        assert_eq!(day.link("/x", [("a", "<b>")]), format!("/x?a=%3Cb%3E&{kept}"));
        let keys = ["from", "span", "script_name"].map(|key| (key, "1"));
        assert_eq!(
            day.row_link("r s", "row", keys, Some(("span", "5m"))),
            format!("/reports/r%20s/row?key.from=1&key.span=1&script_name=1&span=5m&{kept}")
        );
        assert_eq!(day.row_page("r s", []), format!("/reports/r%20s?{kept}"));
        let row = day.row_page("r", [("script_name", "/a")]);
        assert_eq!(row, format!("/reports/r/row?script_name=%2Fa&{kept}"));
        assert_eq!(day.fields().into_string().matches("<input").count(), 3);
        assert_eq!(time("").link("/x", []), "/x");
    }

    #[test]
    fn the_present_has_the_zone_alone() {
        let present = time("from=-2h&to=-1h&tz=UTC").present();
        assert_eq!(present.link("/x", []), "/x?tz=UTC");
        assert!(present.is_now() && present.spans.is_none());
    }

    #[test]
    fn a_page_reloads_until_its_span_is_over() {
        for (query, refresh) in [
            ("", None),
            ("from=-1h", Some(60)),
            ("from=-1h&to=now", Some(60)),
            ("from=@d&to=@d%2B1d", Some(60)),
            ("from=-2h&to=-1h", Some(0)),
        ] {
            assert_eq!(time(query).refresh(), refresh, "{query}");
        }
    }

    #[test]
    fn a_page_has_one_clock() {
        let page = Time { now: 1_795_305_600, ..time("tz=Europe/Berlin") };
        let shown = |at| page.moment(at).into_string();
        assert_has!(shown(1_795_302_000) => ">00:00:00<");
        assert!(shown(1_795_301_999).contains(">2026-11-21 23:59:59<"));
        let text = "nothing is kept from before 2026-11-22T00:00:00Z, or 30";
        let there = "nothing is kept from before 2026-11-22 01:00:00 Europe/Berlin, or 30";
        assert_eq!(page.in_zone(text), there);
        let control = page.control("/", &Params::default()).into_string();
        assert_has!(control => "Times in <b>Europe/Berlin</b>");
    }

    #[test]
    fn seconds_that_were_not_counted_are_said() {
        let page = time("from=2026-11-22T10:16&to=2026-11-22T10:17");
        let Spans { span, .. } = page.spans.clone().unwrap();
        let about = |now: u64, span: Range<u64>, covered| {
            let spans = Spans { span, before: None };
            let of_span = OfSpan { spans, resolution_seconds: 60, percentile_error: None };
            let about = Time { now, ..page.clone() }.about(&of_span, covered);
            about.split_once(" UTC").unwrap().1.to_owned()
        };
        let (start, minute) = (span.start, span.clone());
        let later = start + 100_000;
        for (now, covered, said) in [
            (later, 60, ""),
            (later, 58, ""),
            (later, 57, ", counted for 57 s of it, which rates are over"),
            (later, 18, ", counted for 18 s of it, which rates are over"),
            (later, 0, ", no data"),
            // It is running, and so is the newest second.
            (start + 20, 18, ""),
            (start + 20, 17, ", counted for 17 s of it, which rates are over"),
            // The clock was set back.
            (start - 5, 18, ""),
        ] {
            assert_eq!(about(now, minute.clone(), covered), said, "{covered} s at {now}");
        }
        let hours = start..start + 36_000;
        assert_eq!(about(later, hours.clone(), 35_928), "");
        let minutes = start..start + 180;
        for (span, covered, said) in [(hours, 35_900, "9 h 58 min"), (minutes, 149, "2 min 29 s")] {
            let said = format!(", counted for {said} of it, which rates are over");
            assert_eq!(about(later, span, covered), said);
        }
    }

    #[test]
    fn scales_have_round_marks() {
        let shown = |query: &str| {
            let time = time(query);
            let span = time.spans.clone().unwrap().span;
            let ticks = time.ticks(span.clone()).into_iter();
            let ticks: Vec<String> = ticks.map(|(_, text)| text).collect();
            (ticks.join(" "), time.words(&span))
        };
        let (ticks, words) = shown("from=2026-11-22T22:10&to=2026-11-23T01:00");
        assert_eq!(ticks, "23:00 Nov 23");
        assert_eq!(words, "2026-11-22 22:10 to 2026-11-23 01:00 UTC");
        let (ticks, words) = shown("from=1795305600&to=1795305630");
        assert_eq!(ticks, "Nov 22 00:00:15");
        assert_eq!(words, "2026-11-22 00:00:00 to 00:00:30 UTC");
        let (ticks, _) = shown("from=2026-01-01&to=2036-01-01");
        assert!((3..=6).contains(&ticks.matches(" 20").count()), "{ticks}");
    }
}
