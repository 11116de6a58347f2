//! The control above a page, with which its time is chosen, and that for the daemons of a fleet.

use maud::{Markup, html};

use super::{NAMES, Time};
use crate::http::page::formatting::visible;
use crate::http::page::frame::hidden_fields;
use crate::http::params::{Params, as_list_item};
use crate::query::question::Spans;

/// Spans up to now: in words, and as `from`.
const PRESETS: [(&str, &str); 5] =
    [("1 h", "-1h"), ("6 h", "-6h"), ("24 h", "-24h"), ("7 d", "-7d@h"), ("30 d", "-30d@h")];

/// Spans to compare with: in words, as `compare`, and the longest span that they do not overlap,
/// seconds.
const COMPARED: [(&str, Option<&str>, u64); 4] = [
    ("nothing", None, u64::MAX),
    ("the span before", Some("span"), u64::MAX),
    ("the day before", Some("-1d"), 86_400),
    ("the week before", Some("-1w"), 7 * 86_400),
];

impl Time {
    /// The links and the form to select the time, for the page at `path` with these parameters.
    pub(in crate::http::page) fn control(&self, path: &str, params: &Params) -> Markup {
        // These mean nothing at another time, or without a comparison.
        let compares = |sort: &&str| sort.ends_with("_change") || sort.ends_with("_before");
        let sort = params.get("sort").filter(|sort| !compares(sort));
        let (from, compare) = (self.get("from"), params.get("compare"));
        // What changed is always a comparison. The span before may be given in another way.
        let is_known = COMPARED.iter().any(|it| it.1 == compare);
        let is_beside = |Spans { span, before }: &Spans| {
            let before = before.as_ref().filter(|_| !is_known);
            before.is_some_and(|it| {
                it.end == span.start && it.end - it.start == span.end - span.start
            })
        };
        let is_span = path == "/changes" && compare.is_none();
        let is_span = is_span || self.spans.as_ref().is_some_and(is_beside);
        let compared = if is_span { Some("span") } else { compare };
        let address = |from, to, compare| {
            let time = [("from", from), ("to", to), ("compare", compare)];
            let others = [("tz", self.get("tz")), ("span", None), ("sort", sort)];
            params.link(path, &[&time[..], &others[..]].concat())
        };
        let is_preset = |preset: &str| from == Some(preset) && self.get("to").is_none();
        let is_now = from.or(self.get("to")).is_none();
        let is_own = !is_now && !PRESETS.iter().any(|(_, preset)| is_preset(preset));
        let current = |is_this: bool| is_this.then_some("true");
        html! {
            nav.time aria-label="Time" {
                a href=(address(None, None, None)) aria-current=[current(is_now)] { @if self.whose.is_fleet() { "newest" } @else { "live" } }
                @if let Some(why) = &self.why_not {
                    @if !why.is_empty() { small title=(why) { (visible(why.split(';').next().unwrap_or(why))) } }
                } @else {
                    @for (text, preset) in PRESETS {
                        a href=(address(Some(preset), None, compare)) aria-current=[current(is_preset(preset))] { (text) }
                    }
                    // Open where a time was not accepted.
                    details open[is_own && self.spans.is_none()] {
                        summary aria-current=[current(is_own)] {
                            @match &self.spans { Some(spans) if is_own => (self.words(&spans.span)), _ => "custom" }
                        }
                        (self.form(path, params, sort, compared))
                    }
                }
                @if let Some(Spans { span, .. }) = &self.spans && can_compare(path) && (self.why_not.is_none() || self.whose.is_fleet()) {
                    span { "Compare with" }
                    @for (text, other, _) in COMPARED.into_iter().filter(|it| compared == it.1 || span.end - span.start <= it.2) {
                        a href=(address(from, self.get("to"), other)) aria-current=[current(compared == other)] { (text) }
                    }
                } @else if compare.is_some() && !can_compare(path) {
                    small { "not compared on this page" }
                }
                span #zone data-zones { "Times in " b { (self.zone()) } }
            }
        }
    }

