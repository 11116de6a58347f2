//! Keys of a terminal, and what they mean. Pure.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::model::Action;

/// As the help lists them.
pub const HELP: [(&str, &str); 15] = [
    ("1 to 7, left, right", "another view"),
    ("up, down, k, j, PgUp, PgDn", "select a row"),
    ("Home, End, g, G", "the first, the last"),
    (
        "Enter",
        "open it: its requests and timers, a request, a report",
    ),
    ("Esc, Backspace", "back; takes a filter away first"),
    ("Tab", "the other table"),
    ("<, >", "sort by the column to the left, to the right"),
    ("r", "turn the order round"),
    (
        "/",
        "only rows with this text; Enter keeps it, Esc drops it",
    ),
    ("t", "add timers up by the next tag, or by all of them"),
    ("p, space", "stand still, go on"),
    ("+, -", "ask more often, less often"),
    ("?", "these keys"),
    ("q, Ctrl-C", "the end"),
    (
        "",
        "Times are UTC. Slow rows and failed requests have colours, unless NO_COLOR is set.",
    ),
];

/// What a key means; `typing`: a filter is being typed.
pub fn action(key: KeyEvent, typing: bool) -> Option<Action> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    if control {
        return match key.code {
            KeyCode::Char('c') => Some(Action::Quit),
            KeyCode::Char('h') if typing => Some(Action::Erase),
            _ => None,
        };
    }
    let always = match key.code {
        KeyCode::Up => Some(Action::Move(-1)),
        KeyCode::Down => Some(Action::Move(1)),
        KeyCode::PageUp => Some(Action::Page(-1)),
        KeyCode::PageDown => Some(Action::Page(1)),
        KeyCode::Home => Some(Action::Move(isize::MIN)),
        KeyCode::End => Some(Action::Move(isize::MAX)),
        KeyCode::Enter => Some(Action::Open),
        KeyCode::Esc => Some(Action::Back),
        _ => None,
    };
    if always.is_some() {
        return always;
    }
    if typing {
        return match key.code {
            KeyCode::Char(c) if !c.is_control() => Some(Action::Type(c)),
            KeyCode::Backspace => Some(Action::Erase),
            _ => None,
        };
    }
    match key.code {
        KeyCode::Backspace => Some(Action::Back),
        KeyCode::Tab => Some(Action::Other),
        KeyCode::Left | KeyCode::BackTab => Some(Action::Turn(-1)),
        KeyCode::Right => Some(Action::Turn(1)),
        KeyCode::Char(c) => of_character(c),
        _ => None,
    }
}

fn of_character(c: char) -> Option<Action> {
    Some(match c {
        'q' | 'Q' => Action::Quit,
        '?' | 'h' => Action::Help,
        '1'..='9' => Action::Tab(c as usize - '1' as usize),
        'k' => Action::Move(-1),
        'j' => Action::Move(1),
        'g' => Action::Move(isize::MIN),
        'G' => Action::Move(isize::MAX),
        '<' | ',' => Action::Sort(-1),
        '>' | '.' => Action::Sort(1),
        'r' => Action::Reverse,
        '/' => Action::Filter,
        't' => Action::Group,
        'p' | ' ' => Action::Pause,
        '+' | '=' => Action::Slower(false),
        '-' | '_' => Action::Slower(true),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_takes_letters_and_arrows_still_move() {
        let key = |code| KeyEvent::new(code, KeyModifiers::NONE);
        assert_eq!(action(key(KeyCode::Char('q')), false), Some(Action::Quit));
        assert_eq!(
            action(key(KeyCode::Char('q')), true),
            Some(Action::Type('q'))
        );
        assert_eq!(action(key(KeyCode::Char('3')), false), Some(Action::Tab(2)));
        assert_eq!(action(key(KeyCode::Backspace), true), Some(Action::Erase));
        assert_eq!(action(key(KeyCode::Backspace), false), Some(Action::Back));
        for typing in [false, true] {
            assert_eq!(action(key(KeyCode::Down), typing), Some(Action::Move(1)));
            let end = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
            assert_eq!(action(end, typing), Some(Action::Quit));
        }
        assert_eq!(action(key(KeyCode::Char('\u{1b}')), true), None);
        assert_eq!(action(key(KeyCode::F(5)), false), None);
    }
}
