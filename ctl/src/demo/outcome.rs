//! The two runs side by side.

use serde::Serialize;

use crate::output::Show;
use crate::output::table::table;
use crate::output::units::{count, short};

/// What came out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The run that nothing happened to.
    pub undisturbed: Undisturbed,
    /// The run that lost a worker and gained one.
    pub disturbed: RunResult,
    /// Same final state and loss, bit by bit.
    pub identical: bool,
    /// In both runs.
    pub samples_exactly_once: bool,
}

/// The run that nothing happened to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Undisturbed {
    /// Mean loss of the last step.
    pub final_loss: f64,
    /// Digest of the final state.
    pub state_blake3: String,
}

/// What a run came to, whatever happened to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunResult {
    /// Mean loss of the last step.
    pub final_loss: f64,
    /// Digest of the final state.
    pub state_blake3: String,
    /// Workers killed.
    pub kills: u32,
    /// Workers that joined.
    pub joins: u32,
    /// For each kill, milliseconds from the signal to the next commit.
    pub recovery_ms: Vec<u64>,
    /// Committed steps given up.
    pub steps_lost: u64,
    /// Steps begun again.
    pub steps_redone: u64,
}

impl Show for Outcome {
    fn show(&self) -> String {
        let (a, b) = (&self.undisturbed, &self.disturbed);
        let none = || "-".to_owned();
        let recovery = b.recovery_ms.iter().map(|ms| format!("{} ms", count(*ms))).collect::<Vec<_>>().join(", ");
        let rows = [
            ["final loss".to_owned(), format!("{:.6}", a.final_loss), format!("{:.6}", b.final_loss)],
            ["state (blake3)".to_owned(), short(&a.state_blake3).to_owned(), short(&b.state_blake3).to_owned()],
            ["workers killed".to_owned(), "0".to_owned(), b.kills.to_string()],
            ["workers joined".to_owned(), "0".to_owned(), b.joins.to_string()],
            ["signal to next commit".to_owned(), none(), if recovery.is_empty() { none() } else { recovery }],
            ["steps lost".to_owned(), "0".to_owned(), count(b.steps_lost)],
            ["steps redone".to_owned(), "0".to_owned(), count(b.steps_redone)],
        ];
        let bits = if self.identical {
            "The two final states are identical, bit by bit."
        } else {
            "THE TWO FINAL STATES DIFFER."
        };
        let samples = if self.samples_exactly_once {
            "Every sample was used exactly once in both runs."
        } else {
            "SOME SAMPLES WERE NOT USED EXACTLY ONCE."
        };
        format!("{}\n\n{bits}\n{samples}", table(["", "UNDISTURBED", "DISTURBED"], &[1, 2], rows))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn outcome() -> Outcome {
        Outcome {
            undisturbed: Undisturbed { final_loss: 2.5, state_blake3: "ab".repeat(32) },
            disturbed: RunResult {
                final_loss: 2.5,
                state_blake3: "ab".repeat(32),
                kills: 1,
                joins: 1,
                recovery_ms: vec![412],
                steps_lost: 0,
                steps_redone: 1,
            },
            identical: true,
            samples_exactly_once: true,
        }
    }

    #[test]
    fn json_has_exactly_the_promised_keys() {
        assert_eq!(
            serde_json::to_value(outcome()).expect("plain data"),
            json!({
                "undisturbed": {"final_loss": 2.5, "state_blake3": "ab".repeat(32)},
                "disturbed": {"final_loss": 2.5, "state_blake3": "ab".repeat(32), "kills": 1, "joins": 1,
                              "recovery_ms": [412], "steps_lost": 0, "steps_redone": 1},
                "identical": true,
                "samples_exactly_once": true
            })
        );
    }

    #[test]
    fn the_table_says_it_in_words() {
        let text = outcome().show();
        let recovery = text.lines().find(|line| line.starts_with("signal to next commit")).expect("a line");
        assert_eq!(recovery.split_whitespace().collect::<Vec<_>>()[4..], ["-", "412", "ms"]);
        assert!(text.ends_with("Every sample was used exactly once in both runs."), "{text}");
        let other = Outcome { identical: false, ..outcome() };
        assert!(other.show().contains("THE TWO FINAL STATES DIFFER."));
    }
}
