//! Job files: defaults, and a table of what is refused in which words.

use std::path::Path;

use super::*;
use crate::spec::{AdamSpec, LossScaleSpec, LrShape, LrSpec, NumericsSpec, OptimizerSpec, Precision, Wire};

mod files;
mod models;
mod optimizer;

const MINIMAL: &str = "\
[model]
kind = \"gpt2\"
layers = 2
heads = 2
width = 32
context = 16
[data]
kind = \"text\"
path = \"corpus\"
[train]
steps = 200
";

fn parse_here(text: &str) -> Result<JobSpec, ConfigError> {
    parse(text, "small.toml", Path::new("/jobs"))
}

#[test]
fn shards_bring_their_validation_and_any_data_may_name_its_tokenizer() {
    let shards =
        parse_here(&MINIMAL.replace("kind = \"text\"", "kind = \"shards\"\ntokenizer = \"gpt2\"")).expect("good");
    assert_eq!((shards.data.format, &shards.data.validation), (DataFormat::Shards, &Validation::Prepared));
    assert_eq!(shards.data.tokenizer, Some(TokenizerSpec::Gpt2));
    assert_eq!(shards.check(), Ok(()));
    let own = parse_here(&MINIMAL.replace("kind = \"text\"", "kind = \"llmc\"\ntokenizer = \"t.json\"")).expect("good");
    assert_eq!(own.data.tokenizer, Some(TokenizerSpec::Hf("/jobs/t.json".into())));
    let mixed = JobSpec { data: DataSpec { format: DataFormat::Text, ..shards.data.clone() }, ..shards };
    assert_eq!(mixed.check().expect_err("refused").key, "data.validation");
}

#[test]
fn every_key_but_model_data_and_steps_has_a_default() {
    let spec = parse_here(MINIMAL).expect("minimal file");
    assert_eq!((spec.name.as_str(), spec.seed), ("small", 1));
    assert_eq!(spec.data.path, Path::new("/jobs/corpus"));
    assert_eq!(spec.data.validation, Validation::Tail { fraction: 0.1 });
    let train = &spec.train;
    assert_eq!((train.global_batch, train.micro_batch, train.clip), (32, 4, Some(1.0)));
    assert_eq!(
        (train.max_skips, train.numerics),
        (Some(10), NumericsSpec { precision: Precision::Fp32, wire: Wire::Fp32 })
    );
    assert_eq!(
        train.optimizer,
        OptimizerSpec::AdamW(AdamSpec { beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weight_decay: 0.1 })
    );
    assert_eq!(train.decay, []);
    assert_eq!(train.schedule, LrSpec { peak: 6e-4, minimum: 6e-4 / 10.0, warmup: 20, shape: LrShape::Cosine });
    assert_eq!(train.evaluate, Some(EvalSpec { every: 20, samples: 32 }));
    assert_eq!(
        spec.parallel,
        ParallelSpec {
            pipeline: Auto::Auto,
            data: Auto::Auto,
            virtual_replicas: 8,
            schedule: Schedule::OneFOneB,
            fixed: false
        }
    );
    assert_eq!(spec.elastic, ElasticSpec { redundancy: 1, on_loss: OnLoss::Rollback });
}

#[test]
fn virtual_replicas_follow_the_batch_alone() {
    for (global, micro, lanes) in [(32, 4, 8), (9, 4, 3), (4, 4, 1), (64, 1, 8), (7, 2, 4)] {
        let text =
            MINIMAL.replace("steps = 200", &format!("steps = 9\nglobal_batch = {global}\nmicro_batch = {micro}"));
        assert_eq!(parse_here(&text).expect("valid file").parallel.virtual_replicas, lanes, "{global} / {micro}");
    }
}

#[test]
fn every_parallel_key_may_be_auto() {
    let text = format!(
        "{MINIMAL}[parallel]\npipeline = \"auto\"\ndata = \"auto\"\nvirtual_replicas = \"auto\"\nschedule = \"auto\"\nfixed = \"auto\"\n"
    );
    assert_eq!(parse_here(&text).expect("valid file"), parse_here(MINIMAL).expect("minimal file"));
}

#[test]
fn what_is_typed_is_what_is_meant() {
    let text = format!(
        "name = \"x\"\nseed = 0x10\n{}clip = \"none\"\nwire = \"bf16\"\nmax_skips = 0\neval_every = 0\n[parallel]\npipeline = 4\ndata = 3\n\
         schedule = \"gpipe\"\nfixed = true\n[elastic]\nredundancy = 2\non_loss = \"halt\"\n",
        MINIMAL.replace("context = 16", "context = 16\nvocab = 300\ndropout = 0.1")
    );
    let spec = parse_here(&text).expect("valid file");
    assert_eq!((spec.name.as_str(), spec.seed, spec.train.clip, spec.train.evaluate), ("x", 16, None, None));
    assert_eq!((spec.train.max_skips, spec.train.numerics.wire), (None, Wire::Bf16));
    assert_eq!((spec.parallel.pipeline, spec.parallel.data), (Auto::Set(4), Auto::Set(3)));
    assert_eq!((spec.parallel.schedule, spec.parallel.fixed), (Schedule::GPipe, true));
    assert_eq!(spec.elastic, ElasticSpec { redundancy: 2, on_loss: OnLoss::Halt });
    let model = spec.model;
    assert_eq!((model.vocab(), model.dropout()), (300, 0.1));
}

