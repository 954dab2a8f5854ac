use super::*;

fn table() -> ModelTable {
    let mut spec = shoal_config::preset("tiny", "/".as_ref()).expect("a preset");
    let model = spec.model.as_gpt2_mut().expect("a GPT-2");
    (model.layers, model.heads, model.width, model.context, model.vocab) = (1, 2, 32, 16, 256);
    ModelTable::of_job(&spec)
}

const VERSION: Version = Version { step: 4, chain: Digest([1; 32]) };
const KINDS: [Kind; 3] = [Kind::Weight, Kind::Moment1, Kind::Moment2];

/// Segment starts of a block: where pieces may be cut.
fn edges(table: &ModelTable, block: BlockId) -> Vec<u64> {
    let block = table.block(block);
    digest::segments(block, Interval::new(0, block.len)).map(|segment| segment.start).collect()
}

/// A block's whole space cut at `cuts`, with the values `value`, as written by `node`.
fn written(table: &ModelTable, block: BlockId, cuts: &[u64], value: f32, version: Version) -> Vec<WrittenPiece> {
    let block = table.block(block);
    let edges: Vec<u64> = [&[0], cuts, &[block.len]].concat();
    let intervals = edges.windows(2).map(|pair| Interval::new(pair[0], pair[1]));
    intervals
        .flat_map(|interval| {
            let leaves = digest::leaves(block, interval, &vec![value; interval.len() as usize]);
            KINDS.map(|kind| WrittenPiece { version, block: block.id, kind, interval, leaves: leaves.clone() })
        })
        .collect()
}

fn answer(node: u64, pieces: Vec<WrittenPiece>) -> NodeAnswer {
    NodeAnswer { node: NodeId(node), name: format!("w{node}"), answer: Answer::Manifest(pieces) }
}

fn all(table: &ModelTable, value: f32, version: Version) -> Vec<WrittenPiece> {
    (0..table.blocks.len() as u32).flat_map(|b| written(table, BlockId(b), &[], value, version)).collect()
}

#[test]
fn the_digest_does_not_know_who_wrote_what() {
    let table = table();
    let edges = edges(&table, BlockId(1));
    let whole = Catalogue::new(VERSION, vec![answer(1, all(&table, 0.5, VERSION))]).digest(&table).expect("whole");
    let shared = vec![
        answer(1, written(&table, BlockId(0), &[], 0.5, VERSION)),
        answer(2, written(&table, BlockId(1), &edges[1..3], 0.5, VERSION)),
        answer(
            3,
            [written(&table, BlockId(1), &[], 0.5, VERSION), written(&table, BlockId(2), &[], 0.5, VERSION)].concat(),
        ),
    ];
    assert_eq!(Catalogue::new(VERSION, shared).digest(&table).expect("whole"), whole);
}

#[test]
fn other_steps_and_other_chains_do_not_count() {
    let table = table();
    let zombie = Version { step: 4, chain: Digest([2; 32]) };
    let older = Version { step: 3, chain: Digest([1; 32]) };
    let mut pieces = all(&table, 0.5, VERSION);
    pieces.extend(all(&table, 9.0, zombie));
    pieces.extend(all(&table, 9.0, older));
    let clean = Catalogue::new(VERSION, vec![answer(1, all(&table, 0.5, VERSION))]);
    let mixed = Catalogue::new(VERSION, vec![answer(1, pieces)]);
    assert_eq!(mixed.digest(&table).expect("whole"), clean.digest(&table).expect("whole"));
    let zombies = Catalogue::new(VERSION, vec![answer(1, all(&table, 9.0, zombie))]);
    assert!(zombies.digest(&table).is_err());
}

#[test]
fn different_bits_under_one_version_are_an_error() {
    let table = table();
    let answers =
        vec![answer(1, all(&table, 0.5, VERSION)), answer(2, written(&table, BlockId(1), &[], 0.25, VERSION))];
    assert!(Catalogue::new(VERSION, answers).digest(&table).is_err());
}

#[test]
fn readers_learn_who_has_what_and_what_is_missing() {
    let table = table();
    let edges = edges(&table, BlockId(1));
    let (first, second) = (edges[1], edges[2]);
    let mut two = written(&table, BlockId(1), &[first, second], 0.5, VERSION);
    two.retain(|piece| piece.interval.end <= second);
    let answers = vec![
        answer(2, two),
        answer(3, written(&table, BlockId(1), &[second], 0.5, VERSION).into_iter().take(3).collect()),
        NodeAnswer { node: NodeId(4), name: "w4".to_owned(), answer: Answer::Refused("no such job".to_owned()) },
    ];
    let catalogue = Catalogue::new(VERSION, answers);
    let holders = |at| catalogue.holders(BlockId(1), Kind::Weight, at);
    assert_eq!(holders(0), [(NodeId(3), second), (NodeId(2), first)], "the longest first");
    assert_eq!(holders(first), [(NodeId(2), second), (NodeId(3), second)]);
    assert_eq!(catalogue.complete(BlockId(1), Kind::Weight, Interval::new(0, second)), Ok(()));
    let len = table.block(BlockId(1)).len;
    let missing = CatalogueError::Missing { step: 4, block: BlockId(1), kind: Kind::Weight, at: second };
    assert_eq!(catalogue.complete(BlockId(1), Kind::Weight, Interval::new(0, len)), Err(missing));
}
