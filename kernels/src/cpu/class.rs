//! Instruction-set classes, chosen at run time.

use shoal_exact::Arithmetic;

/// What vector instructions a device uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// What every processor of this architecture has.
    Portable,
    /// 256-bit vectors and fused multiply-add (x86-64-v3).
    Avx2,
    /// 512-bit vectors (x86-64-v4).
    Avx512,
}

impl Class {
    /// The best class of this machine.
    #[must_use]
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            // The sets that the matrix-product crate asks for, so that one class holds for everything.
            let v3 = has!("avx2") && has!("fma") && has!("bmi1") && has!("bmi2") && has!("lzcnt") && has!("movbe");
            let v4 = has!("avx512f") && has!("avx512bw") && has!("avx512cd") && has!("avx512dq") && has!("avx512vl");
            if v3 && v4 {
                return Self::Avx512;
            }
            if v3 {
                return Self::Avx2;
            }
        }
        Self::Portable
    }

    /// Every class of this machine, the best last.
    #[must_use]
    pub fn here() -> Vec<Self> {
        [Self::Portable, Self::Avx2, Self::Avx512].into_iter().filter(|class| *class <= Self::detect()).collect()
    }

    /// The class of this machine that is called so.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::here().into_iter().find(|class| class.name() == name)
    }

    /// What its matrix products compute.
    #[must_use]
    pub fn arithmetic(self) -> Arithmetic {
        match self {
            Self::Portable if cfg!(target_arch = "aarch64") => Arithmetic::Fused,
            Self::Portable => Arithmetic::Plain,
            Self::Avx2 | Self::Avx512 => Arithmetic::Fused,
        }
    }

    /// As printed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable if cfg!(target_arch = "aarch64") => "neon",
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }
}

/// Defines a function that is compiled once for each class and takes the class as its first argument.
///
/// Bodies are plain code: a written order of IEEE operations, so that every version gives the same bits.
macro_rules! by_class {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments, reason = "the class is one of them")]
        $vis fn $name(class: $crate::cpu::Class, $($arg: $ty),*) $(-> $ret)? {
            #[allow(clippy::too_many_arguments, reason = "as above")]
            #[inline(always)]
            fn body($($arg: $ty),*) $(-> $ret)? $body
            #[cfg(target_arch = "x86_64")]
            #[allow(clippy::too_many_arguments, reason = "as above")]
            #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,bmi1,bmi2,lzcnt")]
            fn avx512($($arg: $ty),*) $(-> $ret)? { body($($arg),*) }
            #[cfg(target_arch = "x86_64")]
            #[allow(clippy::too_many_arguments, reason = "as above")]
            #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt")]
            fn avx2($($arg: $ty),*) $(-> $ret)? { body($($arg),*) }
            match class {
                // SAFETY: a device has no class above the detected one (KN-9).
                #[cfg(target_arch = "x86_64")]
                $crate::cpu::Class::Avx512 => unsafe { avx512($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::cpu::Class::Avx2 => unsafe { avx2($($arg),*) },
                #[cfg(not(target_arch = "x86_64"))]
                $crate::cpu::Class::Avx512 | $crate::cpu::Class::Avx2 => body($($arg),*),
                $crate::cpu::Class::Portable => body($($arg),*),
            }
        }
    };
}

pub(crate) use by_class;