#[test]
fn fp16_has_a_loss_scale() {
    let typed = |more: &str| {
        let text = MINIMAL.replace("steps = 200", &format!("steps = 200\nprecision = \"fp16\"\n{more}"));
        parse_here(&text).expect("valid file").train.numerics.precision
    };
    let default = LossScaleSpec { start: 65_536, window: 1000, hysteresis: 2, minimum: 1 };
    assert_eq!(typed(""), Precision::Fp16(default));
    let all = "loss_scale = 1024\nloss_scale_window = 5\nloss_scale_hysteresis = 1\nloss_scale_minimum = 0x10";
    assert_eq!(typed(all), Precision::Fp16(LossScaleSpec { start: 1024, window: 5, hysteresis: 1, minimum: 16 }));
}

/// A replacement in the minimal file, and how the error begins.
const REFUSED: [(&str, &str, &str); 31] = [
    (
        "steps = 200",
        "steps = 200\nprecision = \"fp8\"",
        "small.toml:12: `train.precision` is \"fp8\"; allowed: \"fp32\", \"bf16\" or \"fp16\"",
    ),
    (
        "steps = 200",
        "steps = 200\nprecision = \"bf16\"\nloss_scale = 8",
        "small.toml:13: `train.loss_scale` is 8; allowed: left out, unless precision = \"fp16\"",
    ),
    (
        "steps = 200",
        "steps = 200\nprecision = \"fp16\"\nloss_scale = 8\nloss_scale_minimum = 16",
        "small.toml:13: `train.loss_scale` is 8; allowed: a power of two from 16 to 4294967296",
    ),
    (
        "steps = 200",
        "steps = 200\nwire = \"fp16\"",
        "small.toml:12: `train.wire` is \"fp16\"; allowed: \"fp32\" or \"bf16\"",
    ),
    (
        "layers = 2",
        "layres = 2",
        "small.toml:3: `model.layres` is not a known key, did you mean `layers`?; known: preset, kind, hf, llmc, init_from, layers,",
    ),
    (
        "layers = 2",
        "zzz = 2",
        "small.toml:3: `model.zzz` is not a known key; known: preset, kind, hf, llmc, init_from, layers,",
    ),
    ("[model]", "[modle]", "small.toml:1: `modle` is not a known key, did you mean `model`?"),
    ("layers = 2\n", "", "small.toml:1: `model.layers` is missing; allowed: a whole number from 1 to 1024"),
    ("[train]\nsteps = 200\n", "", "small.toml: `train.steps` is missing; allowed: a whole number from 0"),
    ("kind = \"gpt2\"", "kind = \"gpt3\"", "small.toml:2: `model.kind` is \"gpt3\"; allowed: \"gpt2\" or \"llama\""),
    ("layers = 2", "layers = 0", "small.toml:3: `model.layers` is 0; allowed: a whole number from 1 to 1024"),
    ("layers = 2", "layers = -2", "small.toml:3: `model.layers` is -2; allowed: a whole number from 1 to 1024"),
    ("layers = 2", "layers = \"2\"", "small.toml:3: `model.layers` is \"2\"; allowed: a whole number from 1 to 1024"),
    ("layers = 2", "layers = 2.5", "small.toml:3: `model.layers` is 2.5; allowed: a whole number from 1 to 1024"),
    ("heads = 2", "heads = 3", "small.toml:4: `model.heads` is 3; allowed: a number that divides model.width = 32"),
    ("width = 32", "width = 40", "small.toml:5: `model.width` is 40; allowed: a multiple of 16"),
    (
        "context = 16",
        "vocab = \"words\"\ncontext = 16",
        "small.toml:6: `model.vocab` is \"words\"; allowed: \"bytes\" or a number of tokens",
    ),
    (
        "context = 16",
        "vocab = 100\ncontext = 16",
        "small.toml:6: `model.vocab` is 100; allowed: \"bytes\" or at least 256",
    ),
    (
        "context = 16",
        "context = 16\ndropout = 1",
        "small.toml:7: `model.dropout` is 1; allowed: a number from 0, below 1",
    ),
    (
        "kind = \"text\"",
        "kind = \"csv\"",
        "small.toml:8: `data.kind` is \"csv\"; allowed: \"text\" (UTF-8 as bytes), \"nanogpt\"",
    ),
    (
        "kind = \"text\"\npath = \"corpus\"",
        "kind = \"shards\"\npath = \"corpus\"\nvalidation = 0.1",
        "small.toml:10: `data.validation` is 0.1; allowed: nothing for shards: `shoalctl data prepare --validation`",
    ),
    ("path = \"corpus\"", "", "small.toml:7: `data.path` is missing; allowed: a file or a directory"),
    (
        "path = \"corpus\"",
        "path = \"c\"\nvalidation = 0.9",
        "small.toml:10: `data.validation` is 0.9; allowed: a share of the tokens from 0 to 0.5",
    ),
    (
        "steps = 200",
        "steps = 200\nmicro_batch = 64",
        "small.toml:12: `train.micro_batch` is 64; allowed: a whole number from 1 to 32 (train.global_batch is 32, and \
         micro_batch x model.context = 16 may be 131072 tokens)",
    ),
    (
        "steps = 200",
        "steps = 200\nclip = 0",
        "small.toml:12: `train.clip` is 0; allowed: a number above 0, or \"none\"",
    ),
    (
        "steps = 200",
        "steps = 200\nlearning_rate = nan",
        "small.toml:12: `train.learning_rate` is nan; allowed: a number",
    ),
    (
        "steps = 200",
        "steps = 200\n[parallel]\ndata = 9",
        "small.toml:13: `parallel.data` is 9; allowed: \"auto\" or a whole number from 1 to 8 (virtual replicas)",
    ),
    (
        "steps = 200",
        "steps = 200\n[parallel]\npipeline = 5",
        "small.toml:13: `parallel.pipeline` is 5; allowed: \"auto\" or a whole number from 1 to 4 (blocks of the model)",
    ),
    (
        "steps = 200",
        "steps = 200\n[parallel]\nschedule = \"zb\"",
        "small.toml:13: `parallel.schedule` is \"zb\"; allowed: \"auto\", \"1f1b\" or \"gpipe\"",
    ),
    (
        "steps = 200",
        "steps = 200\n[elastic]\non_loss = \"cry\"",
        "small.toml:13: `elastic.on_loss` is \"cry\"; allowed: \"rollback\" or \"halt\"",
    ),
    ("[train]", "train = 3\n[train]", "small.toml:10: `data.train` is not a known key"),
];

