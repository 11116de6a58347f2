//! Changes between two spans: compares two readings of a report, both from history.

use super::Catalog;
use crate::query::answer::{add_new, has_sums};
use crate::query::attribution::{Attribution, Measure};
use crate::query::error::QueryError;
use crate::query::question::{ReportQuestion, Spans, When, Whose};
use crate::query::tables::KIND;
use crate::report::definition::Columns;
use crate::value::text::lasting;

impl Catalog {
    /// Says of a histogram view or a table, which is no unknown report, why it has no changes.
    fn without_sums(&self, name: &str, error: QueryError) -> QueryError {
        let is_unknown = matches!(error, QueryError::UnknownReport { .. });
        match self.listed(name).is_ok_and(|it| is_unknown || it.kind == KIND) {
            true => QueryError::bad_value(
                "report",
                format!(
                    "{name:?} is a histogram view or a table, which has no sums by key; accepted: reports whose past is kept"
                ),
            ),
            false => error,
        }
    }

    /// Attributes the change of a measure from the span before to a span to the report's keys.
    ///
    /// # Errors
    /// Those of [`Catalog::report`]; [`QueryError::BadValue`] if the report does not have this sum,
    /// or none at all.
    pub fn changes(
        &self,
        name: &str,
        measure: &Measure,
        spans: &Spans,
        whose: &Whose,
        limit: usize,
    ) -> Result<Attribution, QueryError> {
        let spans = self.widened_spans(name, spans, whose);
        let overlap = spans.overlap_remark();
        let Spans { span, before: Some(before) } = spans else {
            return Err(QueryError::bad_value("compare", "needs another span"));
        };
        let read = |span| {
            let question = ReportQuestion {
                when: When::Span(Spans { span, before: None }),
                whose: whose.clone(),
                columns: Columns::Native(Vec::new()),
                ..ReportQuestion::default()
            };
            self.report(name, &question)
        };
        let after = read(span.clone()).map_err(|error| self.without_sums(name, error))?;
        let first = read(before.clone())?;
        let answers = [first, after];
        let mut found = Attribution::of([&answers[0], &answers[1]], measure, limit)?;
        // The keys of a pinba2 report are texts, also where the native form has numbers.
        let own = self.listed(name)?.columns;
        for key in &mut found.keys {
            let own = own.iter().find(|it| it.name == key.name);
            key.column_type = own.map_or(key.column_type, |it| it.column_type);
        }
        found.spans = [before, span];
        answers.iter().for_each(|it| add_new(&mut found.partial, &it.partial));
        found.partial.extend(overlap);
        if found.covered_secs.contains(&0) {
            let why = "nothing was counted in one of the two spans";
            found.partial.push(why.to_owned());
        } else if !has_sums(found.covered_secs) {
            let [first, second] = found.covered_secs.map(lasting);
            let why = format!(
                "{first} of the span before were counted, and {second} of the other: sums are scaled to \
                 the shorter, and are too uncertain for a change in percent"
            );
            found.partial.push(why);
        }
        Ok(found)
    }
}
