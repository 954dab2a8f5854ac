use shoal_config::spec::{Gpt2Spec, LlamaSpec, RopeScaling, RopeSpec};

use super::*;

fn gpt2(layers: u32, heads: u32, width: u32, context: u32, vocab: u32) -> ModelSpec {
    ModelSpec::Gpt2(Gpt2Spec {
        layers,
        heads,
        width,
        context,
        vocab,
        dropout: 0.0,
        layer_norm_epsilon: 1e-5,
        init_range: 0.02,
        bias: true,
        tied_head: true,
    })
}

/// Layers, heads, kv heads, width, inner, vocabulary; no biases.
fn llama([layers, heads, kv_heads, width, inner, vocab]: [u32; 6], tied_head: bool) -> LlamaSpec {
    LlamaSpec {
        layers,
        heads,
        kv_heads,
        head_size: width / heads,
        width,
        inner,
        context: 64,
        vocab,
        norm_epsilon: 1e-5,
        init_range: 0.02,
        rope: RopeSpec { theta: 1e4, scaling: RopeScaling::None },
        tied_head,
        attention_bias: false,
        mlp_bias: false,
        attention_dropout: 0.0,
    }
}

/// Counts of GPT-2 (124M) and of the reference model used for byte formulas.
#[test]
fn parameter_counts() {
    assert_eq!(ModelTable::of(&gpt2(12, 12, 768, 1024, 50257)).parameters(), 124_439_808);
    let tiny = ModelTable::of(&gpt2(4, 4, 64, 32, 512));
    assert_eq!(tiny.parameters(), 234_880);
    assert_eq!(tiny.blocks[1].params.iter().map(|p| p.interval.len()).sum::<u64>(), 49_984);
}

/// Llama 2 7B, TinyLlama 1.1B, Llama 3 8B, and Llama 3.2 1B, whose head is tied.
#[test]
fn parameter_counts_of_published_llamas() {
    for (sizes, tied, count) in [
        ([32, 32, 32, 4096, 11_008, 32_000], false, 6_738_415_616),
        ([22, 32, 4, 2048, 5632, 32_000], false, 1_100_048_384),
        ([32, 32, 8, 4096, 14_336, 128_256], false, 8_030_261_248),
        ([16, 32, 8, 2048, 8192, 128_256], true, 1_235_814_400),
    ] {
        assert_eq!(ModelTable::of(&ModelSpec::Llama(llama(sizes, tied))).parameters(), count);
    }
}

#[test]
fn parameters_are_aligned_and_apart() {
    let mut odd = llama([2, 3, 1, 48, 80, 65], false);
    (odd.attention_bias, odd.mlp_bias) = (true, true);
    for model in [gpt2(2, 3, 48, 10, 65), ModelSpec::Llama(odd)] {
        for block in ModelTable::of(&model).blocks {
            let mut end = 0;
            for p in &block.params {
                assert!(p.interval.start >= end && p.interval.start % CHUNK == 0);
                end = p.interval.end;
            }
            assert!(block.len >= end && block.len % CHUNK == 0);
        }
    }
}

/// q and kv, gate and up, and their biases: the neighbours that one product serves.
#[test]
fn what_one_product_serves_lies_together() {
    for (heads, head_size) in [(2, 8), (3, 16), (4, 4)] {
        let mut spec = llama([1, heads, 1, 48, 80, 65], true);
        spec.head_size = head_size;
        (spec.attention_bias, spec.mlp_bias) = (true, true);
        let layer = &ModelTable::of(&ModelSpec::Llama(spec)).blocks[1];
        for (first, second) in [("attn.q", "attn.kv"), ("mlp.gate", "mlp.up")] {
            for part in ["weight", "bias"] {
                let [first, second] = [first, second].map(|name| layer.place(&format!("{name}.{part}")));
                assert_eq!(first.end, second.start);
            }
        }
    }
}

