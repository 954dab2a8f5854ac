//! `train.optimizer`, the keys of each, and decay rules.

use super::{MINIMAL, parse_here};
use crate::spec::{
    AdafactorSpec, AdamSpec, DecayRule, LrShape, LrSpec, Momentum, OptimizerSpec, RmsPropSpec, SgdSpec, TrainSpec,
};

fn train(keys: &str) -> TrainSpec {
    parse_here(&format!("{MINIMAL}{keys}")).expect(keys).train
}

fn message(keys: &str) -> String {
    parse_here(&format!("{MINIMAL}{keys}")).expect_err(keys).to_string()
}

#[test]
fn each_has_the_defaults_of_its_authors() {
    let adam = AdamSpec { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0 };
    let rmsprop = RmsPropSpec { alpha: 0.99, epsilon: 1e-8, momentum: None, weight_decay: 0.0 };
    let adafactor = AdafactorSpec {
        epsilon1: 1e-30,
        clip_threshold: 1.0,
        decay_rate: -0.8,
        beta1: None,
        parameter_scale: None,
        weight_decay: 0.0,
    };
    let sgd = SgdSpec { momentum: None, weight_decay: 0.0 };
    for (name, spec, rate) in [
        ("adam", OptimizerSpec::Adam(adam), 1e-3),
        ("sgd", OptimizerSpec::Sgd(sgd), 1e-3),
        ("rmsprop", OptimizerSpec::RmsProp(rmsprop), 1e-2),
        ("adafactor", OptimizerSpec::Adafactor(adafactor), 1e-3),
    ] {
        let train = train(&format!("optimizer = \"{name}\"\n"));
        assert_eq!((train.optimizer, train.schedule.peak), (spec, rate));
        assert_eq!(train.optimizer.name(), name);
    }
}

#[test]
fn momentum_is_state_only_if_some_is_kept() {
    let momentum = |keys: &str| match train(&format!("optimizer = \"sgd\"\n{keys}")).optimizer {
        OptimizerSpec::Sgd(spec) => spec.momentum,
        other => panic!("{other:?}"),
    };
    assert_eq!(momentum("momentum = 0\n"), None);
    assert_eq!(momentum("momentum = 0.9\n"), Some(Momentum::Classic(0.9)));
    assert_eq!(momentum("momentum = 0.9\nnesterov = true\n"), Some(Momentum::Nesterov(0.9)));
}

#[test]
fn relative_steps_of_adafactor_scale_with_the_parameter() {
    let train = train("optimizer = \"adafactor\"\nrelative_step = true\nbeta1 = 0.9\n");
    assert_eq!(train.schedule, LrSpec { peak: 1e-2, minimum: 0.0, warmup: 0, shape: LrShape::RelativeStep });
    let OptimizerSpec::Adafactor(spec) = train.optimizer else { panic!("{:?}", train.optimizer) };
    assert_eq!((spec.parameter_scale, spec.beta1), (Some(1e-3), Some(0.9)));
}

#[test]
fn decay_rules_keep_their_order() {
    let rules = "[[train.decay]]\nparameters = \"*.bias\"\nweight_decay = 0\n\
                 [[train.decay]]\nparameters = \"b0.*\"\nweight_decay = 0.3\n";
    let rule = |parameters: &str, weight_decay| DecayRule { parameters: parameters.to_owned(), weight_decay };
    assert_eq!(train(rules).decay, [rule("*.bias", 0.0), rule("b0.*", 0.3)]);
}

