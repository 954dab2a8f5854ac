//! Weight decay by parameter: rules by name, and the optimizer's own for matrices that no rule names.

use shoal_config::JobSpec;
use shoal_config::spec::{DecayRule, TrainSpec};

use crate::blocks::{BlockTable, ModelTable};
use crate::ids::BlockId;

/// A rule of a job that says nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecayError {
    /// No parameter has such a name.
    #[error("train.decay: `{pattern}` names no parameter; there are {known}")]
    Unknown {
        /// As typed.
        pattern: String,
        /// Names there are.
        known: String,
    },
    /// Earlier rules name all its parameters.
    #[error(
        "train.decay: every parameter that `{pattern}` names is named by an earlier rule; put it first or leave it out"
    )]
    Hidden {
        /// As typed.
        pattern: String,
    },
}

/// The decay of every parameter of a job, resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct Decays(Vec<Vec<f32>>);

impl Decays {
    /// The decays of a job with this table.
    #[must_use]
    pub fn of(train: &TrainSpec, table: &ModelTable) -> Self {
        let block = |block: &BlockTable| {
            let each =
                block.params.iter().map(|param| match rule(&train.decay, &format!("{}.{}", block.id, param.name)) {
                    Some(at) => train.decay[at].weight_decay,
                    None if param.matrix().is_some() => train.optimizer.weight_decay(),
                    None => 0.0,
                });
            each.collect()
        };
        Self(table.blocks.iter().map(block).collect())
    }

    /// Of the parameters of a block, in table order.
    #[must_use]
    pub fn of_block(&self, block: BlockId) -> &[f32] {
        &self.0[block.0 as usize]
    }
}

/// Whether every rule of a job decides about some parameter.
///
/// # Errors
/// The first that does not.
pub fn check(spec: &JobSpec) -> Result<(), DecayError> {
    let table = ModelTable::of(&spec.model);
    let rules = &spec.train.decay;
    let mut found = vec![Finds::Nothing; rules.len()];
    for block in &table.blocks {
        for param in &block.params {
            let name = format!("{}.{}", block.id, param.name);
            let mut is_named = false;
            for (rule, found) in rules.iter().zip(&mut found) {
                // A rule that decides about something has no more to show.
                let is_open = !is_named || *found == Finds::Nothing;
                if is_open && fits(&rule.parameters, &name) {
                    *found = (*found).max(if is_named { Finds::Named } else { Finds::Own });
                    is_named = true;
                }
            }
        }
    }
    let first = rules.iter().zip(found).find(|(_, found)| *found != Finds::Own);
    first.map_or(Ok(()), |(DecayRule { parameters, .. }, found)| {
        let pattern = parameters.clone();
        Err(match found {
            Finds::Nothing => DecayError::Unknown { pattern, known: known(&table) },
            Finds::Named | Finds::Own => DecayError::Hidden { pattern },
        })
    })
}

/// What a rule finds among the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Finds {
    Nothing,
    /// Only what earlier rules name.
    Named,
    /// Something to decide about.
    Own,
}

/// The first rule that names a parameter.
fn rule(rules: &[DecayRule], name: &str) -> Option<usize> {
    rules.iter().position(|rule| fits(&rule.parameters, name))
}

/// Whether a name is of a pattern, in which `*` stands for any characters and `?` for one.
fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    // All but stars stand for a byte each.
    if pattern.iter().filter(|&&byte| byte != b'*').count() > name.len() {
        return false;
    }
    // ends[i]: whether the pattern so far can end before byte i of the name.
    let mut ends = vec![false; name.len() + 1];
    ends[0] = true;
    for &wanted in pattern {
        if wanted == b'*' {
            let from = ends.iter().position(|end| *end).unwrap_or(ends.len());
            ends[from..].fill(true);
        } else {
            for i in (0..name.len()).rev() {
                ends[i + 1] = ends[i] && (wanted == b'?' || wanted == name[i]);
            }
            ends[0] = false;
        }
    }
    ends[name.len()]
}

