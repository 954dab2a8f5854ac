use super::super::testing::everywhere;
use crate::half::Half;

const BOTH: [Half; 2] = [Half::Bf16, Half::F16];

/// Every half value and its neighbours in f32, none of them NaN, over several runs of a division.
fn inputs(half: Half) -> Vec<f32> {
    (0..=u16::MAX)
        .map(|bits| half.value(bits))
        .filter(|x| !x.is_nan())
        .flat_map(|x| [x, x.next_up(), x.next_down()])
        .collect()
}

#[test]
fn every_class_rounds_as_the_plain_function() {
    for half in BOTH {
        let x = inputs(half);
        let got = everywhere(|device| {
            let mut x = x.clone();
            device.round(&mut x, half);
            x
        });
        for (got, x) in got.iter().zip(&x) {
            assert_eq!(got.to_bits(), half.nearest(*x).to_bits(), "{half:?} {x}");
        }
        assert!(
            everywhere(|device| {
                let mut x = vec![f32::NAN; 20];
                device.round(&mut x, half);
                x
            })
            .iter()
            .all(|x| x.is_nan())
        );
    }
}

/// Two a slot and back: the rounded values; an odd last one leaves the rest of its slot alone.
#[test]
fn packed_values_come_back_rounded() {
    for half in BOTH {
        for odd in [0, 1] {
            let x = inputs(half).split_off(odd);
            let got = everywhere(|device| {
                let (mut packed, mut back) = (vec![0.0; Half::slots(x.len())], vec![f32::NAN; x.len()]);
                device.pack(&mut packed, &x, half);
                let last = packed.last().expect("some").to_bits();
                assert_eq!(last.to_le_bytes()[2..] == [0, 0], x.len() % 2 == 1, "the room of no value");
                device.unpack(&mut back, &packed, half);
                back
            });
            for (got, x) in got.iter().zip(&x) {
                assert_eq!(got.to_bits(), half.nearest(*x).to_bits(), "{half:?} {x}");
            }
        }
    }
}

#[test]
fn rows_of_a_packed_table_are_its_values() {
    const WIDTH: usize = 6;
    let rows = [3, 0, 3, 9999, 1];
    for half in BOTH {
        let x: Vec<f32> = (0..10_000 * WIDTH).map(|i| half.value(i as u16)).collect();
        let got = everywhere(|device| {
            let mut packed = vec![0.0; Half::slots(x.len())];
            device.pack(&mut packed, &x, half);
            let mut got = vec![f32::NAN; rows.len() * WIDTH];
            device.unpack_rows(&mut got, &packed, &rows, half);
            got
        });
        let wanted = rows.iter().flat_map(|&row| &x[row as usize * WIDTH..][..WIDTH]);
        for (got, wanted) in got.iter().zip(wanted) {
            assert_eq!(got.to_bits(), half.nearest(*wanted).to_bits(), "{half:?}");
        }
    }
}
