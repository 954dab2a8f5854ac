//! An export holds a band of a tensor at a time, however large the tensor is: FI-3 (bounded); and reads every element once: FI-5.

use std::alloc::{GlobalAlloc, Layout, System};
use std::convert::Infallible;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use shoal_config::JobSpec;
use shoal_config::spec::Dtype;
use shoal_config::spec::Gpt2Spec;
use shoal_model::files::{Aside, Destination};
use shoal_model::hf;
use shoal_plan::blocks::ModelTable;
use shoal_plan::ids::BlockId;
use shoal_plan::space::Interval;
use shoal_plan::weights::Dtypes;

struct Counting;

static HELD: AtomicU64 = AtomicU64::new(0);
static MOST: AtomicU64 = AtomicU64::new(0);

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size() as u64, Ordering::Relaxed) + layout.size() as u64;
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const WIDTH: u64 = 3072;
const INNER: u64 = 4 * WIDTH;
/// What is said to be there at once.
const BAND: u64 = 64 << 20;

/// A layer whose MLP is two tensors of 144 MiB, one of which is transposed.
fn spec() -> JobSpec {
    let mut spec = shoal_config::preset("tiny", "/".as_ref()).expect("a preset");
    let model = spec.model.as_gpt2_mut().expect("a GPT-2");
    *model = Gpt2Spec { layers: 1, heads: 24, width: WIDTH as u32, context: 8, vocab: 256, ..model.clone() };
    spec
}

/// What an element of ours is.
fn value(block: BlockId, at: u64) -> f32 {
    ((at + u64::from(block.0) * 7919) % 8_388_593) as f32
}

/// Looks at what is written, and keeps nothing of it but what is watched.
struct Look {
    at: u64,
    watched: Vec<(u64, f32)>,
    found: Vec<f32>,
}

impl Write for Look {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = self.at + bytes.len() as u64;
        for (at, _) in self.watched.iter().filter(|(at, _)| (self.at..end).contains(at)) {
            let here = (at - self.at) as usize;
            self.found.push(f32::from_le_bytes(bytes[here..here + 4].try_into().expect("an element is whole")));
        }
        self.at = end;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_large_turned_tensor_is_read_once_a_band_at_a_time() {
    let spec = spec();
    let table = ModelTable::of(&spec.model);
    let fc = table.blocks[1].place("mlp.fc.weight");
    assert!(fc.len() == INNER * WIDTH && 4 * fc.len() > 2 * BAND);
    let parts = hf::parts(&table, &spec, &Dtypes::All(Dtype::F32), u64::MAX);
    let whole = hf::part_len(&table, &spec, &parts[0], &Dtypes::All(Dtype::F32));

    // The header alone says where the tensor begins.
    let mut header = Vec::new();
    let stop = |_: BlockId, _: Interval, _: &mut [f32]| Err(io::Error::other("no weights yet"));
    let dir = tempfile::tempdir().expect("temp dir");
    let aside = Aside { dir: dir.path(), leave: 0 };
    let target = Destination { out: &mut header, aside };
    hf::write_part((&table, &spec), &parts[0], &Dtypes::All(Dtype::F32), stop, target).expect_err("no weights yet");
    let described: serde_json::Value = serde_json::from_slice(&header[8..]).expect("JSON");
    let tensor = &described["transformer.h.0.mlp.c_fc.weight"];
    assert_eq!(tensor["shape"], serde_json::json!([WIDTH, INNER]));
    let begin = header.len() as u64 + tensor["data_offsets"][0].as_u64().expect("a place");

    // Theirs is [in, out], ours [out, in]: corners, and both sides of where bands meet.
    let edge = (BAND / 4) / WIDTH;
    assert!(2 * edge < INNER);
    let places =
        [(0, 0), (0, INNER - 1), (5, edge - 1), (5, edge), (700, 2 * edge), (WIDTH - 1, 0), (WIDTH - 1, INNER - 1)];
    let place =
        |(row, column)| (begin + 4 * (row * INNER + column), value(BlockId(1), fc.start + column * WIDTH + row));
    let mut look = Look { at: 0, found: Vec::new(), watched: places.into_iter().map(place).collect() };
    let mut elements = 0;
    let read = |block: BlockId, interval: Interval, out: &mut [f32]| {
        elements += interval.len();
        for (out, at) in out.iter_mut().zip(interval.start..) {
            *out = value(block, at);
        }
        Ok::<_, Infallible>(())
    };
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let target = Destination { out: &mut look, aside };
    hf::write_part((&table, &spec), &parts[0], &Dtypes::All(Dtype::F32), read, target).expect("written");
    let held = MOST.load(Ordering::Relaxed) - before;
    assert_eq!(look.at, whole);
    assert_eq!(elements, table.parameters(), "every element is read once");
    assert_eq!(look.found, look.watched.iter().map(|(_, value)| *value).collect::<Vec<_>>());
    assert!((BAND / 2..BAND + (2 << 20)).contains(&held), "{held} bytes at once");
}
