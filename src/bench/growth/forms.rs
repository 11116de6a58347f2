//! The reports that `growth` makes many of: all different, each of a kind that costs something of its own.

use crate::report::form::ReportForm;

/// A report over all requests, by some of the five fields.
pub(super) fn by_fields(number: usize) -> ReportForm {
    const FIELDS: [&str; 5] = ["script_name", "server_name", "hostname", "status", "schema"];
    let chosen = number % 31 + 1;
    let keys = (0..5)
        .filter(|bit| chosen & (1 << bit) != 0)
        .map(|bit| FIELDS[bit]);
    native(number, "request", &keys.collect::<Vec<_>>(), None)
}

/// A report over the requests that took longer than some time, which no other report has.
pub(super) fn filtered(number: usize) -> ReportForm {
    let filter = format!("min_time=0.{:06}", 1000 + number * 100);
    native(number, "request", &["script_name"], Some(&filter))
}

/// A report over timers, by tags and fields that no other report has.
pub(super) fn by_timer_tags(number: usize) -> ReportForm {
    const KEYS: [&str; 8] = [
        "@group",
        "@server",
        "@operation",
        "script_name",
        "server_name",
        "hostname",
        "status",
        "schema",
    ];
    let chosen = number + 1;
    let keys = (0..8)
        .filter(|bit| chosen & (1 << bit) != 0)
        .map(|bit| KEYS[bit]);
    native(number, "timer", &keys.collect::<Vec<_>>(), None)
}

fn native(number: usize, level: &str, keys: &[&str], filter: Option<&str>) -> ReportForm {
    let form = serde_json::json!({
        "name": format!("r{number}"),
        "level": level,
        "keys": keys,
        "filters": filter.into_iter().collect::<Vec<_>>(),
        "percentiles": [95],
    });
    serde_json::from_value(form).expect("a form as it is documented")
}

pub(super) fn by_comment(comment: &str) -> ReportForm {
    ReportForm::of_comment(&comment.replace([':', ','], "_"), comment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::whole::TAG_REPORTS;
    use crate::report::definition::Defaults;

    #[test]
    fn every_report_of_the_tables_can_be() {
        let forms = (0..200)
            .flat_map(|number| [by_fields(number), filtered(number), by_timer_tags(number)]);
        for form in forms.chain(TAG_REPORTS.map(by_comment)) {
            form.definition(&Defaults::default()).unwrap();
        }
    }
}
