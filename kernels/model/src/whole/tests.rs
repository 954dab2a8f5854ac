use shoal_config::spec::Precision;
use shoal_plan::memory::whole::{Purpose, whole_bytes};

use super::*;
use crate::init;
use crate::sample::Sampling;
use crate::testing::{job, llama};

const PLENTY: Room = Room { threads: 1, bytes: 1 << 30, text: 0 };
const TEXTS: [bool; 256] = [true; 256];

/// Weights from the job's seed.
fn fill(spec: &JobSpec, mut write: impl FnMut(BlockId, Interval, &[f32])) {
    let table = ModelTable::of(&spec.model);
    for block in &table.blocks {
        let whole = Interval::new(0, block.len);
        let mut values = vec![0.0; block.len as usize];
        init::fill(&table, spec, block.id, whole, &mut values);
        write(block.id, whole, &values);
    }
}

/// A small model that goes on from at most its context.
fn writer(more: u64) -> (Writer, usize) {
    let spec = shoal_config::preset("tiny", "/".as_ref()).expect("a preset");
    let context = spec.model.context() as usize;
    let mut writer = Writer::new(&spec, (context as u64, more), PLENTY).expect("room");
    fill(&spec, |block, interval, values| writer.write_weights(block, interval, values));
    (writer, context)
}

fn wanted(temperature: f64) -> Wanted<'static> {
    Wanted { sampling: Sampling { temperature, top_k: None, top_p: None, seed: 3 }, texts: &TEXTS, end: None }
}

fn text(writer: &mut Writer, prompt: &[u32], wanted: &Wanted<'_>) -> (Vec<u32>, Ended) {
    let mut tokens = Vec::new();
    let ended = writer.go_on(prompt, wanted, |token| {
        tokens.push(token);
        true
    });
    (tokens, ended.expect("a text"))
}

#[test]
fn a_text_goes_on_beyond_the_context_and_is_the_same_by_its_seed() {
    let long = 200;
    let (mut writer, context) = writer(long);
    assert!(long > 2 * context as u64);
    let (first, ended) = text(&mut writer, &[10], &wanted(1.0));
    assert_eq!((first.len() as u64, ended), (long, Ended::Long));
    assert_eq!(text(&mut writer, &[10], &wanted(1.0)).0, first, "whatever was read before");
    let other = Wanted { sampling: Sampling { seed: 4, ..wanted(1.0).sampling }, ..wanted(1.0) };
    assert_ne!(text(&mut writer, &[10], &other).0, first);
}

#[test]
fn a_text_ends_where_it_should() {
    let (mut writer, context) = writer(20);
    let greedy = wanted(0.0);
    let (tokens, _) = text(&mut writer, &[10, 20], &greedy);
    let end = Wanted { end: Some(tokens[0]), ..greedy };
    assert_eq!(text(&mut writer, &[10, 20], &end), (Vec::new(), Ended::EndOfText));
    let ended = writer.go_on(&[10, 20], &greedy, |_| false).expect("a text");
    assert_eq!(ended, Ended::Unwanted);
    // All but the tokens that would be chosen, and those behind them.
    let mut texts = [true; 200];
    for temperature in [0.0, 5.0] {
        for _ in 0..3 {
            let holes = Wanted { texts: &texts, ..wanted(temperature) };
            let (tokens, _) = text(&mut writer, &[10, 20], &holes);
            assert!(tokens.iter().all(|token| texts.get(*token as usize) == Some(&true)), "{tokens:?}");
            tokens.iter().for_each(|token| texts[*token as usize] = false);
        }
    }
    let whole: Vec<u32> = vec![7; context];
    assert_eq!(text(&mut writer, &whole, &greedy).0.len(), 20);
}

#[test]
fn prompts_that_no_text_begins_with() {
    let spec = shoal_config::preset("tiny", "/".as_ref()).expect("a preset");
    let context = u64::from(spec.model.context());
    let refused = |prompt| Writer::new(&spec, (prompt, 1), PLENTY).err().expect("refused").to_string();
    assert_eq!(
        refused(context + 1),
        format!("the prompt has {} tokens and the model's context {context}; shorten the prompt", context + 1)
    );
    assert_eq!(refused(0), "the prompt has no token to go on from; give some text");
}