#[test]
fn what_does_not_belong_is_refused_with_its_line() {
    let cases = [
        (
            "optimizer = \"lion\"\n",
            "small.toml:12: `train.optimizer` is \"lion\"; allowed: \"adamw\", \"adam\", \"sgd\"",
        ),
        (
            "momentum = 0.9\n",
            "small.toml:12: `train.momentum` is 0.9; allowed: left out, because train.optimizer = \"adamw\": it is a key of \
             sgd, rmsprop",
        ),
        (
            "optimizer = \"sgd\"\nbeta2 = 0.9\n",
            "small.toml:13: `train.beta2` is 0.9; allowed: left out, because train.optimizer = \"sgd\": it is a key of \
             adamw, adam",
        ),
        ("optimizer = \"sgd\"\nnesterov = true\n", "small.toml:13: `train.nesterov` is true; allowed: false, unless"),
        (
            "optimizer = \"sgd\"\nmomentum = 1\n",
            "small.toml:13: `train.momentum` is 1; allowed: a number from 0, below",
        ),
        (
            "optimizer = \"adafactor\"\nrelative_step = true\nlearning_rate = 1e-3\n",
            "small.toml:14: `train.learning_rate` is 1e-3; allowed: left out, because train.relative_step",
        ),
        (
            "optimizer = \"adafactor\"\nepsilon2 = 1e-3\n",
            "small.toml:13: `train.epsilon2` is 1e-3; allowed: left out, unless",
        ),
        (
            "optimizer = \"adafactor\"\ndecay_rate = 0.8\n",
            "small.toml:13: `train.decay_rate` is 0.8; allowed: a number from -1, below 0",
        ),
        ("decay = 0.1\n", "small.toml:12: `train.decay` is 0.1; allowed: sections [[train.decay]]"),
        (
            "[[train.decay]]\nparameters = \"*\"\n",
            "small.toml:12: `train.decay.weight_decay` is missing; allowed: a finite number from 0",
        ),
        (
            "[[train.decay]]\nparameters = \"*\"\nweight_decay = -1\n",
            "small.toml:14: `train.decay.weight_decay` is -1; allowed: a finite number from 0",
        ),
        ("[[train.decay]]\npattern = \"*\"\n", "small.toml:13: `train.decay.pattern` is not a known key"),
    ];
    for (keys, start) in cases {
        let message = message(keys);
        assert!(message.starts_with(start), "found    {message}\nexpected {start}");
    }
}

/// Below one as it is typed, and one as it is kept.
#[test]
fn shares_are_held_to_their_limits_as_they_are_kept() {
    for (keys, key) in [
        ("beta1 = 0.99999999\n", "beta1"),
        ("beta2 = 0.99999999\n", "beta2"),
        ("optimizer = \"rmsprop\"\nalpha = 0.99999999\n", "alpha"),
        ("optimizer = \"sgd\"\nmomentum = 0.99999999\n", "momentum"),
        ("optimizer = \"sgd\"\nmomentum = 1e-40\n", "momentum"),
        ("optimizer = \"adafactor\"\nbeta1 = 0.99999999\n", "beta1"),
        ("optimizer = \"adafactor\"\ndecay_rate = -1e-50\n", "decay_rate"),
    ] {
        let message = message(keys);
        assert!(message.starts_with("small.toml:1") && message.contains(&format!("`train.{key}` is ")), "{message}");
    }
    assert_eq!(train("beta2 = 0.9999999\n").optimizer.name(), "adamw");
}

#[test]
fn rules_of_decay_are_bounded() {
    let rule = |pattern: &str| format!("[[train.decay]]\nparameters = \"{pattern}\"\nweight_decay = 0\n");
    let long = message(&rule(&"*".repeat(257)));
    assert!(long.contains("in it, of at most 256 bytes"), "{long}");
    let many = message(&rule("*").repeat(257));
    assert!(many.starts_with("small.toml: `train.decay` is 257 rules; allowed: at most 256 rules"), "{many}");
    assert_eq!(train(&rule("*").repeat(256)).decay.len(), 256);
}

#[test]
fn a_resolved_job_is_held_to_the_same() {
    type Break = fn(&mut TrainSpec);
    let cases: [(&str, &str, Break); 5] = [
        ("", "train.beta2", |t| {
            t.optimizer = OptimizerSpec::AdamW(AdamSpec { beta1: 0.9, beta2: 1.0, epsilon: 1e-8, weight_decay: 0.0 });
        }),
        ("", "train.momentum", |t| {
            t.optimizer = OptimizerSpec::Sgd(SgdSpec { momentum: Some(Momentum::Classic(0.0)), weight_decay: 0.0 });
        }),
        ("", "train.weight_decay", |t| {
            t.optimizer = OptimizerSpec::Sgd(SgdSpec { momentum: None, weight_decay: f32::NAN });
        }),
        ("optimizer = \"adafactor\"\n", "train.decay_rate", |t| {
            if let OptimizerSpec::Adafactor(spec) = &mut t.optimizer {
                spec.decay_rate = 0.0;
            }
        }),
        ("", "train.decay.weight_decay", |t| {
            t.decay = vec![DecayRule { parameters: "*".to_owned(), weight_decay: -1.0 }];
        }),
    ];
    for (keys, key, break_it) in cases {
        let mut spec = parse_here(&format!("{MINIMAL}{keys}").replace("\"corpus\"", "\"/corpus\"")).expect(keys);
        assert_eq!(spec.check(), Ok(()));
        break_it(&mut spec.train);
        assert_eq!(spec.check().expect_err(key).key, key);
    }
}
