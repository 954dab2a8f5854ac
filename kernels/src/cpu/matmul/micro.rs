//! The innermost loop, which is the `gemm` family's: a tile of the result in registers, each element one chain of fused
//! multiply-adds from zero along the contraction in ascending order. (The scalar one, of processors without that instruction,
//! multiplies, then adds.) So all that have the instruction give the same bits.

use crate::cpu::class::Class;

/// A microkernel of `gemm_f32`. It speaks of column-major matrices: its rows are our columns.
pub(super) type Kernel = unsafe fn(
    usize,
    usize,
    usize,
    *mut f32,
    *const f32,
    *const f32,
    isize,
    isize,
    isize,
    isize,
    isize,
    f32,
    f32,
    u8,
    bool,
    bool,
    bool,
    *const f32,
);

/// The microkernels of one instruction set.
pub(super) struct Micro {
    /// Columns of a vector.
    lanes: usize,
    /// Vectors of a tile's row, at most.
    vectors: usize,
    /// Rows of a tile, at most.
    pub(super) rows: usize,
    kernel: fn(usize, usize) -> Kernel,
}

#[cfg(target_arch = "x86_64")]
static AVX512: Micro = Micro {
    lanes: 16,
    vectors: 4,
    rows: 6,
    kernel: |vectors, rows| gemm_f32::microkernel::avx512f::f32::UKR[vectors - 1][rows - 1],
};

#[cfg(target_arch = "x86_64")]
static FMA: Micro = Micro {
    lanes: 8,
    vectors: 2,
    rows: 6,
    kernel: |vectors, rows| gemm_f32::microkernel::fma::f32::UKR[vectors - 1][rows - 1],
};

#[cfg(target_arch = "aarch64")]
static NEON: Micro = Micro {
    lanes: 4,
    vectors: 4,
    rows: 4,
    kernel: |vectors, rows| gemm_f32::microkernel::neon::f32::UKR[vectors - 1][rows - 1],
};

#[cfg(not(target_arch = "aarch64"))]
static SCALAR: Micro = Micro {
    lanes: 1,
    vectors: 2,
    rows: 4,
    kernel: |vectors, rows| gemm_f32::microkernel::scalar::f32::UKR[vectors - 1][rows - 1],
};

impl Micro {
    pub(super) fn of(class: Class) -> &'static Self {
        match class {
            #[cfg(target_arch = "x86_64")]
            Class::Avx512 => &AVX512,
            #[cfg(target_arch = "x86_64")]
            Class::Avx2 => &FMA,
            #[cfg(not(target_arch = "x86_64"))]
            Class::Avx512 | Class::Avx2 => Self::portable(),
            Class::Portable => Self::portable(),
        }
    }

    fn portable() -> &'static Self {
        #[cfg(target_arch = "aarch64")]
        return &NEON;
        #[cfg(not(target_arch = "aarch64"))]
        &SCALAR
    }

    /// Columns of a tile, at most: the width of a panel.
    pub(super) fn width(&self) -> usize {
        self.lanes * self.vectors
    }

    /// What makes a tile of `columns` and `rows`.
    pub(super) fn kernel(&self, columns: usize, rows: usize) -> Kernel {
        (self.kernel)(columns.div_ceil(self.lanes), rows)
    }
}
