//! Sixteen f32 at once, the unit of every reduction: lane i takes elements i, i + 16, ..; then lanes are added in a fixed
//! tree. So the order of additions does not depend on how wide the machine's vectors are.

/// Lanes of a reduction.
pub(super) const LANES: usize = 16;

/// One value a lane.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Lanes(pub(super) [f32; LANES]);

impl Lanes {
    #[inline(always)]
    pub(super) fn splat(x: f32) -> Self {
        Self([x; LANES])
    }

    /// Loads at most [`LANES`] elements; missing ones are `fill`.
    #[inline(always)]
    pub(super) fn load_tail(x: &[f32], fill: f32) -> Self {
        let mut lanes = [fill; LANES];
        lanes[..x.len()].copy_from_slice(x);
        Self(lanes)
    }

    #[inline(always)]
    pub(super) fn map2(mut self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        for i in 0..LANES {
            self.0[i] = f(self.0[i], other.0[i]);
        }
        self
    }

    #[inline(always)]
    pub(super) fn map(mut self, f: impl Fn(f32) -> f32) -> Self {
        for i in 0..LANES {
            self.0[i] = f(self.0[i]);
        }
        self
    }

    #[inline(always)]
    pub(super) fn add(self, other: Self) -> Self {
        self.map2(other, |a, b| a + b)
    }

    /// `self + a b`, rounded once.
    #[inline(always)]
    pub(super) fn fused(mut self, a: Self, b: Self) -> Self {
        for i in 0..LANES {
            self.0[i] = a.0[i].mul_add(b.0[i], self.0[i]);
        }
        self
    }

    /// Lanes combined pairwise: i with i + 8, then + 4, + 2, + 1.
    #[inline(always)]
    pub(super) fn fold(self, f: impl Fn(f32, f32) -> f32) -> f32 {
        let mut x = self.0;
        let mut half = LANES / 2;
        while half > 0 {
            for i in 0..half {
                x[i] = f(x[i], x[i + half]);
            }
            half /= 2;
        }
        x[0]
    }

    #[inline(always)]
    pub(super) fn sum(self) -> f32 {
        self.fold(|a, b| a + b)
    }
}
