use shoal_model::init;

use super::*;

/// A small model with weights from its seed.
fn writer() -> (Writer, usize) {
    let spec = shoal_config::preset("tiny", "/".as_ref()).expect("a preset");
    let mut writer = Writer::new(&spec, 1).expect("room");
    let table = ModelTable::of(&spec.model);
    for block in &table.blocks {
        let whole = Interval::new(0, block.len);
        let mut values = vec![0.0; block.len as usize];
        init::fill(&table, &spec, block.id, whole, &mut values);
        writer.write_weights(block.id, whole, &values);
    }
    (writer, spec.model.context() as usize)
}

fn wanted(tokens: u64, temperature: f64) -> Wanted<'static> {
    Wanted {
        sampling: Sampling { temperature, top_k: None, top_p: None, seed: 3 },
        tokens,
        texts: &[true; 256],
        end: None,
    }
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
    let (mut writer, context) = writer();
    let long = 3 * context as u64;
    let (first, ended) = text(&mut writer, &[10], &wanted(long, 1.0));
    assert_eq!((first.len() as u64, ended), (long, Ended::Long));
    assert_eq!(text(&mut writer, &[10], &wanted(long, 1.0)).0, first, "whatever was read before");
    let other = Wanted { sampling: Sampling { seed: 4, ..wanted(long, 1.0).sampling }, ..wanted(long, 1.0) };
    assert_ne!(text(&mut writer, &[10], &other).0, first);
}

#[test]
fn a_text_ends_where_it_should() {
    let (mut writer, context) = writer();
    let greedy = wanted(20, 0.0);
    let (tokens, _) = text(&mut writer, &[10, 20], &greedy);
    let end = Wanted { end: Some(tokens[0]), ..greedy };
    assert_eq!(text(&mut writer, &[10, 20], &end), (Vec::new(), Ended::EndOfText));
    let ended = writer.go_on(&[10, 20], &greedy, |_| false).expect("a text");
    assert_eq!(ended, Ended::Unwanted);
    // All but the tokens that would be chosen, and those behind them.
    let mut texts = [true; 200];
    for temperature in [0.0, 5.0] {
        for _ in 0..3 {
            let holes = Wanted { texts: &texts, ..wanted(20, temperature) };
            let (tokens, _) = text(&mut writer, &[10, 20], &holes);
            assert!(tokens.iter().all(|token| texts.get(*token as usize) == Some(&true)), "{tokens:?}");
            tokens.iter().for_each(|token| texts[*token as usize] = false);
        }
    }

    let whole: Vec<u32> = vec![7; context];
    assert_eq!(text(&mut writer, &whole, &wanted(3, 0.0)).0.len(), 3);
    let long: Vec<u32> = vec![7; context + 1];
    let error = writer.go_on(&long, &greedy, |_| true).expect_err("too long").to_string();
    assert_eq!(
        error,
        format!("the prompt has {} tokens and the model's context {context}; shorten the prompt", context + 1)
    );
    assert!(matches!(writer.go_on(&[], &greedy, |_| true), Err(SampleError::Empty)));
}