    /// The links to select whose past is shown: this daemon's, or that of the fleet with these
    /// members.
    pub(in crate::http::page) fn choice(
        &self,
        members: &[(String, String)],
        path: &str,
        params: &Params,
    ) -> Markup {
        let is_fleet = self.whose.is_fleet();
        let address = |fleet, dc: Option<&str>, collector: Option<&str>| {
            params.link(path, &[("fleet", fleet), ("dc", dc), ("collector", collector)])
        };
        // Without the fleet these may be keys of a report.
        let here = match is_fleet {
            true => address(None, None, None),
            false => params.link(path, &[("fleet", None)]),
        };
        let [dc, collector] = ["dc", "collector"].map(|name| self.get(name).filter(|_| is_fleet));
        let mut dcs: Vec<&str> = members.iter().map(|(dc, _)| dc.as_str()).collect();
        dcs.dedup();
        // A member without a name cannot be selected by a link: an empty parameter counts as
        // absent.
        dcs.retain(|dc| !dc.is_empty());
        let collectors = members.iter().filter(|it| dc.is_none_or(|dc| as_list_item(&it.0) == dc));
        let collectors = collectors.map(|(_, collector)| (collector, as_list_item(collector)));
        let dcs = dcs.into_iter().map(|name| (name, as_list_item(name)));
        let current = |is_this: bool| is_this.then_some("true");
        let fields = params.changed(&[("collector", None)]);
        html! {
            nav.time aria-label="Whose" {
                a href=(here) aria-current=[current(!is_fleet)] { "this daemon" }
                a href=(address(Some("true"), None, None)) aria-current=[current(is_fleet && dc.or(collector).is_none())] { "fleet" }
                @if is_fleet {
                    @for (name, item) in dcs { a href=(address(Some("true"), Some(&item), None)) aria-current=[current(dc == Some(&*item))] { (visible(name)) } }
                    details {
                        summary aria-current=[current(collector.is_some())] { (collector.map_or_else(|| "collector".to_owned(), visible)) }
                        form.filters method="get" action=(path) {
                            (hidden_fields(fields.iter()))
                            label { "Collector "
                                select name="collector" {
                                    option value="" { "all" }
                                    @for (name, item) in collectors { option value=(item) selected[collector == Some(&*item)] { (visible(name)) } }
                                }
                            }
                            button type="submit" { "Show" }
                        }
                    }
                }
            }
        }
    }

    /// The form for any span.
    fn form(
        &self,
        path: &str,
        params: &Params,
        sort: Option<&str>,
        compared: Option<&str>,
    ) -> Markup {
        let changes = NAMES.map(|name| (name, None));
        let others = [("span", None), ("sort", sort)];
        let others = params.changed(&[&changes[..], &others[..]].concat());
        let compare = params.get("compare");
        let is_other = COMPARED.iter().all(|(_, known, _)| compared != *known);
        let field = |name: &'static str, title: &str, example: &str| {
            html! { label { (title) " " input name=(name) value=[self.get(name)] size="17" placeholder=(example) autocomplete="off"; } }
        };
        html! {
            form.filters method="get" action=(path) {
                (hidden_fields(others.iter()))
                (field("from", "From", "-7d@d"))
                (field("to", "to", "now"))
                (field("tz", "Zone", "UTC"))
                @if can_compare(path) {
                    label { "Compare with "
                        select name="compare" {
                            @for (text, other, _) in COMPARED { option value=(other.unwrap_or_default()) selected[compared == other] { (text) } }
                            @if let Some(compare) = compare.filter(|_| is_other) { option value=(compare) selected { (compare) } }
                        }
                    }
                } @else if let Some(compare) = compare {
                    input type="hidden" name="compare" value=(compare);
                }
                button type="submit" { "Show" }
                small { "2026-11-22, 2026-11-22T10:30, or relative to now: -7d, -7d@d for the start of that day" }
            }
        }
    }
}

/// Whether the page at this path can compare spans; the others pass the choice on.
fn can_compare(path: &str) -> bool {
    path == "/" || path == "/changes" || path.starts_with("/reports")
}

#[cfg(test)]
mod tests {
    use super::super::tests::time;
    use super::*;

    #[test]
    fn the_control_leads_to_the_same_page_at_another_time() {
        let given = "from=-6h&compare=-1d&q=%3Cx%3E&offset=50&sort=-p95_change&span=5m";
        let params = Params::parse(Some(given)).unwrap();
        let control = time(given).control("/reports/r", &params).into_string();
        for part in [
            "<a href=\"/reports/r?q=%3Cx%3E\">live</a>",
            "<a href=\"/reports/r?q=%3Cx%3E&amp;from=-1h&amp;compare=-1d\">1 h</a>",
            "compare=-1d\" aria-current=\"true\">6 h</a>",
            "<a href=\"/reports/r?q=%3Cx%3E&amp;from=-6h\">nothing</a>",
            "compare=-1d\" aria-current=\"true\">the day before</a>",
            "<input type=\"hidden\" name=\"q\" value=\"&lt;x&gt;\">",
            "<input name=\"from\" value=\"-6h\"",
        ] {
            assert!(control.contains(part), "{part}: {control}");
        }
        for other in ["offset", "p95_change", "span=5m"] {
            assert!(!control.contains(other), "{other}: {control}");
        }
        // The span before, given in another way.
        let beside = "from=-12h&to=-6h&compare=-6h";
        let control =
            time(beside).control("/", &Params::parse(Some(beside)).unwrap()).into_string();
        assert_has!(control => "compare=span\" aria-current=\"true\">the span before</a>");
        assert_has!(control => "<option value=\"span\" selected>");
        assert_lacks!(control => "<option value=\"-6h\"");
        // Pages that compare nothing offer nothing, and pass on what was chosen.
        let control = time(given).control("/timers", &params).into_string();
        assert!(!control.contains("Compare with"), "{control}");
        assert_has!(control => "not compared on this page");
        assert_has!(control => "<input type=\"hidden\" name=\"compare\" value=\"-1d\">");
        assert_has!(control => "from=-1h&amp;compare=-1d\">1 h</a>");
        // One that could, without a span: its error says why.
        let params = Params::of_form(Some("compare=-1d")).unwrap();
        let control = Time::unread(&params).control("/", &params).into_string();
        assert_lacks!(control => "not compared on this page");
    }
}
