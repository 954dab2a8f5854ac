use shoal_plan::ids::BlockId;
use shoal_plan::space::Interval;

use super::*;
use crate::testing::{job, llama};

fn whole(seed: u64, block: u32) -> (ModelTable, Vec<f32>) {
    let spec = JobSpec { seed, ..job(2, 4, 64, 32, 256, 0.0) };
    let table = ModelTable::of(&spec.model);
    let mut out = vec![f32::NAN; table.block(BlockId(block)).len as usize];
    fill(&table, &spec, BlockId(block), Interval::new(0, out.len() as u64), &mut out);
    (table, out)
}

#[test]
fn any_interval_is_a_cut_of_the_whole() {
    let spec = job(2, 4, 64, 32, 256, 0.0);
    let table = ModelTable::of(&spec.model);
    for block in 0..4 {
        let mut all = vec![0.0; table.block(BlockId(block)).len as usize];
        fill(&table, &spec, BlockId(block), Interval::new(0, all.len() as u64), &mut all);
        for (start, end) in [(0, 16), (48, 112), (16, all.len() as u64), (3, 100.min(all.len() as u64))] {
            let mut part = vec![f32::NAN; (end - start) as usize];
            fill(&table, &spec, BlockId(block), Interval::new(start, end), &mut part);
            assert_eq!(part, all[start as usize..end as usize]);
        }
    }
}

#[test]
fn parameters_have_their_distribution() {
    let (table, layer) = whole(5, 1);
    for param in &table.blocks[1].params {
        let values = &layer[param.interval.range()];
        match param.init {
            Init::Zeros => assert!(values.iter().all(|&x| x == 0.0), "{}", param.name),
            Init::Ones => assert!(values.iter().all(|&x| x == 1.0), "{}", param.name),
            Init::Normal => assert_normal(values, 0.02),
            Init::NormalResidual => assert_normal(values, 0.02 / 2.0),
        }
    }
}

/// As `transformers` draws a Llama: residual projections too have the whole range.
#[test]
fn matrices_of_a_llama_begin_alike() {
    let model = llama([2, 4, 2, 16, 64, 176, 32, 256], true, false);
    let spec = JobSpec { seed: 5, model, ..job(2, 4, 64, 32, 256, 0.0) };
    let table = ModelTable::of(&spec.model);
    for block in &table.blocks {
        let mut values = vec![f32::NAN; block.len as usize];
        fill(&table, &spec, block.id, Interval::new(0, block.len), &mut values);
        for param in block.params.iter().filter(|param| param.matrix().is_some()) {
            assert_normal(&values[param.interval.range()], 0.02);
        }
    }
}

/// Mean, variance, third and fourth moments within five standard errors, and Kolmogorov-Smirnov against the normal
/// distribution at its one-in-a-thousand level.
fn assert_normal(values: &[f32], deviation: f64) {
    let n = values.len() as f64;
    let z: Vec<f64> = values.iter().map(|&x| f64::from(x) / deviation).collect();
    let moment = |k: i32| z.iter().map(|x| x.powi(k)).sum::<f64>() / n;
    for (k, mean, variance) in [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)] {
        let error = (moment(k) - mean).abs();
        assert!(error < 5.0 * f64::sqrt(variance / n), "moment {k}: {error} over {n}");
    }
    let mut sorted = z;
    sorted.sort_by(f64::total_cmp);
    let distance = sorted
        .iter()
        .enumerate()
        .map(|(i, &x)| (distribution(x) - (i as f64 + 0.5) / n).abs() + 0.5 / n)
        .fold(0.0, f64::max);
    assert!(distance * n.sqrt() < 1.95, "Kolmogorov-Smirnov {distance} over {n}");
}

/// Normal distribution function by the trapezoid rule on its density: good to 1e-7.
fn distribution(x: f64) -> f64 {
    let steps = 400;
    let width = x / f64::from(steps);
    let density = |t: f64| (-t * t / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let inner: f64 = (1..steps).map(|i| density(width * f64::from(i))).sum();
    0.5 + width * (inner + (density(0.0) + density(x)) / 2.0)
}

#[test]
fn blocks_neighbours_and_seeds_are_unrelated() {
    let (table, one) = whole(5, 1);
    let (_, two) = whole(5, 2);
    let (_, other) = whole(6, 1);
    let range = table.blocks[1].params[2].interval.range();
    let lag: Vec<f32> = one[range.start + 1..range.end].to_vec();
    for (name, a, b) in [
        ("block", &one[range.clone()], &two[range.clone()]),
        ("seed", &one[range.clone()], &other[range.clone()]),
        ("neighbour", &one[range.start..range.end - 1], &lag[..]),
    ] {
        let n = a.len() as f64;
        let correlation: f64 =
            a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>() / n / (0.02 * 0.02);
        assert!(correlation.abs() < 5.0 / n.sqrt(), "{name}: {correlation}");
    }
}

/// The bits are a contract: every machine starts from these. Checked against another Philox with the normal quantile of
/// the Python standard library, rounded to f32.
#[test]
fn golden_bits() {
    let (_, wte) = whole(42, 0);
    let head: Vec<u32> = wte[..6].iter().map(|x| x.to_bits()).collect();
    assert_eq!(head, [3_151_096_918, 3_155_560_323, 3_169_984_598, 1_019_995_169, 1_010_846_158, 1_025_037_583]);
}
