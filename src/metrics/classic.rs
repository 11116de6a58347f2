//! Converts OpenMetrics to the classic Prometheus text format, line by line.
//!
//! The library writes OpenMetrics only. The two differ in the lines that begin with `#`: the
//! classic format names a counter with its `_total`, knows no units, no `info` and no end marker.
//! Samples are the same.

use std::fmt::Write;

/// Content type of the classic format.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Converts metrics to the classic format.
pub(super) fn classic(open_metrics: &str) -> String {
    let mut out = String::with_capacity(open_metrics.len());
    // HELP precedes TYPE, which decides on the name that both have.
    let mut help = "";
    for line in open_metrics.lines() {
        let Some(comment) = line.strip_prefix("# ") else {
            out.push_str(line);
            out.push('\n');
            continue;
        };
        if let Some(text) = comment.strip_prefix("HELP ") {
            help = text;
        } else if let Some(text) = comment.strip_prefix("TYPE ") {
            let (name, kind) = text.split_once(' ').unwrap_or((text, "unknown"));
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                other => ("", other),
            };
            if let Some((of, help)) = help.split_once(' ')
                && of == name
            {
                // Writing to a String cannot fail.
                let _ = writeln!(out, "# HELP {name}{suffix} {help}");
            }
            let _ = writeln!(out, "# TYPE {name}{suffix} {kind}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_named_as_their_samples_and_units_go() {
        let open = "# HELP a_seconds Time spent.\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\n\
                    a_seconds_total{x=\"# HELP\"} 1.5\n# HELP b Of today.\n# TYPE b gauge\nb 2\n\
                    # HELP c It.\n# TYPE c info\nc_info{v=\"1\"} 1\n# EOF\n";
        let expected = "# HELP a_seconds_total Time spent.\n# TYPE a_seconds_total counter\n\
                        a_seconds_total{x=\"# HELP\"} 1.5\n# HELP b Of today.\n# TYPE b gauge\nb 2\n\
                        # HELP c_info It.\n# TYPE c_info gauge\nc_info{v=\"1\"} 1\n";
        assert_eq!(classic(open), expected);
    }
}