/// Models of both families, in full and in half precision.
fn specs() -> Vec<JobSpec> {
    let gpt2 = job(2, 4, 64, 48, 300, 0.1);
    let mut own = gpt2.clone();
    own.model = llama([2, 4, 2, 16, 64, 160, 48, 1000], true, false);
    let half = |spec: &JobSpec| {
        let mut spec = spec.clone();
        spec.train.numerics.precision = Precision::Bf16;
        spec
    };
    vec![half(&gpt2), half(&own), gpt2, own]
}

/// Fixed data.
struct Ones(u64);

impl Source for Ones {
    type Error = std::convert::Infallible;

    fn tokens(&self) -> u64 {
        self.0
    }

    fn read(&self, _: u64, out: &mut [u32]) -> Result<(), Self::Error> {
        out.fill(1);
        Ok(())
    }
}

/// What buffers of so small models may be rounded up by.
const ROUNDED: u64 = 100 << 10;

/// WH-1 (counted first).
#[test]
fn what_is_taken_is_what_was_counted() {
    for spec in specs() {
        let table = ModelTable::of(&spec.model);
        let counted = |purpose| whole_bytes(&spec, &table, purpose).total();
        let close = |found: u64, purpose, what: &str| {
            let (found, counted) = (found - CpuDevice::own_bytes(1), counted(purpose));
            assert!(
                found <= counted && counted <= found + found / 3 + ROUNDED,
                "{what}: {found} of {counted} of {:?}",
                spec.model
            );
        };
        let mut whole = Whole::new(&spec, Purpose::Evaluate, PLENTY).expect("room");
        whole.loss(&Ones(1000), None, |_, _| {}).expect("a loss");
        close(whole.most(), Purpose::Evaluate, "loss");
        for (prompt, more) in [(40, 5), (1, 5), (2, 100), (48, 100)] {
            let mut writer = Writer::new(&spec, (prompt, more), PLENTY).expect("room");
            let prompt_tokens = vec![1; prompt as usize];
            writer.go_on(&prompt_tokens, &wanted(1.0), |_| true).expect("a text");
            close(writer.most(), Purpose::Text { prompt, more }, "text");
        }
    }
}

#[test]
fn a_model_that_does_not_fit_is_refused_with_both_numbers_before_any_of_it_is_taken() {
    let mut spec = job(2, 4, 64, 48, 300, 0.0);
    spec.model = llama([80, 64, 8, 128, 8192, 28_672, 8192, 128_256], false, false);
    let room = Room { threads: 2, bytes: 8 << 30, text: 0 };
    let purpose = Purpose::Text { prompt: 100, more: 100 };
    let error = Whole::new(&spec, purpose, room).err().expect("refused").to_string();
    assert!(error.starts_with("the model takes 26") && error.contains("and 8.0 GiB may be taken"), "{error}");
    let spec = job(2, 4, 64, 48, 300, 0.0);
    let need = whole_bytes(&spec, &ModelTable::of(&spec.model), Purpose::Evaluate).total() + CpuDevice::own_bytes(1);
    assert!(Whole::new(&spec, Purpose::Evaluate, Room { threads: 1, bytes: need - 1, text: 0 }).is_err());
    let beside = Whole::new(&spec, Purpose::Evaluate, Room { threads: 1, bytes: need, text: 1 << 20 });
    let error = beside.err().expect("no room for the text").to_string();
    assert!(error.contains("threads, 1.0 MiB for making tokens of the text)"), "{error}");
    let room = Room { threads: 1, bytes: need + (1 << 20), text: 1 << 20 };
    let mut exact = Whole::new(&spec, Purpose::Evaluate, room).expect("just enough");
    let evaluated = exact.loss(&Ones(1000), None, |_, _| {}).expect("a loss");
    assert_eq!(evaluated.samples, 20);
    let short = exact.loss(&Ones(48), None, |_, _| {}).expect_err("one too few").to_string();
    assert_eq!(short, "the data has 48 tokens, and one sample takes 49 (context + 1); give more");
}
