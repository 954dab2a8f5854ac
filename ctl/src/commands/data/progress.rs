//! How far `data prepare` is: a bar on a terminal, elsewhere a line on standard error now and then.
//!
//! UI-2 (nothing panics while it counts): whoever holds the lock adds numbers and makes a line of them.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde::Serialize;
use shoal_data::documents::BadDocument;
use shoal_data::prepare::{Phase, Watch};

use crate::output::units::{bytes, count};
use crate::output::{Format, bar, json};

/// Bad documents that are named; the others are only counted.
const NAMED: u64 = 10;
/// Between two lines.
const EVERY: Duration = Duration::from_secs(60);

/// Shows progress, and names what is left out.
pub(super) struct Progress {
    bar: ProgressBar,
    lines: Option<Mutex<Lines>>,
    format: Format,
    skipped: AtomicU64,
}

/// For whoever has no terminal.
struct Lines {
    every: Duration,
    told: Instant,
    line: Line,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Line {
    doing: &'static str,
    done: u64,
    of: u64,
    unit: &'static str,
}

impl Progress {
    pub(super) fn new(format: Format) -> Self {
        let lines = (!std::io::stderr().is_terminal()).then(|| Mutex::new(Lines::new(EVERY)));
        Self { bar: ProgressBar::new(0), lines, format, skipped: AtomicU64::new(0) }
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn lines(&self, tell: impl FnOnce(&mut Lines) -> Option<Line>) {
        let Some(lines) = &self.lines else { return };
        let line = tell(&mut lines.lock().expect("UI-2 (nothing panics while it counts)"));
        if let Some(line) = line {
            eprintln!("{}", line.text(self.format));
        }
    }
}

impl Lines {
    fn new(every: Duration) -> Self {
        Self { every, told: Instant::now(), line: Line { doing: "reading", done: 0, of: 0, unit: "bytes" } }
    }

    fn begin(&mut self, doing: &'static str, of: u64, unit: &'static str) {
        self.line = Line { doing, done: 0, of, unit };
    }

    fn advance(&mut self, amount: u64) -> Option<Line> {
        self.line.done += amount;
        (self.told.elapsed() >= self.every).then(|| {
            self.told = Instant::now();
            self.line
        })
    }
}

impl Line {
    fn text(self, format: Format) -> String {
        let Self { doing, done, of, unit } = self;
        let show = |n| if unit == "bytes" { bytes(n) } else { format!("{} {unit}", count(n)) };
        match format {
            Format::Human => {
                let percent = (u128::from(done) * 100).checked_div(u128::from(of)).unwrap_or(100);
                format!("shoalctl: {doing}: {percent}%, {} of {}", show(done), show(of))
            }
            Format::Json => json::line(&self),
        }
    }
}

impl Watch for Progress {
    fn phase(&self, phase: Phase, total: u64) {
        let (doing, unit, template) = match phase {
            Phase::Reading => ("reading", "bytes", "{bytes} of {total_bytes}"),
            Phase::Tokenizing => ("tokenizing", "bytes", "{bytes} of {total_bytes}, {bytes_per_sec}, {eta} left"),
            Phase::Writing => ("writing shards", "tokens", "{human_pos} of {human_len} tokens"),
            Phase::Hashing => ("hashing shards", "tokens", "{human_pos} of {human_len} tokens"),
        };
        self.bar.set_style(bar::style(&format!("{{prefix:14}} [{{bar:32}}] {{percent}}%  {template}")));
        self.bar.set_prefix(doing);
        self.bar.set_length(total);
        self.bar.reset();
        self.lines(|lines| {
            lines.begin(doing, total, unit);
            None
        });
    }

    fn advance(&self, amount: u64) {
        self.bar.inc(amount);
        self.lines(|lines| lines.advance(amount));
    }

    fn skipped(&self, bad: &BadDocument) {
        let before = self.skipped.fetch_add(1, Ordering::Relaxed);
        if before < NAMED {
            self.bar.suspend(|| eprintln!("shoalctl: left out: {bad}"));
        } else if before == NAMED {
            self.bar.suspend(|| eprintln!("shoalctl: more is left out, and only counted from here on"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_is_and_comes_now_and_then() {
        let mut lines = Lines::new(Duration::ZERO);
        lines.begin("tokenizing", 8 << 30, "bytes");
        lines.advance(1 << 30).expect("it is time");
        let line = lines.advance(1 << 30).expect("it is time");
        assert_eq!(line.text(Format::Human), "shoalctl: tokenizing: 25%, 2.0 GiB of 8.0 GiB");
        assert_eq!(
            line.text(Format::Json),
            r#"{"doing":"tokenizing","done":2147483648,"of":8589934592,"unit":"bytes"}"#
        );
        lines.every = EVERY;
        lines.begin("writing shards", 3000, "tokens");
        assert_eq!(lines.advance(1000), None, "not so soon after the last");
        lines.every = Duration::ZERO;
        let line = lines.advance(500).expect("it is time");
        assert_eq!(line.text(Format::Human), "shoalctl: writing shards: 50%, 1,500 tokens of 3,000 tokens");
    }
}
