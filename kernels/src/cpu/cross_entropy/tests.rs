use shoal_exact::ExactSum;

use super::super::testing::{close, device, everywhere, is_gradient, values, wide};
use crate::cpu::Class;
use crate::device::{IGNORE, LossSum};

/// Loss of each row.
fn reference(logits: &[f64], targets: &[u32]) -> Vec<f64> {
    let vocab = logits.len() / targets.len();
    let loss = |(row, &target): (&[f64], &u32)| {
        if target == IGNORE {
            return 0.0;
        }
        let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        max + row.iter().map(|x| (x - max).exp()).sum::<f64>().ln() - row[target as usize]
    };
    logits.chunks(vocab).zip(targets).map(loss).collect()
}

fn case(rows: usize, vocab: usize) -> (Vec<f32>, Vec<u32>) {
    let logits: Vec<f32> = values(5, rows * vocab).iter().map(|x| x * 4.0).collect();
    let mut targets: Vec<u32> = (0..rows).map(|r| (r * 7 % vocab) as u32).collect();
    if rows > 2 {
        targets[1] = IGNORE;
    }
    (logits, targets)
}

/// The loss of every class; KN-2 (threads do not enter bits).
fn loss_of(logits: &[f32], targets: &[u32]) -> LossSum {
    let mut answer = None;
    for class in Class::here() {
        for threads in 1..=3 {
            let device = device(threads, class);
            let plain = device.cross_entropy_loss(logits, targets);
            let with_gradient = device.cross_entropy(&mut logits.to_vec(), targets, 1.0);
            assert_eq!(plain, with_gradient);
            assert_eq!(*answer.get_or_insert(plain), plain, "{} with {threads} threads", class.name());
        }
    }
    answer.expect("the portable class is everywhere")
}

#[test]
fn loss_as_the_reference() {
    for (rows, vocab) in [(1, 2), (3, 17), (20, 256), (5, 2500)] {
        let (logits, targets) = case(rows, vocab);
        let got = loss_of(&logits, &targets);
        let want = reference(&wide(&logits), &targets);
        assert_eq!(got.tokens, targets.iter().filter(|&&t| t != IGNORE).count() as u64);
        let sum: f64 = want.iter().sum();
        assert!(got.finite && (got.sum.to_f64() - sum).abs() <= 1e-6 * sum.abs().max(1.0), "{got:?} is not {sum}");
        // Any split of the rows gives the same exact sum, each row being rounded to f32 first.
        let one = |r: usize| loss_of(&logits[r * vocab..(r + 1) * vocab], &targets[r..=r]).sum;
        assert_eq!((0..rows).map(one).sum::<ExactSum>(), got.sum);
    }
}

#[test]
fn gradient_by_finite_differences_and_its_seed() {
    for (rows, vocab) in [(1, 2), (4, 33), (3, 130)] {
        let (logits, targets) = case(rows, vocab);
        let gradient = |seed| {
            everywhere(|device| {
                let mut x = logits.clone();
                device.cross_entropy(&mut x, &targets, seed);
                x
            })
        };
        let got = gradient(1.0);
        is_gradient("dlogits", &got, &wide(&logits), |x| reference(x, &targets).iter().sum(), 1e-6);
        // A power of two scales exactly.
        assert_eq!(gradient(0.25), got.iter().map(|x| x * 0.25).collect::<Vec<_>>());
        if rows > 2 {
            close("ignored", &got[vocab..2 * vocab], &vec![0.0; vocab], 0.0);
        }
    }
}

#[test]
fn what_is_not_finite_is_reported_and_not_summed() {
    for bad in [f32::NAN, f32::INFINITY] {
        let (mut logits, targets) = case(4, 40);
        logits[3 * 40 + 5] = bad;
        let got = loss_of(&logits, &targets);
        assert!(!got.finite && got.tokens == 3);
    }
    // A very unlikely target is only a large loss.
    let got = loss_of(&[0.0, 3000.0], &[0]);
    assert!(got.finite && got.sum.to_f64() == 3000.0);
}
