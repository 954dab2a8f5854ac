//! What do bits that depend on nobody cost? Ours beside the same work without the promise: the product in one call of `gemm` with its
//! own choice of blocks and threads, the sum of squares as one plain loop. Compare the fastest runs.

mod common;

use common::{Bench, NAMES, Sizes};
use divan::counter::ItemsCount;
use shoal_kernels::{Layout, Linear, Write};

fn main() {
    divan::main();
}

/// The MLP's first map of a layer: forward from an `[outputs, inputs]` weight.
fn shape(name: &str) -> Linear {
    let s = Sizes::named(name);
    Linear { rows: s.tokens(), inputs: s.width, outputs: 4 * s.width, layout: Layout::OutIn }
}

fn operations(shape: Linear) -> ItemsCount {
    ItemsCount::new(2 * shape.rows * shape.inputs * shape.outputs)
}

fn parallelism() -> gemm::Parallelism {
    match std::env::var("SHOAL_BENCH_THREADS").ok().and_then(|t| t.parse().ok()).unwrap_or(1) {
        1 => gemm::Parallelism::None,
        threads => gemm::Parallelism::Rayon(threads),
    }
}

/// `c [m, n] = a [m, k] b [k, n]`, each operand with its strides by row and column, with no promise.
fn free(
    c: &mut [f32],
    (a, a_strides): (&[f32], (usize, usize)),
    (b, b_strides): (&[f32], (usize, usize)),
    k: usize,
    n: usize,
) {
    let m = c.len() / n;
    let stride = |x: usize| x as isize;
    // SAFETY: the callers' matrices have these sizes, and `c` is borrowed alone.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.as_mut_ptr(),
            1,
            stride(n),
            false,
            a.as_ptr(),
            stride(a_strides.1),
            stride(a_strides.0),
            b.as_ptr(),
            stride(b_strides.1),
            stride(b_strides.0),
            0.0,
            1.0,
            false,
            false,
            false,
            parallelism(),
        );
    }
}

#[divan::bench(args = NAMES)]
fn forward_exact(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, s) = (Bench::new(), shape(name));
    let (x, w, mut y) = (b.buffer(s.rows * s.inputs), b.buffer(s.inputs * s.outputs), b.buffer(s.rows * s.outputs));
    bencher.counter(operations(s)).bench_local(|| b.device.linear(y.view_mut(), x.view(), w.view(), None, s));
}

#[divan::bench(args = NAMES)]
fn forward_free(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, s) = (Bench::new(), shape(name));
    let (x, w, mut y) = (b.buffer(s.rows * s.inputs), b.buffer(s.inputs * s.outputs), b.buffer(s.rows * s.outputs));
    let (x, w) = (x.view().host_visible().expect("host"), w.view().host_visible().expect("host"));
    let y = y.host_visible_mut().expect("host");
    bencher.counter(operations(s)).bench_local(|| free(y, (x, (s.inputs, 1)), (w, (1, s.inputs)), s.inputs, s.outputs));
}

#[divan::bench(args = NAMES)]
fn weight_gradient_exact(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, s) = (Bench::new(), shape(name));
    let (dy, x) = (b.buffer(s.rows * s.outputs), b.buffer(s.rows * s.inputs));
    let mut dw = b.buffer(s.inputs * s.outputs);
    bencher.counter(operations(s)).bench_local(|| {
        b.device.linear_weight_gradient(dw.view_mut(), dy.view(), x.view(), s, Write::Overwrite);
    });
}

#[divan::bench(args = NAMES)]
fn weight_gradient_free(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, s) = (Bench::new(), shape(name));
    let (dy, x) = (b.buffer(s.rows * s.outputs), b.buffer(s.rows * s.inputs));
    let mut dw = b.buffer(s.inputs * s.outputs);
    let (dy, x) = (dy.view().host_visible().expect("host"), x.view().host_visible().expect("host"));
    let dw = dw.host_visible_mut().expect("host");
    bencher.counter(operations(s)).bench_local(|| free(dw, (dy, (1, s.outputs)), (x, (s.inputs, 1)), s.rows, s.inputs));
}

#[divan::bench(args = NAMES)]
fn norm_exact(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, width) = (Bench::new(), Sizes::named(name).width);
    let x = b.buffer(12 * width * width);
    bencher.counter(ItemsCount::new(x.len())).bench_local(|| b.device.sum_of_squares(x.view()));
}

#[divan::bench(args = NAMES)]
fn norm_free(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, width) = (Bench::new(), Sizes::named(name).width);
    let x = b.buffer(12 * width * width);
    let x = x.view().host_visible().expect("host");
    bencher.counter(ItemsCount::new(x.len())).bench_local(|| {
        // Sixteen sums side by side, so that the compiler may use vectors.
        let mut sums = [0.0_f32; 16];
        for chunk in x.as_chunks::<16>().0 {
            for (sum, x) in sums.iter_mut().zip(chunk) {
                *sum += x * x;
            }
        }
        sums.iter().sum::<f32>()
    });
}
