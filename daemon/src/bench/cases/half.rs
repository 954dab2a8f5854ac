//! Rounding to bf16 and packing of it: what the wire asks for.

use shoal_kernels::{Half, Tag};

use super::{Case, Work, buffer, case, passes};

pub(super) fn round(elements: usize) -> Case {
    case("round", format!("{elements}"), passes(2, elements), move |device, arena| {
        let mut x = buffer(device, arena, elements)?;
        Ok(Box::new(move |device| device.round_to_bf16(x.view_mut())))
    })
}

/// Bytes of an f32 and a half an element.
fn both(elements: usize) -> Work {
    Work::Bytes((6 * elements) as f64)
}

pub(super) fn pack(elements: usize) -> Case {
    case("pack", format!("{elements}"), both(elements), move |device, arena| {
        let x = buffer(device, arena, elements)?;
        let mut packed = arena.alloc(Tag::Temporary, Half::slots(elements))?;
        Ok(Box::new(move |device| device.pack(packed.view_mut(), x.view(), Half::Bf16)))
    })
}

pub(super) fn unpack(elements: usize) -> Case {
    case("unpack", format!("{elements}"), both(elements), move |device, arena| {
        let mut x = buffer(device, arena, elements)?;
        let mut packed = arena.alloc(Tag::Temporary, Half::slots(elements))?;
        device.pack(packed.view_mut(), x.view(), Half::Bf16);
        Ok(Box::new(move |device| device.unpack(x.view_mut(), packed.view(), Half::Bf16)))
    })
}