#[test]
fn an_untied_head_owns_its_table_and_contributes_to_no_other() {
    let sizes = [3, 4, 2, 64, 176, 256];
    let (tied, own) =
        (ModelTable::of(&ModelSpec::Llama(llama(sizes, true))), ModelTable::of(&ModelSpec::Llama(llama(sizes, false))));
    assert_eq!(own.parameters() - tied.parameters(), 256 * 64);
    let (embedding, head) = (own.embedding(), own.head());
    let unit = |block, part| GradUnit { block, part };

    assert_eq!(tied.tied(), Some((embedding, Interval::new(0, 256 * 64))));
    assert_eq!(tied.head_table(), (embedding, Interval::new(0, 256 * 64)));
    assert_eq!(tied.units_of(embedding).len(), 2);
    assert_eq!(tied.units_computed_by(4..5), [unit(head, GradPart::Own), unit(embedding, GradPart::TiedHead)]);
    assert_eq!(tied.weights_needed_by(4..5), [(head, Interval::new(0, 64)), (embedding, Interval::new(0, 256 * 64))]);

    assert_eq!(own.tied(), None);
    assert_eq!(own.head_table(), (head, Interval::new(64, 64 + 256 * 64)));
    assert_eq!(own.units_of(embedding), [unit(embedding, GradPart::Own)]);
    assert_eq!(own.units_computed_by(4..5), [unit(head, GradPart::Own)]);
    assert_eq!(own.weights_needed_by(4..5), [(head, Interval::new(0, 64 + 256 * 64))]);
}

#[test]
fn a_product_reads_a_map_with_its_bias_and_its_neighbours() {
    let mut odd = llama([1, 4, 2, 64, 80, 65], false);
    (odd.attention_bias, odd.mlp_bias) = (true, true);
    let gpt2 = ModelTable::of(&gpt2(1, 2, 32, 8, 65));
    let llama = ModelTable::of(&ModelSpec::Llama(odd));
    let hull = |table: &ModelTable, block: u32, first: &str, last: &str| {
        let block = table.block(BlockId(block));
        Interval::new(block.place(first).start, block.place(last).end)
    };
    let products = |table: &ModelTable, block: u32| table.block(BlockId(block)).products();
    assert_eq!(products(&gpt2, 0), [hull(&gpt2, 0, "wte", "wte"), hull(&gpt2, 0, "wpe", "wpe")]);
    let of = |(first, last): (&str, &str)| hull(&gpt2, 1, first, last);
    let maps = [
        ("ln_1.weight", "ln_1.bias"),
        ("attn.q.weight", "attn.kv.bias"),
        ("attn.proj.weight", "attn.proj.bias"),
        ("ln_2.weight", "ln_2.bias"),
        ("mlp.fc.weight", "mlp.fc.bias"),
        ("mlp.proj.weight", "mlp.proj.bias"),
    ];
    assert_eq!(products(&gpt2, 1), maps.map(of));
    let of = |(first, last): (&str, &str)| hull(&llama, 1, first, last);
    let maps = [
        ("norm_1.weight", "norm_1.weight"),
        ("attn.q.weight", "attn.kv.bias"),
        ("attn.proj.weight", "attn.proj.bias"),
        ("norm_2.weight", "norm_2.weight"),
        ("mlp.gate.weight", "mlp.up.bias"),
        ("mlp.down.weight", "mlp.down.bias"),
    ];
    assert_eq!(products(&llama, 1), maps.map(of));
    assert_eq!(
        products(&llama, 2),
        [hull(&llama, 2, "norm_f.weight", "norm_f.weight"), hull(&llama, 2, HEAD_TABLE, HEAD_TABLE)]
    );
}

#[test]
fn a_gpt2_has_the_biases_and_the_head_that_it_is_asked_for() {
    let usual = gpt2(2, 2, 32, 8, 65);
    let variant = |bias, tied_head| {
        let mut model = usual.clone();
        let spec = model.as_gpt2_mut().expect("a GPT-2");
        (spec.bias, spec.tied_head) = (bias, tied_head);
        ModelTable::of(&model)
    };
    // Of a layer: ln_1, q and kv, proj, ln_2, fc, proj; of the head: ln_f.
    let count = |bias, tied_head| variant(bias, tied_head).parameters();
    let biases = |table: &ModelTable| table.blocks.iter().flat_map(|b| &b.params).any(|p| p.name.ends_with("bias"));
    assert_eq!(count(true, true) - count(false, true), 2 * (1 + 3 + 1 + 1 + 4 + 1) * 32 + 32);
    assert_eq!(count(false, false) - count(false, true), 65 * 32);
    assert!(biases(&variant(true, false)) && !biases(&variant(false, false)));
    let own = variant(false, false);
    assert_eq!((own.tied(), own.head_table()), (None, (own.head(), Interval::new(32, 32 + 65 * 32))));
}
