use std::collections::BTreeMap;

use proptest::prelude::*;
use shoal_exact::Arithmetic;

use super::super::testing::{device, values};
use super::tiles::{COLUMNS, PANELS};
use super::*;
use crate::cpu::Class;

/// Operands of one product, each stored one way or the other.
#[derive(Debug, Clone)]
struct Case {
    size: Size,
    a_transposed: bool,
    b_transposed: bool,
    a: Vec<f32>,
    b: Vec<f32>,
}

impl Case {
    fn new(size: Size, a_transposed: bool, b_transposed: bool) -> Self {
        let Size { m, n, k } = size;
        Self { size, a_transposed, b_transposed, a: values(1, m * k), b: values(2, k * n) }
    }

    fn a(&self) -> Strided<&[f32]> {
        let Size { m, k, .. } = self.size;
        if self.a_transposed { Strided::rows(&self.a, m).transposed() } else { Strided::rows(&self.a, k) }
    }

    fn b(&self) -> Strided<&[f32]> {
        let Size { n, k, .. } = self.size;
        if self.b_transposed { Strided::rows(&self.b, k).transposed() } else { Strided::rows(&self.b, n) }
    }

    fn on_threads(&self, threads: usize) -> Vec<f32> {
        let mut c = vec![f32::NAN; self.size.m * self.size.n];
        let device = device(threads, Class::detect());
        device.matmul(&mut c, self.a(), self.b(), self.size, Write::Overwrite, |_, _, _| ());
        c
    }

    /// The product tile by tile, cut at the given rows and columns.
    fn tiled(&self, rows: &[usize], columns: &[usize]) -> Vec<f32> {
        let Size { m, n, k } = self.size;
        let device = device(1, Class::detect());
        let mut c = vec![f32::NAN; m * n];
        let (a, b) = (self.a(), self.b());
        for i in rows.windows(2) {
            for j in columns.windows(2) {
                let out = Strided { base: c[i[0] * n + j[0]..].as_mut_ptr(), row: n, column: 1 };
                let a = Strided { base: &a.base[i[0] * a.row..], ..a };
                let b = Strided { base: &b.base[j[0] * b.column..], ..b };
                let size = Size { m: i[1] - i[0], n: j[1] - j[0], k };
                // SAFETY: a tile within the matrices.
                unsafe { device.product(out, a.pointer(), b.pointer(), size, Write::Overwrite) };
            }
        }
        c
    }
}