/// Names of all parameters, like blocks together.
fn known(table: &ModelTable) -> String {
    let names = |block: &BlockTable| block.params.iter().map(|param| param.name.clone()).collect::<Vec<_>>();
    let mut said: Vec<String> = Vec::new();
    for alike in table.blocks.chunk_by(|a, b| names(a) == names(b)) {
        let (first, last) = (&alike[0], &alike[alike.len() - 1]);
        let blocks = if alike.len() == 1 { format!("{}", first.id) } else { format!("{} to {}", first.id, last.id) };
        said.push(format!("in {blocks} {}", names(first).join(", ")));
    }
    said.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn with(rules: &[(&str, f32)]) -> JobSpec {
        let mut spec = fixture::job().spec;
        let rule =
            |&(parameters, weight_decay): &(&str, f32)| DecayRule { parameters: parameters.to_owned(), weight_decay };
        spec.train.decay = rules.iter().map(rule).collect();
        spec
    }

    fn decay_of(spec: &JobSpec, block: u32, name: &str) -> f32 {
        let table = ModelTable::of_job(spec);
        let at = table.blocks[block as usize].params.iter().position(|param| param.name == name).expect(name);
        Decays::of(&spec.train, &table).of_block(BlockId(block))[at]
    }

    #[test]
    fn stars_and_question_marks() {
        for (pattern, name, whether) in [
            ("b1.attn.q.bias", "b1.attn.q.bias", true),
            ("*.bias", "b1.attn.q.bias", true),
            ("*", "", true),
            ("b?.*", "b1.x", true),
            ("b?.*", "b12.x", false),
            ("b1*.bias", "b12.ln_1.bias", true),
            ("*ln*weight", "b1.ln_1.weight", true),
            ("*ln*weight", "b1.ln_1.bias", false),
            ("b1", "b1.x", false),
            ("", "b", false),
        ] {
            assert_eq!(fits(pattern, name), whether, "{pattern} {name}");
        }
    }

    #[test]
    fn matrices_decay_and_the_first_rule_that_fits_decides() {
        let spec = with(&[]);
        assert_eq!(decay_of(&spec, 0, "wte"), 0.1);
        assert_eq!(decay_of(&spec, 1, "attn.q.bias"), 0.0, "stored as [heads, d], and yet a vector");
        let spec = with(&[("b1.*.bias", 0.3), ("*.bias", 0.2), ("b0.*", 0.0)]);
        assert_eq!(check(&spec), Ok(()));
        assert_eq!(decay_of(&spec, 1, "ln_1.bias"), 0.3);
        assert_eq!(decay_of(&spec, 2, "ln_1.bias"), 0.2);
        assert_eq!(decay_of(&spec, 0, "wte"), 0.0);
        assert_eq!(decay_of(&spec, 2, "mlp.fc.weight"), 0.1);
    }

    #[test]
    fn the_first_rule_that_decides_nothing_is_named() {
        let hidden = |pattern: &str| DecayError::Hidden { pattern: pattern.to_owned() };
        assert_eq!(check(&with(&[("b1.*", 0.0), ("*", 0.1), ("b2.*", 0.2), ("*.scale", 0.0)])), Err(hidden("b2.*")));
        assert!(matches!(
            check(&with(&[("*.scale", 0.0), ("*", 0.1), ("b2.*", 0.2)])),
            Err(DecayError::Unknown { .. })
        ));
        assert_eq!(check(&with(&[("b1.*", 0.0), ("*.weight", 0.1), ("b?.*", 0.2), ("*", 0.3)])), Err(hidden("*")));
        assert_eq!(check(&with(&[("b1.*", 0.0), ("*.weight", 0.1), ("*", 0.2)])), Ok(()));
    }

    #[test]
    fn a_rule_that_decides_nothing_is_refused() {
        let error = check(&with(&[("*.scale", 0.0)])).expect_err("no such parameter").to_string();
        assert!(
            error.starts_with("train.decay: `*.scale` names no parameter; there are in b0 wte, wpe; in b1 to b4 ln_1")
        );
        let hidden = DecayError::Hidden { pattern: "b0.wte".to_owned() };
        assert_eq!(check(&with(&[("b0.*", 0.0), ("b0.wte", 0.1)])), Err(hidden));
    }
}
