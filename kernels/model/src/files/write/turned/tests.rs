//! Tensors made of several runs, in bands of every size, against where each element belongs.

use std::convert::Infallible;
use std::path::Path;

use shoal_config::spec::Dtype;
use shoal_plan::ids::BlockId;

use super::*;
use crate::files::map::{Order, Tensor};
use crate::files::write::Aside;

/// Rows and columns of theirs.
const HEIGHT: u64 = 5;
const WIDTH: u64 = 12;

/// Columns of theirs from `at` on are the rows of ours from `start` on.
fn run(start: u64, rows: u64, at: u64) -> Run {
    let interval = Interval::new(start, start + rows * HEIGHT);
    Run { block: BlockId(1), interval, columns: HEIGHT, tensor: 0, at, order: Order::Transposed }
}

fn tensor() -> Tensor {
    Tensor { name: "turned".to_owned(), shape: vec![HEIGHT, WIDTH], open_ended: false }
}

/// Queries, then keys and values of two heads side by side with us and apart with them.
fn runs() -> Vec<Run> {
    let mut runs = vec![run(0, 4, 0), run(32, 2, 4), run(48, 2, 8), run(64, 2, 6), run(80, 2, 10)];
    runs.sort_by_key(|run| run.at);
    runs
}

/// FI-5 (written once).
#[test]
fn every_element_is_read_once_and_is_where_it_belongs_whatever_the_band() {
    let (tensor, runs, dir) = (tensor(), runs(), tempfile::tempdir().expect("temp dir"));
    let refs: Vec<&Run> = runs.iter().collect();
    let ours = |row: u64, column: u64| {
        let run = runs.iter().find(|run| (run.at..run.at + run.rows()).contains(&column)).expect("every column");
        run.interval.start + (column - run.at) * HEIGHT + row
    };
    for dtype in Dtype::ALL {
        for band in [1, HEIGHT, 3 * HEIGHT, 7 * HEIGHT + 1, HEIGHT * WIDTH - 1, HEIGHT * WIDTH, u64::MAX] {
            let mut times = [0; 96];
            let mut read = |block: BlockId, interval: Interval, out: &mut [f32]| {
                assert_eq!(block, BlockId(1));
                for (value, at) in out.iter_mut().zip(interval.start..interval.end) {
                    *value = at as f32;
                    times[at as usize] += 1;
                }
                Ok::<_, Infallible>(())
            };
            let mut written = Vec::new();
            let mut target = Destination { out: &mut written, aside: Aside { dir: dir.path(), leave: 0 } };
            write(&refs, Form { tensor: &tensor, dtype }, band, &mut read, &mut target).expect("room");
            let mut wanted = Vec::new();
            for row in 0..HEIGHT {
                let line: Vec<f32> = (0..WIDTH).map(|column| ours(row, column) as f32).collect();
                Form { tensor: &tensor, dtype }.encode(&line, &mut wanted).expect("it fits");
            }
            assert!(written == wanted, "{dtype:?}, bands of {band}");
            let once: u64 = (0..96).filter(|at| times[*at as usize] == 1).count() as u64;
            assert!(once == HEIGHT * WIDTH && times.iter().all(|times| *times < 2), "bands of {band}: {times:?}");
            assert_eq!(dir.path().read_dir().expect("readable").count(), 0, "nothing is left aside");
        }
    }
}

/// Rows of ours that are longer than what is read at a time.
#[test]
fn a_long_row_is_read_in_parts() {
    let height = STRETCH + 3;
    let tensor = Tensor { name: "long".to_owned(), shape: vec![height, 2], open_ended: false };
    let interval = Interval::new(0, 2 * height);
    let whole = Run { block: BlockId(0), interval, columns: height, tensor: 0, at: 0, order: Order::Transposed };
    let mut lens = Vec::new();
    let mut read = |_: BlockId, interval: Interval, out: &mut [f32]| {
        lens.push(interval.len());
        out.iter_mut().zip(interval.start..).for_each(|(value, at)| *value = at as f32);
        Ok::<_, Infallible>(())
    };
    let mut written = Vec::new();
    let mut target = Destination { out: &mut written, aside: Aside { dir: Path::new("/nowhere"), leave: 0 } };
    let form = Form { tensor: &tensor, dtype: Dtype::F32 };
    write(&[&whole], form, u64::MAX, &mut read, &mut target).expect("memory takes it");
    assert_eq!(lens, [STRETCH, 3, STRETCH, 3]);
    let found = |row: u64, column: u64| {
        let at = (4 * (2 * row + column)) as usize;
        f32::from_le_bytes(written[at..at + 4].try_into().expect("an element"))
    };
    for row in [0, 1, STRETCH - 1, STRETCH, height - 1] {
        assert_eq!((found(row, 0), found(row, 1)), (row as f32, (height + row) as f32));
    }
}

#[test]
fn what_finds_no_room_or_no_directory_says_so_before_anything_is_read() {
    let (tensor, runs, dir) = (tensor(), runs(), tempfile::tempdir().expect("temp dir"));
    let refs: Vec<&Run> = runs.iter().collect();
    let form = Form { tensor: &tensor, dtype: Dtype::F16 };
    let refused = |dir, leave| {
        let mut read = |_: BlockId, _: Interval, _: &mut [f32]| -> Result<(), Infallible> { panic!("it reads") };
        let mut target = Destination { out: &mut Vec::new(), aside: Aside { dir, leave } };
        write(&refs, form, 3 * HEIGHT, &mut read, &mut target).expect_err("not there").to_string()
    };
    let said = refused(Path::new("/nowhere"), 0);
    assert!(said.starts_with("turned is put together in a file in /nowhere, which cannot be made"), "{said}");
    let said = refused(dir.path(), 1 << 60);
    assert!(said.starts_with("turned is put together in a file of 120 bytes in "), "{said}");
    assert!(said.contains("beside which 1152921504606846976 bytes are left to others; make room"), "{said}");
}

/// FI-6 (every column).
#[test]
#[should_panic(expected = "FI-6 (every column)")]
fn a_column_that_is_nobodys_is_no_tensor() {
    let (tensor, runs) = (tensor(), runs());
    let refs: Vec<&Run> = runs.iter().skip(1).collect();
    let mut read = |_: BlockId, _: Interval, _: &mut [f32]| Ok::<_, Infallible>(());
    let mut target = Destination { out: &mut Vec::new(), aside: Aside { dir: Path::new("/nowhere"), leave: 0 } };
    let _ = write(&refs, Form { tensor: &tensor, dtype: Dtype::F32 }, u64::MAX, &mut read, &mut target);
}
