//! Operations that a Llama has and a GPT-2 has not.

use shoal_kernels::{Attention, Rotary, RotaryScaling, Tag, Write};

use super::{Case, buffer, buffers, case, named, passes};

pub(super) fn rms_norm(rows: usize, width: usize) -> Case {
    case("rms_norm", format!("{rows} x {width}"), passes(2, rows * width), move |device, arena| {
        let [x, mut y] = buffers(device, arena, [rows * width; 2])?;
        let [mut stats, gamma] = buffers(device, arena, [rows, width])?;
        Ok(Box::new(move |device| {
            device.rms_norm(y.view_mut(), stats.view_mut(), x.view(), gamma.view(), 1e-5);
        }))
    })
}

pub(super) fn rms_norm_backward(rows: usize, width: usize) -> Case {
    case("rms_norm_backward", format!("{rows} x {width}"), passes(3, rows * width), move |device, arena| {
        let [x, dy, mut dx] = buffers(device, arena, [rows * width; 3])?;
        let [stats, gamma, mut dgamma] = buffers(device, arena, [rows, width, width])?;
        Ok(Box::new(move |device| {
            let (dx, dgamma) = ((dx.view_mut(), Write::Overwrite), (dgamma.view_mut(), Write::Overwrite));
            device.rms_norm_backward(dx, dgamma, dy.view(), (x.view(), stats.view()), gamma.view());
        }))
    })
}

/// Reads and writes queries and keys.
pub(super) fn rope(shape: Attention) -> Case {
    let tokens = shape.samples * shape.positions;
    let work = passes(2, tokens * (shape.heads + shape.kv_heads) * shape.size);
    case("rope", named(shape), work, move |device, arena| {
        let mut qkv = buffer(device, arena, tokens * shape.packed())?;
        let mut turns = arena.alloc(Tag::Temporary, shape.positions * shape.size)?;
        device.rope_table(turns.view_mut(), shape.size, &Rotary { theta: 1e4, scaling: RotaryScaling::None });
        Ok(Box::new(move |device| device.rope(qkv.view_mut(), turns.view(), shape)))
    })
}
