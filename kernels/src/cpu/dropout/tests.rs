use super::super::testing::{everywhere, values};
use crate::device::{Dropout, DropoutKey, DropoutSite};
use shoal_exact::philox::philox4x32;

const KEY: DropoutKey = DropoutKey { seed: 42, step: 7, block: 3, site: DropoutSite::MlpOutput };

fn masks(key: DropoutKey, probability: f32, samples: &[u64], each: usize) -> Vec<f32> {
    everywhere(|device| {
        let mut mask = vec![f32::NAN; each * samples.len()];
        let ones = vec![1.0; mask.len()];
        device.dropout(&mut mask, &ones, &Dropout { key, probability, samples });
        mask
    })
}

/// Element by element, as the documentation of `Dropout` says.
fn reference(dropout: &Dropout<'_>, sample: usize, element: u64) -> f32 {
    let counter = element / 64 * 16 + element % 16;
    let word = philox4x32(
        dropout.stream(sample),
        [counter as u32, (counter >> 32) as u32, dropout.key.block, dropout.key.site as u32],
    )[(element % 64 / 16) as usize];
    if f64::from(word) < f64::from(dropout.probability) * 4_294_967_296.0 {
        0.0
    } else {
        1.0 / (1.0 - dropout.probability)
    }
}

#[test]
fn masks_are_those_documented_wherever_the_sample_lies() {
    for each in [1, 63, 64, 1000, 20_000] {
        let samples = [11, 5, 900];
        let got = masks(KEY, 0.3, &samples, each);
        let dropout = Dropout { key: KEY, probability: 0.3, samples: &samples };
        for (i, &got) in got.iter().enumerate() {
            assert_eq!(got, reference(&dropout, i / each, (i % each) as u64), "element {i}");
        }
        assert_eq!(got[each..2 * each], masks(KEY, 0.3, &samples[1..2], each), "alone or among others");
    }
}

#[test]
fn the_share_dropped_is_the_probability_and_every_part_of_the_key_counts() {
    let plain = masks(KEY, 0.2, &[1], 100_000);
    let kept = plain.iter().filter(|&&x| x != 0.0).count() as f64 / 1e5;
    assert!((kept - 0.8).abs() < 0.005, "{kept}");
    let others = [
        (DropoutKey { seed: 43, ..KEY }, 1),
        (DropoutKey { step: 8, ..KEY }, 1),
        (DropoutKey { block: 4, ..KEY }, 1),
        (DropoutKey { site: DropoutSite::Embedding, ..KEY }, 1),
        (KEY, 2),
    ];
    for (key, sample) in others {
        let other = masks(key, 0.2, &[sample], 100_000);
        let both = plain.iter().zip(&other).filter(|&(&a, &b)| a != 0.0 && b != 0.0).count() as f64 / 1e5;
        assert!((both - 0.64).abs() < 0.01, "{key:?} {sample}: masks are related, {both}");
    }
}

#[test]
fn residual_adds_the_masked_branch() {
    let samples = [3, 4];
    let (branch, skip) = (values(1, 2 * 9000), values(2, 2 * 9000));
    let run = |dropout: Option<Dropout<'_>>| {
        everywhere(|device| {
            let mut out = branch.clone();
            device.add_residual(&mut out, &skip, dropout.as_ref());
            out
        })
    };
    assert_eq!(run(None), branch.iter().zip(&skip).map(|(b, s)| b + s).collect::<Vec<_>>());
    let mask = masks(KEY, 0.5, &samples, 9000);
    let want: Vec<f32> = branch.iter().zip(&skip).zip(&mask).map(|((b, s), m)| s + b * m).collect();
    assert_eq!(run(Some(Dropout { key: KEY, probability: 0.5, samples: &samples })), want);
}
