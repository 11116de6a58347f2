//! Selects whose data to query: this daemon's own, or that of many together (`fleet`, `dc`,
//! `collector`).
//!
//! Shipped data ends some minutes ago, and that is the meaning of "now" for the fleet: spans
//! relative to it are complete.

use super::error::Problem;
use super::params::{Params, list_items};
use super::time_range::Span;
use crate::query::catalog::Catalog;
use crate::query::question::{Fleet, When, Whose};

/// The parameters in the URL.
pub(super) use crate::value::link::FLEET_NAMES as NAMES;

/// Whether the query may be for the fleet, so that waiting for ClickHouse takes no permit from
/// local answers.
pub(super) fn is_named(params: &Params) -> bool {
    NAMES.iter().any(|name| params.get(name).is_some())
}

/// Takes the selection from the parameters. `dc` and `collector` imply the fleet, unless
/// `fleet=true` is missing and they are among the `keys` of the report.
pub(super) fn take(
    params: &mut Params,
    keys: impl FnOnce() -> Vec<String>,
) -> Result<Whose, Problem> {
    let is_true = params.word("fleet", &["true", "false"])? == "true";
    let is_fleet = params.get("fleet").map(|_| is_true);
    let is_given = NAMES[1..].iter().any(|name| params.get(name).is_some());
    let keys = if is_given && is_fleet != Some(true) { keys() } else { Vec::new() };
    let mut list = |name: &'static str| {
        if keys.iter().any(|key| key == name) {
            return None;
        }
        Some(list_items(&params.text(name)?))
    };
    let (dcs, collectors): (Option<Vec<_>>, Option<Vec<_>>) = (list("dc"), list("collector"));
    if is_fleet == Some(false) && (dcs.is_some() || collectors.is_some()) {
        let why = "is false, so there is no dc and no collector to choose";
        return Err(Problem::parameter("fleet", why).accepting(["true"]));
    }
    if is_fleet != Some(true) && dcs.is_none() && collectors.is_none() {
        return Ok(Whose::Own);
    }
    let (dcs, collectors) = (dcs.unwrap_or_default(), collectors.unwrap_or_default());
    Ok(Whose::Fleet(Fleet { dcs, collectors }))
}

/// Takes the selection for a report.
pub(super) fn take_of(
    params: &mut Params,
    source: &Catalog,
    report: &str,
) -> Result<Whose, Problem> {
    let keys = || source.listed(report).map_or_else(|_| Vec::new(), |it| it.keys);
    checked(take(params, keys)?, source)
}

/// Checks that there is a fleet if it is asked for. Call it first: a daemon without a fleet may
/// have no history either, which would be the wrong reason.
pub(super) fn checked(whose: Whose, source: &Catalog) -> Result<Whose, Problem> {
    if whose.is_fleet() {
        source.fleet()?;
    }
    Ok(whose)
}

/// Takes time and selection for a report: for the fleet, the default is the report's window up to
/// the newest data.
pub(super) fn take_time(
    span: &Span,
    params: &mut Params,
    source: &Catalog,
    report: &str,
) -> Result<(When, Whose), Problem> {
    let whose = take_of(params, source, report)?;
    let window = whose.is_fleet().then(|| window(source, report));
    let spans = span.at(source.now_ms(&whose), window)?;
    Ok((spans.into(), whose))
}

/// The window of a report in whole minutes, in seconds.
pub(super) fn window(source: &Catalog, report: &str) -> u64 {
    let window = source.listed(report).map_or(0.0, |it| it.window_seconds);
    (window as u64).max(1).next_multiple_of(60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_asked_by_name_or_by_its_members() {
        let asked = |query: &str, keys: &[&str]| {
            let mut params = Params::parse(Some(query)).unwrap();
            let keys = || keys.iter().map(|key| (*key).to_owned()).collect();
            let fleet = take(&mut params, keys).map_err(|problem| problem.detail().to_owned())?;
            Ok::<_, String>((fleet, params.rest().count()))
        };
        let of = |dcs: &[&str], collectors: &[&str]| {
            let [dcs, collectors] = [dcs, collectors]
                .map(|names| names.iter().map(|name| (*name).to_owned()).collect());
            Whose::Fleet(Fleet { dcs, collectors })
        };
        for query in ["", "fleet=false"] {
            assert_eq!(asked(query, &[]), Ok((Whose::Own, 0)));
        }
        assert_eq!(asked("fleet=true", &["fleet"]), Ok((of(&[], &[]), 0)));
        assert_eq!(asked("dc=a,b", &[]), Ok((of(&["a", "b"], &[]), 0)));
        assert_eq!(asked("dc=&collector=x", &[]), Ok((of(&[""], &["x"]), 0)));
        // A key of the report, as it has always been.
        assert_eq!(asked("dc=a", &["dc"]), Ok((Whose::Own, 1)));
        assert_eq!(asked("dc=a&collector=x", &["dc"]), Ok((of(&[], &["x"]), 1)));
        assert_eq!(asked("dc=a&fleet=true", &["dc"]), Ok((of(&["a"], &[]), 0)));
        for query in ["fleet=yes", "fleet=", "fleet=false&dc=a"] {
            let problem = asked(query, &[]).unwrap_err();
            assert!(problem.contains("accepted: true"), "{problem}");
        }
    }
}
