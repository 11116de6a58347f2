//! A COMMENT, in Pinba's grammar, pinba2's or the native form: what is accepted is written back as
//! a statement that means the same, and counts packets.

use std::sync::Arc;

use prost::Message as _;

use super::live::{self, AWAY_MS};
use crate::grammar::comment::Comment;
use crate::grammar::native::{self, ReportForm};
use crate::input::Decode as _;
use crate::input::pinba::{Decoder, model};
use crate::input::record::TextLimits;
use crate::query::create_table;
use crate::query::tables::active;
use crate::report::DefinedBy;

/// Any text as COMMENT.
pub fn comment(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let defaults = live::defaults();
    let definition = match native::read_comment("r", text, &defaults) {
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
        Ok(Comment::Fixed(table)) => {
            assert!(create_table::fixed("r", table, &defaults).pinba().contains(table.comment()));
            return;
        }
        Ok(Comment::Report(definition)) => *definition,
    };
    // As HTTP shows it: a report of the same rows, and with the same columns if it was not in
    // Pinba's layout.
    let shown = ReportForm::from(&definition);
    let again = shown.definition(&defaults).expect("what is shown is a report");
    assert_eq!(again.keys, definition.keys, "{shown:?}");
    assert_eq!(again.filters, definition.filters, "{shown:?}");
    assert_eq!(again.percentiles, definition.percentiles, "{shown:?}");
    assert_eq!(again.window, definition.window, "{shown:?}");
    if definition.comment.is_none() {
        assert_eq!(again, definition, "{shown:?}");
    }
    let statement = create_table::report(&definition).pinba();
    assert!(statement.starts_with("CREATE TABLE "), "{statement}");
    assert!(!active::id(&definition).is_empty());

    let mut live = live::empty(64);
    let entry = Arc::new(definition);
    live.reports.define(entry, DefinedBy::RunTime, &live.pool);
    let mut records = Vec::new();
    let mut decoder = Decoder::new(TextLimits::default(), live::hasher());
    for number in 0..6_u32 {
        let packet = sent(number).encode_to_vec();
        let taken = decoder.decode(&packet, 1_700_000_000, &mut records);
        assert_eq!(taken, Ok(1));
    }
    live.merge(&records, 0);
    live.advance(1_500);
    live::read_all(&live);
    // A report reaches as far back as it says, a year at most.
    live.advance(400 * 86_400_000 + AWAY_MS);
    assert_eq!(live::read_all(&live), 0, "all has left it");
}

/// Packets with some of everything a report may ask for.
fn sent(number: u32) -> model::Request {
    let mut sent = model::Request::named("h", "s", if number > 2 { "/a" } else { "/b" });
    sent.request_time = Some(number as f32 / 3.0);
    sent.status = Some(200 + number);
    if number > 1 {
        sent.schema = Some(b"https".to_vec());
        sent.add_tag("a", if number > 3 { "x" } else { "y" });
    }
    for timer in 0..number % 3 {
        let tags = [("a", "x"), ("b", "y"), ("group", "db")];
        sent.add_timer(1 + timer, 0.25, &tags[..1 + timer as usize]);
    }
    sent
}
