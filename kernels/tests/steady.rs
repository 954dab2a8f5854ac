//! In the steady state an operation takes no memory, not from the arena and not from the system either: KN-3 (no allocation).

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use shoal_kernels::{
    Adam, Arena, Attention, Budget, Buffer, Decay, Device, Dropout, DropoutKey, DropoutSite, Linear, NormParams, Tag,
    Tier, Write,
};

struct Counting;

thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.with(|taken| taken.set(taken.get() + 1));
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn taken_by(body: impl FnOnce()) -> u64 {
    let before = TAKEN.with(Cell::get);
    body();
    TAKEN.with(Cell::get) - before
}

struct Bench {
    device: Device,
    arena: Arena,
}

impl Bench {
    fn buffer(&self, len: usize) -> Buffer {
        let mut buffer = self.arena.alloc(Tag::Temporary, len).expect("room");
        self.device.fill(buffer.view_mut(), 0.5);
        buffer
    }

    /// The operations of a step, with buffers taken and dropped as a step does.
    fn pass(&self) {
        const ROWS: usize = 96;
        const WIDTH: usize = 48;
        let d = &self.device;
        let (samples, tokens) = ([3, 4], [7; ROWS]);
        let key = DropoutKey { seed: 1, step: 1, block: 1, site: DropoutSite::Embedding };
        let dropout = Dropout { key, probability: 0.1, samples: &samples };
        let [mut x, mut y, mut stats] = [ROWS * WIDTH, ROWS * WIDTH, 2 * ROWS].map(|len| self.buffer(len));
        let [gamma, mut dgamma, mut dbeta] = [WIDTH; 3].map(|len| self.buffer(len));
        let [mut wte, mut wpe] = [50 * WIDTH, ROWS / 2 * WIDTH].map(|len| self.buffer(len));
        d.embedding(x.view_mut(), &tokens, (wte.view(), Some(wpe.view())), ROWS / 2, Some(&dropout));
        let params = NormParams { gamma: gamma.view(), beta: Some(gamma.view()), epsilon: 1e-5 };
        d.layer_norm(y.view_mut(), stats.view_mut(), x.view(), params);
        d.gelu(y.view_mut(), x.view());
        let map = Linear { rows: ROWS, inputs: WIDTH, outputs: WIDTH, layout: shoal_kernels::Layout::OutIn };
        let [weight, mut dweight] = [WIDTH * WIDTH; 2].map(|len| self.buffer(len));
        let mut hidden = self.buffer(ROWS * WIDTH);
        d.linear_gelu((y.view_mut(), hidden.view_mut()), x.view(), (weight.view(), Some(gamma.view())), map);
        d.linear_gelu_backward((hidden.view_mut(), y.view_mut()), x.view(), x.view(), weight.view(), map);
        d.linear_weight_gradient(dweight.view_mut(), hidden.view(), x.view(), map, Write::Add);
        d.add_residual(y.view_mut(), x.view(), Some(&dropout));
        d.cross_entropy(y.view_mut(), &tokens, 1.0);
        d.bias_gradient(dbeta.view_mut(), y.view(), Write::Overwrite);
        let parameters = (dgamma.view_mut(), Some(dbeta.view_mut()), Write::Add);
        let dy = self.buffer(ROWS * WIDTH);
        let saved = (x.view(), stats.view());
        d.layer_norm_backward((y.view_mut(), Write::Add), parameters, dy.view(), saved, gamma.view());
        d.embedding_backward((wte.view_mut(), Some(wpe.view_mut())), y.view(), &tokens, ROWS / 2, Write::Add);
        d.sum_of_squares(y.view());
        let scalars = Adam {
            scale: 1.0,
            decay: Decay::Kept(0.99),
            step_size: 1e-3,
            root_correction: 0.5,
            beta1: 0.9,
            beta2: 0.95,
            epsilon: 1e-8,
        };
        let [mut m, mut v] = [ROWS * WIDTH; 2].map(|len| self.buffer(len));
        d.adam(x.view_mut(), (m.view_mut(), v.view_mut()), y.view(), &scalars);
    }

    /// Attention, which has products in it.
    fn attend(&self) {
        let shape = Attention { samples: 2, positions: 80, heads: 3, kv_heads: 3, size: 16 };
        let (tokens, width) = (160, shape.width());
        let (qkv, mut dqkv) = (self.buffer(3 * tokens * width), self.buffer(3 * tokens * width));
        let (mut y, mut sums) = (self.buffer(tokens * width), self.buffer(shape.statistics()));
        self.device.attention(y.view_mut(), sums.view_mut(), qkv.view(), shape, None);
        let saved = (y.view(), sums.view(), qkv.view());
        self.device.attention_backward(dqkv.view_mut(), y.view(), saved, shape, None);
    }
}

#[test]
fn a_second_pass_takes_no_memory() {
    let budget = Budget::new(32 << 20);
    let arena = Arena::new(Tier::Device, 32 << 20, &budget);
    let bench = Bench { device: Device::cpu(1, &arena).expect("room for scratch"), arena };
    bench.pass();
    bench.attend();
    let (held, high) = (budget.held(), bench.arena.total().high);
    // The free lists are filled and their vectors have room.
    assert_eq!(taken_by(|| bench.pass()), 0);
    bench.attend();
    assert_eq!((budget.held(), bench.arena.total().high), (held, high));
}
