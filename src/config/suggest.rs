//! What was probably meant by a name that does not exist.

/// The nearest of `names`, if it is but a typing error away.
pub(crate) fn nearest<'a>(
    given: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let given = given.to_ascii_lowercase();
    // One error in four letters; with more the suggestion is a guess at something else.
    let distance_max = (given.chars().count() / 4).clamp(1, 4);
    let distances = names.into_iter().map(|name| {
        let distance = strsim::osa_distance(&given, &name.to_ascii_lowercase());
        (distance, name)
    });
    distances
        .filter(|(distance, _)| *distance <= distance_max)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// `; did you mean "name"?` where one is near, else nothing.
pub(crate) fn question<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest(given, names).map_or_else(String::new, |name| format!("; did you mean {name:?}?"))
}

/// What an unknown name is answered with: the one that was meant, or else what there is.
pub(super) fn hint(meant: Option<&str>, there_is: impl FnOnce() -> String) -> String {
    match meant {
        Some(meant) => format!("did you mean {meant}?"),
        None => there_is(),
    }
}