#[test]
fn errors_name_file_line_key_found_and_allowed() {
    for (from, to, message) in REFUSED {
        assert!(MINIMAL.contains(from), "{from}");
        let error = parse_here(&MINIMAL.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.starts_with(message), "found    {error}\nexpected {message}");
    }
}

#[test]
fn text_that_is_not_toml_names_the_line() {
    let error = parse_here("[model]\nlayers = = 2\n").expect_err("not TOML").to_string();
    assert!(error.starts_with("small.toml:2: not valid TOML: "), "{error}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = read(Path::new("no/such/job.toml")).expect_err("no file").to_string();
    assert_eq!(error, "cannot read no/such/job.toml");
}

#[test]
fn numbers_that_do_not_fit_32_bits_are_refused() {
    for key in ["learning_rate", "epsilon", "weight_decay", "clip"] {
        let error = parse_here(&format!("{MINIMAL}{key} = 1e300\n")).expect_err(key).to_string();
        assert!(error.contains(&format!("`train.{key}` is 1e300")), "{error}");
    }
}

#[test]
fn the_learning_rate_takes_the_shape_that_is_named() {
    let schedule = |keys: &str| parse_here(&format!("{MINIMAL}{keys}")).expect(keys).train.schedule;
    let base = LrSpec { peak: 6e-4, minimum: 6e-4 / 10.0, warmup: 20, shape: LrShape::Cosine };
    assert_eq!(schedule("learning_rate_schedule = \"linear\"\n"), LrSpec { shape: LrShape::Linear, ..base });
    let constant = LrSpec { shape: LrShape::Constant, minimum: 6e-4, ..base };
    assert_eq!(schedule("learning_rate_schedule = \"constant\"\n"), constant);
    let root = LrSpec { shape: LrShape::InverseSqrt, minimum: 0.0, ..base };
    assert_eq!(schedule("learning_rate_schedule = \"inverse-sqrt\"\n"), root);
    let wsd = |decay| LrSpec { shape: LrShape::Wsd { decay }, ..base };
    assert_eq!(schedule("learning_rate_schedule = \"wsd\"\n"), wsd(40));
    assert_eq!(schedule("learning_rate_schedule = \"wsd\"\ndecay_steps = 180\n"), wsd(180));
}

#[test]
fn keys_of_another_shape_are_refused() {
    let cases = [
        (
            "learning_rate_schedule = \"step\"\n",
            "`train.learning_rate_schedule` is \"step\"; allowed: \"cosine\", \"linear\"",
        ),
        ("decay_steps = 3\n", "`train.decay_steps` is 3; allowed: left out, unless"),
        (
            "learning_rate_schedule = \"wsd\"\ndecay_steps = 181\n",
            "`train.decay_steps` is 181; allowed: a whole number from 0 to 180",
        ),
        (
            "learning_rate_schedule = \"constant\"\nminimum_learning_rate = 1e-5\n",
            "`train.minimum_learning_rate` is 1e-5; allowed: left out, because",
        ),
    ];
    for (keys, message) in cases {
        let error = parse_here(&format!("{MINIMAL}{keys}")).expect_err(keys).to_string();
        assert!(error.contains(message), "{error}");
    }
}
