//! What the tests of this crate share.

use std::path::PathBuf;

use shoal_config::spec::*;

/// A small job: layers, heads, width, context, vocabulary, dropout.
pub(crate) fn job(layers: u32, heads: u32, width: u32, context: u32, vocab: u32, dropout: f32) -> JobSpec {
    JobSpec {
        name: "test".to_owned(),
        seed: 7,
        model: ModelSpec::Gpt2(Gpt2Spec {
            layers,
            heads,
            width,
            context,
            vocab,
            dropout,
            layer_norm_epsilon: 1e-5,
            init_range: 0.02,
        }),
        data: DataSpec {
            format: DataFormat::Text,
            path: PathBuf::from("/"),
            validation: Validation::Tail { fraction: 0.0 },
        },
        train: TrainSpec {
            steps: 10,
            global_batch: 8,
            micro_batch: 2,
            optimizer: AdamWSpec { beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weight_decay: 0.1 },
            schedule: LrSpec { peak: 1e-3, minimum: 1e-4, warmup: 2 },
            clip: Some(1.0),
            evaluate: None,
        },
        parallel: ParallelSpec {
            pipeline: Auto::Auto,
            data: Auto::Auto,
            virtual_replicas: 4,
            schedule: Schedule::OneFOneB,
            fixed: false,
        },
        elastic: ElasticSpec { redundancy: 1, on_loss: OnLoss::Rollback },
    }
}
