//! Rounding to a half type, and keeping two values in the room of one f32.

#[cfg(test)]
mod tests;

use super::CpuDevice;
use super::class::by_class;
use super::elementwise::GRAIN;
use super::pool::Parts;
use crate::half::Half;

by_class! {
    fn round(x: &mut [f32], half: Half) {
        match half {
            Half::Bf16 => x.iter_mut().for_each(|x| *x = Half::Bf16.nearest(*x)),
            Half::F16 => x.iter_mut().for_each(|x| *x = Half::F16.nearest(*x)),
        }
    }
}

by_class! {
    fn pack(packed: &mut [u16], x: &[f32], half: Half) {
        match half {
            Half::Bf16 => packed.iter_mut().zip(x).for_each(|(bits, &x)| *bits = Half::Bf16.bits(x)),
            Half::F16 => packed.iter_mut().zip(x).for_each(|(bits, &x)| *bits = Half::F16.bits(x)),
        }
    }
}

by_class! {
    fn unpack(x: &mut [f32], packed: &[u16], half: Half) {
        match half {
            Half::Bf16 => x.iter_mut().zip(packed).for_each(|(x, &bits)| *x = Half::Bf16.value(bits)),
            Half::F16 => x.iter_mut().zip(packed).for_each(|(x, &bits)| *x = Half::F16.value(bits)),
        }
    }
}

/// The first `elements` halves of `slots`.
fn halves(slots: &[f32], elements: usize) -> &[u16] {
    assert_eq!(slots.len(), Half::slots(elements), "KN-1 (shapes): {elements} packed values");
    // SAFETY: two u16 a slot, of less alignment; every pattern is one of both types.
    unsafe { std::slice::from_raw_parts(slots.as_ptr().cast(), elements) }
}

/// As [`halves`], to write.
fn halves_mut(slots: &mut [f32], elements: usize) -> &mut [u16] {
    assert_eq!(slots.len(), Half::slots(elements), "KN-1 (shapes): {elements} packed values");
    // SAFETY: as above, and borrowed mutably.
    unsafe { std::slice::from_raw_parts_mut(slots.as_mut_ptr().cast(), elements) }
}

impl CpuDevice {
    pub(crate) fn round(&self, x: &mut [f32], half: Half) {
        let len = x.len();
        let x = Parts::of(x);
        // SAFETY: runs of one division are disjoint.
        self.pool.divide(len, GRAIN, |run| round(self.class, unsafe { x.part(run) }, half));
    }

    pub(crate) fn pack(&self, packed: &mut [f32], x: &[f32], half: Half) {
        let packed = Parts::of(halves_mut(packed, x.len()));
        // SAFETY: runs of one division are disjoint.
        self.pool.divide(x.len(), GRAIN, |run| pack(self.class, unsafe { packed.part(run.clone()) }, &x[run], half));
    }

    pub(crate) fn unpack_rows(&self, x: &mut [f32], packed: &[f32], rows: &[u32], half: Half) {
        if rows.is_empty() {
            return;
        }
        let width = x.len() / rows.len();
        assert!(x.len() == rows.len() * width && width.is_multiple_of(2), "KN-1 (shapes): {} packed rows", rows.len());
        let packed = halves(packed, 2 * packed.len());
        let x = Parts::of(x);
        self.pool.divide(rows.len(), GRAIN.div_ceil(width.max(1)), |run| {
            for row in run {
                let from = rows[row] as usize * width;
                assert!(from + width <= packed.len(), "KN-5 (tokens are in the vocabulary): token {}", rows[row]);
                // SAFETY: rows are disjoint.
                unpack(
                    self.class,
                    unsafe { x.part(row * width..(row + 1) * width) },
                    &packed[from..from + width],
                    half,
                );
            }
        });
    }

    pub(crate) fn unpack(&self, x: &mut [f32], packed: &[f32], half: Half) {
        let packed = halves(packed, x.len());
        let x = Parts::of(x);
        // SAFETY: runs of one division are disjoint.
        self.pool
            .divide(packed.len(), GRAIN, |run| unpack(self.class, unsafe { x.part(run.clone()) }, &packed[run], half));
    }
}
