use super::super::testing::{close, everywhere, values};
use crate::device::{Dropout, DropoutKey, DropoutSite, Write};

const VOCAB: usize = 23;
const POSITIONS: usize = 6;
const WIDTH: usize = 70;

fn tokens(samples: usize) -> Vec<u32> {
    // Some often, some never, the first and last among them.
    (0..samples * POSITIONS).map(|i| [0, 5, 5, 22, 7, 5, 9, 0][(i * i + i / 3) % 8]).collect()
}

#[test]
fn forward_selects_rows_and_drops() {
    let tokens = tokens(3);
    let (wte, wpe) = (values(1, VOCAB * WIDTH), values(2, (POSITIONS + 2) * WIDTH));
    let run = |dropout: Option<Dropout<'_>>| {
        everywhere(|device| {
            let mut y = vec![f32::NAN; tokens.len() * WIDTH];
            device.embedding(&mut y, &tokens, (&wte, Some(&wpe[..])), POSITIONS, dropout.as_ref());
            y
        })
    };
    let want: Vec<f32> = (0..tokens.len() * WIDTH)
        .map(|i| wte[tokens[i / WIDTH] as usize * WIDTH + i % WIDTH] + wpe[i / WIDTH % POSITIONS * WIDTH + i % WIDTH])
        .collect();
    assert_eq!(run(None), want);
    let key = DropoutKey { seed: 1, step: 2, block: 0, site: DropoutSite::Embedding };
    let dropout = Dropout { key, probability: 0.4, samples: &[8, 9, 10] };
    let separately = everywhere(|device| {
        let mut y = vec![0.0; want.len()];
        device.dropout(&mut y, &want, &dropout);
        y
    });
    assert_eq!(run(Some(dropout)), separately);
}

#[test]
fn backward_sums_each_row_once_and_adds_whole_sums() {
    for samples in [1, 4, 40] {
        let tokens = tokens(samples);
        let dy = values(3, tokens.len() * WIDTH);
        let (te, pe) = (VOCAB * WIDTH, (POSITIONS + 2) * WIDTH);
        let run = |write, before: f32| {
            everywhere(|device| {
                let (mut dwte, mut dwpe) = (vec![before; te], vec![before; pe]);
                device.embedding_backward((&mut dwte, Some(&mut dwpe[..])), &dy, &tokens, POSITIONS, write);
                [dwte, dwpe].concat()
            })
        };
        let mut want = vec![0.0_f64; te + pe];
        for (i, &dy) in dy.iter().enumerate() {
            let (row, column) = (i / WIDTH, i % WIDTH);
            want[tokens[row] as usize * WIDTH + column] += f64::from(dy);
            want[te + row % POSITIONS * WIDTH + column] += f64::from(dy);
        }
        let got = run(Write::Overwrite, f32::NAN);
        close("tables", &got, &want, 1e-6);
        assert_eq!(run(Write::Add, 0.5), got.iter().map(|x| 0.5 + x).collect::<Vec<_>>());
    }
}

/// Without a table of positions: rows are selected, and the token table's gradient is the same as with one.
#[test]
fn positions_may_be_left_out() {
    let tokens = tokens(4);
    let wte = values(1, VOCAB * WIDTH);
    let selected = everywhere(|device| {
        let mut y = vec![f32::NAN; tokens.len() * WIDTH];
        device.embedding(&mut y, &tokens, (&wte, None), POSITIONS, None);
        y
    });
    let rows: Vec<f32> =
        tokens.iter().flat_map(|&t| &wte[t as usize * WIDTH..(t as usize + 1) * WIDTH]).copied().collect();
    assert_eq!(selected, rows);
    let dy = values(3, tokens.len() * WIDTH);
    let gradient = |positions: bool| {
        everywhere(|device| {
            let (mut dwte, mut dwpe) = (vec![f32::NAN; VOCAB * WIDTH], vec![0.0; POSITIONS * WIDTH]);
            let tables = (&mut dwte[..], positions.then_some(&mut dwpe[..]));
            device.embedding_backward(tables, &dy, &tokens, POSITIONS, Write::Overwrite);
            dwte
        })
    };
    assert_eq!(gradient(false), gradient(true));
}

#[test]
#[should_panic(expected = "KN-5")]
fn a_token_outside_the_vocabulary_is_refused() {
    let (wte, wpe) = (values(1, VOCAB * WIDTH), values(2, WIDTH));
    let device = super::super::testing::device(1, crate::cpu::Class::Portable);
    device.embedding(&mut [0.0; WIDTH], &[VOCAB as u32], (&wte, Some(&wpe[..])), 1, None);
}
