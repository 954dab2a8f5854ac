use shoal_config::JobSpec;
use shoal_config::spec::{LossScaleSpec, Precision, Wire};
use shoal_kernels::Arena;
use shoal_plan::batch::MicroBatch;
use shoal_plan::space::Interval;

use super::*;
use crate::Input;
use crate::sample::Sampling;
use crate::testing::{device, job, llama, weights};

const CONTEXT: usize = 24;

fn whole(spec: &JobSpec, device: &Device, arena: &Arena) -> StageModel {
    let table = Arc::new(ModelTable::of(&spec.model));
    let (blocks, lanes) = (table.blocks.len() as u32, spec.parallel.virtual_replicas);
    let mut model = StageModel::new((device, arena), spec, Arc::clone(&table), 0..blocks, 0..lanes).expect("room");
    for (block, values) in table.blocks.iter().zip(weights(spec, &table)) {
        model.write_weights(device, block.id, Interval::new(0, block.len), &values);
    }
    model
}

/// The logits behind the last of `tokens`, by a pass over the whole context.
fn by_a_full_pass(model: &mut StageModel, device: &Device, tokens: &[u32]) -> Vec<f32> {
    let batch = MicroBatch::alone(vec![0]);
    let mut padded = tokens.to_vec();
    padded.resize(CONTEXT, 0);
    model.forward(device, Phase::Evaluate, &batch, Input::Tokens(&padded)).expect("room");
    let logits = model.logits(device, &batch).expect("room");
    model.abort();
    let logits = logits.host_visible().expect("a processor");
    let vocab = logits.len() / CONTEXT;
    logits[(tokens.len() - 1) * vocab..tokens.len() * vocab].to_vec()
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|x| x.to_bits()).collect()
}

/// PA-1 (one sequence).
#[test]
fn token_by_token_is_what_full_passes_say() {
    let gpt2 = job(2, 3, 48, CONTEXT as u32, 65, 0.1);
    let grouped = JobSpec { model: llama([2, 4, 2, 8, 48, 80, CONTEXT as u32, 65], true, false), ..gpt2.clone() };
    let greedy = Sampling { temperature: 0.0, top_k: None, top_p: None, seed: 0 };
    let mut rounded = grouped.clone();
    rounded.train.numerics.wire = Wire::Bf16;
    let scale = LossScaleSpec { start: 1024, window: 1000, hysteresis: 2, minimum: 1 };
    let in_halves = [Precision::Bf16, Precision::Fp16(scale)].into_iter().flat_map(|precision| {
        [&gpt2, &grouped].map(|spec| {
            let mut spec = spec.clone();
            spec.train.numerics.precision = precision;
            spec
        })
    });
    let in_halves: Vec<_> = in_halves.collect();
    for spec in [gpt2, grouped, rounded].into_iter().chain(in_halves) {
        let (device, arena) = device(2);
        let mut model = whole(&spec, &device, &arena);
        let mut cache = model.kv_cache(CONTEXT).expect("room");
        for prompt in [1, 5, CONTEXT - 1] {
            cache.clear();
            let mut tokens: Vec<u32> = (0..prompt as u32).map(|i| (i * i + 7) % 65).collect();
            let mut unread = 0;
            while tokens.len() < CONTEXT {
                let logits = model.read_on(&device, &mut cache, &tokens[unread..]).expect("room");
                unread = tokens.len();
                assert_eq!(cache.len(), unread);
                let logits = logits.host_visible().expect("a processor");
                let full = by_a_full_pass(&mut model, &device, &tokens);
                assert_eq!(bits(logits), bits(&full), "{:?} after {}", spec.model, tokens.len());
                tokens.push(greedy.choose(tokens.len() as u64, logits));
            }
        }
        // Several tokens behind others are read one by one.
        let tokens: Vec<u32> = (0..9).map(|i| (i * 11) % 65).collect();
        cache.clear();
        model.read_on(&device, &mut cache, &tokens[..4]).expect("room");
        let logits = model.read_on(&device, &mut cache, &tokens[4..]).expect("room");
        let full = by_a_full_pass(&mut model, &device, &tokens);
        assert_eq!(bits(logits.host_visible().expect("a processor")), bits(&full));
        let outside = model.read_on(&device, &mut cache, &[65]);
        assert!(matches!(outside, Err(ModelError::Token { token: 65, .. })) && cache.len() == 9);
    }
}
