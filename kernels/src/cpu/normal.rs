//! Normal deviates of a counter-based generator, many at a time.
//!
//! Element `i` of a stream is drawn from word `i % 4` of `philox4x32(seed, [i / 4, stream])` and mapped by the normal quantile,
//! in a written order of IEEE f64 operations, so that every class gives the same bits. One element in seven lies where the quantile
//! takes a logarithm and a root: those are put side by side before they are mapped.

#[cfg(test)]
mod tests;

use shoal_exact::elementary::ln;
use shoal_exact::philox::philox4x32_run;

use super::Class;
use super::class::by_class;

/// Counters taken at once.
const COUNTERS: usize = 64;
/// Elements drawn at once: four a counter.
const BATCH: usize = 4 * COUNTERS;
/// f64 of the widest vector.
const VECTOR: usize = 8;

/// Writes elements `start..` of a stream: normal deviates with mean 0 and the given standard deviation.
pub fn normals(seed: u64, stream: [u32; 2], start: u64, deviation: f64, out: &mut [f32]) {
    let class = Class::detect();
    let mut at = start;
    let mut rest = out;
    while !rest.is_empty() {
        let skipped = (at % 4) as usize;
        let here = (BATCH - skipped).min(rest.len());
        let (now, later) = rest.split_at_mut(here);
        let mut drawn = [0.0; BATCH];
        batch(class, &mut drawn, seed, stream, at / 4, deviation);
        now.copy_from_slice(&drawn[skipped..skipped + here]);
        at += here as u64;
        rest = later;
    }
}

by_class! {
    fn batch(out: &mut [f32; BATCH], seed: u64, stream: [u32; 2], first: u64, deviation: f64) {
        let words = philox4x32_run::<COUNTERS>([seed as u32, (seed >> 32) as u32], first, stream);
        let mut uniform = [0.0; BATCH];
        for (lane, words) in words.iter().enumerate() {
            for (group, &word) in words.iter().enumerate() {
                uniform[lane * COUNTERS + group] = (f64::from(word) + 0.5) / 4_294_967_296.0;
            }
        }
        let (mut places, mut outside) = ([0_usize; BATCH], 0);
        for (i, &p) in uniform.iter().enumerate() {
            places[outside] = i;
            outside += usize::from(!is_central(p));
        }
        let mut drawn = [0.0_f32; BATCH];
        for (x, &p) in drawn.iter_mut().zip(&uniform) {
            *x = (central_quantile(p) * deviation) as f32;
        }
        let mut outer = [0.5; BATCH];
        for (p, &i) in outer.iter_mut().zip(&places[..outside]) {
            *p = uniform[i];
        }
        // Whole vectors: what is behind the last is drawn for nobody.
        for p in &mut outer[..outside.next_multiple_of(VECTOR)] {
            *p = outer_quantile(*p) * deviation;
        }
        for (x, &i) in outer.iter().zip(&places[..outside]) {
            drawn[i] = *x as f32;
        }
        for (i, x) in out.iter_mut().enumerate() {
            *x = drawn[i % 4 * COUNTERS + i / 4];
        }
    }
}

/// Whether the inverse of the standard normal distribution function at `p` is [`central_quantile`], not [`outer_quantile`].
///
/// Algorithm AS 241, PPND16 (M. J. Wichura, "The percentage points of the normal distribution", Applied Statistics 37,
/// 1988), both of its ratios of polynomials that `2^-33 <= p <= 1 - 2^-33` needs; relative error about 1e-16.
#[inline(always)]
fn is_central(p: f64) -> bool {
    (p - 0.5).abs() <= 0.425
}

#[inline(always)]
fn central_quantile(p: f64) -> f64 {
    let q = p - 0.5;
    let r = 0.180_625 - q * q;
    q * polynomial(&CENTRE_ABOVE, r) / polynomial(&CENTRE_BELOW, r)
}

#[inline(always)]
fn outer_quantile(p: f64) -> f64 {
    let low = p < 0.5;
    let tail = (-ln(if low { p } else { 1.0 - p })).sqrt() - 1.6;
    let above = polynomial(&MIDDLE_ABOVE, tail);
    (if low { -above } else { above }) / polynomial(&MIDDLE_BELOW, tail)
}

/// Horner, constant term first in the table.
#[inline(always)]
fn polynomial(coefficients: &[f64; 8], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

const CENTRE_ABOVE: [f64; 8] = [
    3.387_132_872_796_366_5,
    1.331_416_678_917_843_8e2,
    1.971_590_950_306_551_3e3,
    1.373_169_376_550_946e4,
    4.592_195_393_154_987e4,
    6.726_577_092_700_87e4,
    3.343_057_558_358_813e4,
    2.509_080_928_730_122_7e3,
];
const CENTRE_BELOW: [f64; 8] = [
    1.0,
    4.231_333_070_160_091e1,
    6.871_870_074_920_579e2,
    5.394_196_021_424_751e3,
    2.121_379_430_158_659_7e4,
    3.930_789_580_009_271e4,
    2.872_908_573_572_194_3e4,
    5.226_495_278_852_545e3,
];
const MIDDLE_ABOVE: [f64; 8] = [
    1.423_437_110_749_683_5,
    4.630_337_846_156_546,
    5.769_497_221_460_691,
    3.647_848_324_763_204_5,
    1.270_458_252_452_368_4,
    2.417_807_251_774_506e-1,
    2.272_384_498_926_918_4e-2,
    7.745_450_142_783_414e-4,
];
const MIDDLE_BELOW: [f64; 8] = [
    1.0,
    2.053_191_626_637_759,
    1.676_384_830_183_803_8,
    6.897_673_349_851e-1,
    1.481_039_764_274_800_8e-1,
    1.519_866_656_361_645_7e-2,
    5.475_938_084_995_345e-4,
    1.050_750_071_644_416_9e-9,
];