fn edges(mut cuts: Vec<usize>, end: usize) -> Vec<usize> {
    cuts.retain(|&cut| cut < end);
    cuts.extend([0, end]);
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

/// Sides that meet every path: one, a few, about a vector, about a cache block.
fn side() -> impl Strategy<Value = usize> {
    prop_oneof![3 => Just(1), 2 => 2_usize..8, 2 => 8_usize..70, 2 => 70_usize..200, 2 => 257_usize..400]
}

/// Contractions around the slice edges.
fn depth() -> impl Strategy<Value = usize> {
    prop_oneof![1_usize..4, 4_usize..100, 500_usize..530, 1020_usize..1030, 1200_usize..1700]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn bits_do_not_depend_on_the_division(
        (m, n, k) in (side(), side(), depth()),
        (a_transposed, b_transposed) in any::<(bool, bool)>(),
        rows in prop::collection::vec(1_usize..400, 0..4),
        columns in prop::collection::vec(1_usize..400, 0..4),
    ) {
        let case = Case::new(Size { m, n, k }, a_transposed, b_transposed);
        let one = case.on_threads(1);
        for threads in 2..=3 {
            prop_assert_eq!(bits(&one), bits(&case.on_threads(threads)), "{} threads", threads);
        }
        prop_assert_eq!(bits(&one), bits(&case.tiled(&edges(rows, m), &edges(columns, n))));
        let flipped = Case { a: transpose(&case.a, k, m, a_transposed), a_transposed: !a_transposed, ..case.clone() };
        prop_assert_eq!(bits(&one), bits(&flipped.on_threads(1)), "storage order of a");

        let (a, b) = (case.a(), case.b());
        for i in [0, m / 2, m - 1] {
            for j in [0, n / 2, n - 1] {
                let terms = (0..k).map(|p| {
                    f64::from(a.base[i * a.row + p * a.column]) * f64::from(b.base[p * b.row + j * b.column])
                });
                let (want, size) = terms.fold((0.0, 0.0), |(sum, size), t: f64| (sum + t, size + t.abs()));
                let got = f64::from(one[i * n + j]);
                prop_assert!((got - want).abs() <= 2e-6 * size, "({}, {}): {} is not {}", i, j, got, want);
            }
        }
    }

    #[test]
    fn adding_is_of_the_complete_product(
        (m, n, k) in (side(), side(), depth()),
        a_transposed in any::<bool>(),
        threads in 1_usize..4,
    ) {
        let case = Case::new(Size { m, n, k }, a_transposed, false);
        let before = values(3, m * n);
        let want: Vec<f32> = before.iter().zip(case.on_threads(1)).map(|(c, p)| c + p).collect();
        let mut got = before;
        device(threads, Class::detect()).matmul(&mut got, case.a(), case.b(), case.size, Write::Add, |_, _, _| ());
        prop_assert_eq!(bits(&got), bits(&want));
    }
}

/// The same matrix `[rows, columns]` (or `[columns, rows]` if it is stored transposed) stored the other way.
fn transpose(x: &[f32], k: usize, m: usize, transposed: bool) -> Vec<f32> {
    let (rows, columns) = if transposed { (k, m) } else { (m, k) };
    (0..columns).flat_map(|c| (0..rows).map(move |r| x[r * columns + c])).collect()
}

#[test]
fn an_empty_contraction_is_zero() {
    let case = Case::new(Size { m: 20, n: 20, k: 0 }, false, false);
    assert!(case.on_threads(2).iter().all(|&x| x == 0.0));
}

/// The tile that goes through scratch is cut in both directions and nothing is lost at the edges.
#[test]
fn adding_in_small_tiles() {
    let case = Case::new(Size { m: 37, n: 141, k: 700 }, true, true);
    let want = case.on_threads(1);
    let mut room = vec![f32::NAN; ROOM];
    for scratch in [37, 64 * 37, 128 * 37, 50_000] {
        let (mut got, mut scratch) = (vec![0.0; want.len()], vec![f32::NAN; scratch]);
        let out = Strided { base: got.as_mut_ptr(), row: case.size.n, column: 1 };
        let mut packer = Packer::new(Class::detect(), &mut room);
        // SAFETY: the whole of the result.
        unsafe {
            packer.add_product(&mut scratch, out, case.a().pointer(), case.b().pointer(), case.size, |_, _| ());
        }
        assert_eq!(bits(&got), bits(&want), "scratch of {}", scratch.len());
    }
}

/// A contraction that is too deep to be packed at once: blocks of it follow each other, in either mode.
#[test]
fn a_deep_contraction_is_taken_in_blocks() {
    let case = Case::new(Size { m: 200, n: 300, k: 9000 }, true, false);
    let want = case.on_threads(1);
    let small = {
        let mut c = vec![f32::NAN; want.len()];
        let out = Strided { base: c.as_mut_ptr(), row: case.size.n, column: 1 };
        // SAFETY: the whole of the result.
        unsafe { small(Class::detect(), out, case.a().pointer(), case.b().pointer(), case.size, false) };
        c
    };
    assert_eq!(bits(&want), bits(&small));
    let mut got = vec![1.0; want.len()];
    device(2, Class::detect()).matmul(&mut got, case.a(), case.b(), case.size, Write::Add, |_, _, _| ());
    let added: Vec<f32> = want.iter().map(|x| 1.0 + x).collect();
    assert_eq!(bits(&got), bits(&added));
}

/// Every instruction set gives the bits of the others of its arithmetic, tiles of every width and height; each is told every
/// part once. The two arithmetics differ.
#[test]
fn instruction_sets_agree() {
    for size in [Size { m: 13, n: 77, k: 530 }, Size { m: 70, n: 64, k: 31 }, Size { m: 300, n: 29, k: 3 }] {
        for (a_transposed, b_transposed) in [(false, false), (false, true), (true, false), (true, true)] {
            let case = Case::new(size, a_transposed, b_transposed);
            let mut seen: BTreeMap<Arithmetic, Vec<u32>> = BTreeMap::new();
            for class in [Class::Avx2, Class::Avx512, Class::Portable] {
                if class > Class::detect() {
                    continue;
                }
                let (mut c, mut parts) = (vec![f32::NAN; size.m * size.n], vec![0; size.m * size.n]);
                let out = Strided { base: c.as_mut_ptr(), row: size.n, column: 1 };
                let mut room = vec![f32::NAN; ROOM];
                let mut few = vec![f32::NAN; size.m * size.n];
                let little = Strided { base: few.as_mut_ptr(), row: size.n, column: 1 };
                let done = |rows: Range<usize>, columns: Range<usize>| {
                    rows.for_each(|i| columns.clone().for_each(|j| parts[i * size.n + j] += 1));
                };
                let (mut added, mut scratch) = (vec![0.0; size.m * size.n], vec![f32::NAN; size.m * 64]);
                let sum = Strided { base: added.as_mut_ptr(), row: size.n, column: 1 };
                let (mut packed, mut loose) = (vec![f32::NAN; size.m * size.n], vec![f32::NAN; size.m * size.n]);
                // SAFETY: the whole of all results.
                unsafe {
                    let (a, b) = (case.a().pointer(), case.b().pointer());
                    let mut packer = Packer::new(class, &mut room);
                    packer.product(out, a, b, size, false, done);
                    packer.add_product(&mut scratch, sum, a, b, size, |_, _| ());
                    small(class, little, a, b, size, false);
                    for (to, most) in [(&mut packed, ROOM), (&mut loose, ROOM - PANELS + COLUMNS * SLICE)] {
                        let mut packer = Packer::new(class, &mut room[..most]);
                        let ([operand], mut packer) = packer.operands([(b, size.k, size.n)]);
                        assert_eq!(matches!(operand, Operand::Packed(_)), most == ROOM);
                        packer.by(Strided { base: to.as_mut_ptr(), ..out }, a, &operand, size);
                    }
                }
                assert_eq!([bits(&packed), bits(&loose), bits(&added)], [(); 3].map(|()| bits(&c)), "{size:?}");
                assert!(parts.iter().all(|&times| times == 1), "{size:?}");
                assert_eq!(bits(&c), bits(&few), "{} {size:?}", class.name());
                let want = seen.entry(class.arithmetic()).or_insert_with(|| bits(&c));
                assert_eq!(&bits(&c), want, "{} {size:?}", class.name());
            }
            if let (Some(fused), Some(plain)) = (seen.get(&Arithmetic::Fused), seen.get(&Arithmetic::Plain)) {
                assert_ne!(fused, plain, "{size:?}");
            }
        }
    }
}

/// More than threads pack together, and rows that are not a whole number of units.
#[test]
fn a_large_operand_is_packed_by_each_thread() {
    let case = Case::new(Size { m: 1601, n: 1500, k: 1650 }, false, true);
    assert!(case.size.n * case.size.k > SHARED);
    assert_eq!(bits(&case.on_threads(1)), bits(&case.on_threads(3)));
}

#[test]
fn squares_are_transposed_by_every_class() {
    let from = values(5, 8 * 11);
    for class in Class::here() {
        let mut to = vec![f32::NAN; 8 * 13];
        // SAFETY: eight rows of eight, 11 and 13 apart.
        unsafe { transpose::transpose(class, to.as_mut_ptr(), 13, from.as_ptr(), 11) };
        for (i, row) in to.chunks(13).enumerate() {
            let want: Vec<f32> = (0..8).map(|j| from[j * 11 + i]).collect();
            assert_eq!(row[..8], want, "{}", class.name());
            assert!(row[8..].iter().all(|x| x.is_nan()), "nothing beside the square is written");
        }
    }
}
