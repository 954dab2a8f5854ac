//! Numbers with their unit, for people.

use bytesize::ByteSize;

/// Bytes in binary units.
#[must_use]
pub fn bytes(count: u64) -> String {
    ByteSize(count).display().iec().to_string()
}

/// A whole number with thin separators: `12,345`.
#[must_use]
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A loss, or a dash.
#[must_use]
pub fn loss(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |loss| format!("{loss:.4}"))
}

/// A loss, or a dash; with the step it belongs to if that is not the present one.
#[must_use]
pub fn loss_at(value: Option<f64>, at: Option<u64>, now: u64) -> String {
    match at.filter(|at| *at != now) {
        Some(at) => format!("{} at step {}; the steps since were skipped", loss(value), count(at)),
        None => loss(value),
    }
}

/// Tokens a second, or a dash.
#[must_use]
pub fn rate(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |rate| format!("{} tokens/s", count(rate.round() as u64)))
}

/// The first digits of a digest: enough to compare by eye.
#[must_use]
pub fn short(digest: &str) -> &str {
    digest.get(..16).unwrap_or(digest)
}

/// Text for a terminal: what a name from a file or a network could do to it is shown, not done.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if c.is_control() && c != '\n' {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_a_terminal_that_it_would_obey() {
        assert_eq!(printable("a\u{1b}[31m b\u{9b}\r\nü"), "a\\u{1b}[31m b\\u{9b}\\r\nü");
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            (count(0), count(999), count(1000), count(1_234_567)),
            ("0".into(), "999".into(), "1,000".into(), "1,234,567".into())
        );
        assert_eq!((bytes(1536), loss(Some(2.5)), loss(None)), ("1.5 KiB".into(), "2.5000".into(), "-".into()));
        assert_eq!((loss_at(Some(2.5), Some(7), 7), loss_at(None, None, 7)), ("2.5000".into(), "-".into()));
        assert_eq!(loss_at(Some(2.5), Some(1007), 1009), "2.5000 at step 1,007; the steps since were skipped");
        assert_eq!((rate(Some(1234.4)), rate(None)), ("1,234 tokens/s".into(), "-".into()));
        assert_eq!((short("0123456789abcdef0123"), short("01")), ("0123456789abcdef", "01"));
    }
}
