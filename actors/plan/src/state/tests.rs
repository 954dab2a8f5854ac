use proptest::prelude::*;
use shoal_config::spec::Momentum;

use super::*;
use crate::fixture;

fn with(optimizer: OptimizerSpec) -> ModelTable {
    let mut job = fixture::job();
    job.spec.train.optimizer = optimizer;
    fixture::table(&job)
}

#[test]
fn what_an_optimizer_does_not_remember_takes_no_memory() {
    let sgd = |momentum| OptimizerSpec::Sgd(SgdSpec { momentum, weight_decay: 0.0 });
    let layer = |optimizer| {
        let table = with(optimizer);
        let whole = Interval::new(0, table.blocks[1].len);
        (table.kinds().len(), table.state_bytes(BlockId(1), whole) as f64 / whole.len() as f64)
    };
    assert_eq!(layer(sgd(None)), (1, 4.0));
    assert_eq!(layer(sgd(Some(Momentum::Nesterov(0.9)))), (2, 8.0));
    assert_eq!(layer(fixture::job().spec.train.optimizer), (3, 12.0));
    let (kinds, bytes) = layer(fixture::adafactor());
    assert_eq!(kinds, 2);
    assert!(bytes < 4.2, "{bytes}");
}

/// The reference model: width 64, vocabulary 512, context 32.
#[test]
fn factors_lie_where_they_are_said_to_lie() {
    let table = with(fixture::adafactor());
    let space = table.space(Kind::Factors, BlockId(0));
    let lie = |at: usize| (space.params[at].name.as_str(), space.params[at].interval);
    assert_eq!(lie(0), ("wte.rows", Interval::new(0, 512)));
    assert_eq!(lie(1), ("wte.columns", Interval::new(512, 576)));
    assert_eq!(lie(2), ("wpe.rows", Interval::new(576, 608)));
    assert_eq!((lie(3), space.len), (("wpe.columns", Interval::new(608, 672)), 672));
    let wpe = table.blocks[0].params[1].interval;
    assert_eq!(table.part(Kind::Factors, BlockId(0), wpe), Some(Interval::new(576, 672)));
    let (rows, columns) = (Interval::new(576, 608), Interval::new(608, 672));
    assert_eq!(table.factor_place(BlockId(0), 1), FactorPlace::Matrix { rows, columns });
    // Of heads x d x width: as [heads d, width]. A bias is a vector however it is stored.
    let (layer, factors) = (&table.blocks[1], table.space(Kind::Factors, BlockId(1)));
    let kv = factors.params.iter().find(|param| param.name == "attn.kv.weight.rows").expect("a matrix");
    assert_eq!(kv.interval.len(), 128);
    let bias = factors.params.iter().find(|param| param.name == "attn.kv.bias").expect("a vector");
    assert_eq!(bias.interval.len(), 128);
    assert!(layer.len > 10 * factors.len);
}

#[test]
fn a_block_with_factors_is_cut_between_parameters_only() {
    let table = with(fixture::adafactor());
    let layer = &table.blocks[1];
    for target in 0..=layer.len {
        let edge = table.nearest_edge(layer, target);
        assert!(edge == layer.len || layer.params.iter().any(|param| param.interval.start == edge), "{edge}");
    }
    assert_eq!(table.nearest_edge(&table.blocks[0], 10_000), 0);
    assert_eq!(digest::nearest_edge(&table.blocks[0], 10_000), 8192);
}

proptest! {
    /// However weights are divided, every element of every kind goes somewhere, once.
    #[test]
    fn any_division_of_weights_divides_their_state(mut edges in prop::collection::vec(0u64..60_000, 0..9)) {
        let table = with(fixture::adafactor());
        edges.sort_unstable();
        for block in &table.blocks {
            let parts = IntervalSet::from(Interval::new(0, block.len)).split_at(&edges);
            let mut at = 0;
            for part in parts.into_iter().filter_map(|part| table.part(Kind::Factors, block.id, part)) {
                prop_assert_eq!(part.start, at);
                at = part.end;
            }
            prop_assert_eq!(at, table.space(Kind::Factors, block.id).len);
        }
    }
}
