//! `/daemon/inside`: where the daemon's time and memory go, for its operators.

use maud::{Markup, html};

use super::formatting;
use super::frame;
use super::instruments;
use super::render::View;
use super::table::{Head, section};
use crate::http::error::Problem;
use crate::http::settings::Planned;

/// `GET /daemon/inside`
pub(super) fn page(view: &View<'_>) -> Result<Markup, Problem> {
    view.form()?.finish()?;
    let main = html! {
        (frame::crumbs(&[(&view.time.link("/daemon", []), "Daemon")], "inside"))
        h1 { "Where its time and memory go" }
        (instruments::section(view))
        (memory_plan(&view.app.settings.memory_plan))
    };
    view.page("/daemon", "Inside the daemon", &main)
}

fn memory_plan(plan: &[Planned]) -> Markup {
    let heads = [Head::text("Part"), Head::number("At most"), Head::text("Set by")];
    let scale = formatting::Scale::of_bytes(plan.iter().map(|planned| planned.bytes as f64));
    let row = |planned: &Planned| {
        html! { th.key scope="row" { (planned.name) } td { (scale.text(planned.bytes as f64)) } td.key.text { (planned.why) } }
    };
    let total_bytes: u64 = plan.iter().map(|planned| planned.bytes).sum();
    let total = html! { th.key scope="row" { b { "total" } } td { b { (formatting::bytes(total_bytes as f64)) } } td {} };
    let rows = plan.iter().map(row);
    let rows = rows.chain((!plan.is_empty()).then_some(total));
    let caption = "Planned at start: the daemon uses no more, whatever is sent to it";
    section("Memory plan", caption, heads, rows)
}
