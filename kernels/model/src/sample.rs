//! The next token from its logits: a pure function of the logits, what was asked, and a counter.
//!
//! SA-1 (a model has tokens): no vocabulary is empty, so there is a logit.

use shoal_exact::elementary::exp;
use shoal_exact::philox::philox;

/// Keeps these draws apart from every other use of a seed: "SAMPLE".
const DOMAIN: u64 = 0x5341_4d50_4c45;

/// How tokens are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Divides the logits: 0 takes the most likely token, 1 draws as the model says.
    pub temperature: f64,
    /// Only so many of the most likely tokens are drawn from.
    pub top_k: Option<usize>,
    /// Of those, only the most likely ones that together have this probability.
    pub top_p: Option<f64>,
    /// Root of all draws.
    pub seed: u64,
}

impl Sampling {
    /// The token that follows `position` others. Of equal logits the lowest token counts as the more likely. What is not a
    /// number is never chosen.
    ///
    /// # Panics
    /// If there is no logit.
    #[must_use]
    pub fn choose(&self, position: u64, logits: &[f32]) -> u32 {
        let first = best(logits);
        if self.temperature <= 0.0 {
            return first;
        }
        let most = f64::from(logits[first as usize]);
        let weight = |token: u32| exp((f64::from(logits[token as usize]) - most) / self.temperature);
        let mut tokens: Vec<u32> = (0..logits.len() as u32).filter(|&t| !logits[t as usize].is_nan()).collect();
        if self.top_k.is_some() || self.top_p.is_some() {
            let order = |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
            let keep = self.top_k.unwrap_or(tokens.len()).clamp(1, tokens.len().max(1));
            if keep < tokens.len() {
                tokens.select_nth_unstable_by(keep - 1, order);
                tokens.truncate(keep);
            }
            tokens.sort_unstable_by(order);
        }
        if let Some(share) = self.top_p {
            let all: f64 = tokens.iter().map(|&token| weight(token)).sum();
            let mut sum = 0.0;
            let inside = tokens.iter().take_while(|&&token| {
                let before = sum;
                sum += weight(token);
                before < share * all
            });
            let keep = inside.count().max(1);
            tokens.truncate(keep);
        }
        let all: f64 = tokens.iter().map(|&token| weight(token)).sum();
        let [word, _] = philox(self.seed, [position, DOMAIN]);
        let mut left = (word >> 11) as f64 / (1_u64 << 53) as f64 * all;
        let drawn = tokens.iter().find(|&&token| {
            left -= weight(token);
            left < 0.0
        });
        drawn.copied().unwrap_or(first)
    }
}

/// The most likely token.
fn best(logits: &[f32]) -> u32 {
    assert!(!logits.is_empty(), "SA-1 (a model has tokens)");
    let mut best = 0;
    for (token, logit) in logits.iter().enumerate().skip(1) {
        if *logit > logits[best] || logits[best].is_nan() {
            best = token;
        }
    }
    best as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 5] = [1.0, 3.0, f32::NAN, 3.0, 2.0];

    fn sampling(temperature: f64) -> Sampling {
        Sampling { temperature, top_k: None, top_p: None, seed: 7 }
    }

    /// How often each token is drawn at 10,000 positions.
    fn counts(sampling: Sampling) -> [u32; 5] {
        let mut counts = [0; 5];
        (0..10_000).for_each(|position| counts[sampling.choose(position, &LOGITS) as usize] += 1);
        counts
    }

    #[test]
    fn without_temperature_the_first_of_the_most_likely_is_taken() {
        assert_eq!(sampling(0.0).choose(3, &LOGITS), 1);
        assert_eq!(sampling(0.0).choose(3, &[f32::NAN, -1.0]), 1);
    }

    #[test]
    fn draws_are_as_likely_as_the_model_says() {
        let counts = counts(sampling(1.0));
        let weights = [1.0, 3.0, f64::NEG_INFINITY, 3.0, 2.0].map(f64::exp);
        let all: f64 = weights.iter().sum();
        for (count, weight) in counts.iter().zip(weights) {
            assert!((f64::from(*count) / 1e4 - weight / all).abs() < 0.02, "{counts:?}");
        }
        assert_eq!(counts, self::counts(sampling(1.0)), "the seed decides");
        assert_ne!(counts, self::counts(Sampling { seed: 8, ..sampling(1.0) }));
    }

    #[test]
    fn what_is_less_likely_is_cut_off() {
        let top_k = counts(Sampling { top_k: Some(3), ..sampling(1.0) });
        assert!(top_k[0] == 0 && top_k[4] > 0 && top_k[1] > 0 && top_k[3] > 0, "{top_k:?}");
        assert_eq!(counts(Sampling { top_k: Some(1), ..sampling(1.0) })[1], 10_000);
        // The two threes have 0.8 of the probability together, and one alone 0.4.
        let top_p = counts(Sampling { top_p: Some(0.5), ..sampling(1.0) });
        assert!(top_p[0] + top_p[4] == 0 && top_p[1] > 4_000 && top_p[3] > 4_000, "{top_p:?}");
        assert_eq!(counts(Sampling { top_p: Some(0.1), ..sampling(1.0) })[1], 10_000);
        assert!(counts(sampling(0.2))[0] < 5, "cold");
    }
}
