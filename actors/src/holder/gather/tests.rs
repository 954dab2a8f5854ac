use std::time::Duration;

use shoal_exact::ExactSum;
use shoal_kernels::{Budget, Device, Tag, Tier};
use shoal_plan::ids::{BlockId, NodeId};
use shoal_plan::lanes::subtrees;
use shoal_plan::space::{GradPart, Interval};

use super::*;
use crate::testing::gpt2;

const LANES: u32 = 5;
const DEADLINE: Duration = Duration::from_secs(20);

fn table() -> Arc<ModelTable> {
    Arc::new(ModelTable::of(&gpt2([1, 1, 16, 8, 256])))
}

fn thread() -> DeviceThread {
    let arena = Arena::new(Tier::Device, 64 << 20, &Budget::new(64 << 20));
    let device = Device::cpu(1, &arena).expect("room");
    DeviceThread::of("gather-test", device, arena).expect("a thread")
}

/// The second half of the token table and the start of the positions: own covers all of it, the tied head a part.
fn piece() -> PiecePlan {
    PiecePlan { block: BlockId(0), interval: Interval::new(2048, 4160), owner: NodeId(1), shadows: Vec::new() }
}

fn unit(part: GradPart) -> GradUnit {
    GradUnit { block: BlockId(0), part }
}

/// Values whose sum depends on the order of additions.
fn lane(part: GradPart, lane: u32, i: usize) -> f32 {
    let salt = match part {
        GradPart::Own => 1,
        GradPart::TiedHead => 5,
    };
    ((i as u32).wrapping_mul(2_654_435_761).wrapping_add(lane * 40_503 + salt) % 100_003) as f32 * 1e-3 - 31.0
}

fn tree(part: GradPart, node: TreeNode, i: usize) -> f32 {
    match node.children() {
        Some((left, right)) => tree(part, left, i) + tree(part, right, i),
        None => lane(part, node.start, i),
    }
}

fn loss(node: TreeNode) -> LossSum {
    let lanes = f64::from(node.end - node.start);
    LossSum { loss: Norm::Finite(ExactSum::of(lanes)), tokens: u64::from(node.end - node.start) }
}

/// A subtree's sum as a replica would send it.
fn partial(thread: &DeviceThread, part: GradPart, node: TreeNode) -> Partial {
    let len = match part {
        GradPart::Own => 4160 - 2048,
        GradPart::TiedHead => 4096 - 2048,
    };
    let mut buffer = thread.arena().alloc(Tag::Gradient, len).expect("room");
    let values = buffer.host_visible_mut().expect("on the host");
    values.iter_mut().enumerate().for_each(|(i, x)| *x = tree(part, node, i));
    let loss = Some(loss(node)).filter(|_| part == GradPart::Own);
    Partial { step: 3, piece: PieceId(0), unit: unit(part), node, slice: Slice::whole(buffer), loss }
}

async fn whole(thread: &DeviceThread, partials: Vec<Partial>) -> (Gathered, Option<LossSum>) {
    let mut gather = Gather::new(table(), LANES, Rounding::NONE, Cancel::default());
    let last = partials.len() - 1;
    for (i, partial) in partials.into_iter().enumerate() {
        match gather.add(thread, &piece(), partial).expect("expected") {
            Step::Waits => assert!(i < last, "the last partial completes the gradient"),
            Step::Whole(made, loss) => {
                assert_eq!(i, last, "only the last partial completes the gradient");
                let made = tokio::time::timeout(DEADLINE, made).await.expect("in time");
                return (made.expect("no panic").expect("there is room"), loss);
            }
        }
    }
    unreachable!("the last partial completes the gradient")
}

/// GA-2 (written order).
#[tokio::test]
async fn any_split_and_any_order_give_the_bits_of_the_tree() {
    let thread = thread();
    let expected: Vec<u32> = (0..4160 - 2048)
        .map(|i| {
            let own = tree(GradPart::Own, TreeNode::root(LANES), i);
            let sum = if i < 2048 { own + tree(GradPart::TiedHead, TreeNode::root(LANES), i) } else { own };
            sum.to_bits()
        })
        .collect();
    for cuts in [&[][..], &[2], &[1, 4], &[3, 4]] {
        let edges: Vec<u32> = [0].iter().chain(cuts).chain(&[LANES]).copied().collect();
        let runs: Vec<_> = edges.windows(2).map(|w| w[0]..w[1]).collect();
        let nodes: Vec<TreeNode> = runs.iter().flat_map(|run| subtrees(LANES, run.clone())).collect();
        for turn in 0..2 * nodes.len() {
            let mut partials: Vec<Partial> = [GradPart::Own, GradPart::TiedHead]
                .into_iter()
                .flat_map(|part| nodes.iter().map(move |node| (part, *node)))
                .map(|(part, node)| partial(&thread, part, node))
                .collect();
            partials.rotate_left(turn);
            let (Gathered { gradient, norm }, loss) = whole(&thread, partials).await;
            let found = gradient.view().host_visible().expect("on the host");
            assert!(found.iter().map(|x| x.to_bits()).eq(expected.iter().copied()), "{runs:?} turned by {turn}");
            let squares: f64 = expected.iter().map(|b| f64::from(f32::from_bits(*b)).powi(2)).sum();
            let Norm::Finite(norm) = norm else { panic!("every element is finite") };
            assert!((norm.to_f64() / squares - 1.0).abs() < 1e-9);
            assert_eq!(loss.map(|l| l.tokens), Some(u64::from(LANES)));
        }
    }
}

#[tokio::test]
async fn what_is_not_finite_is_said() {
    let thread = thread();
    let mut partials: Vec<Partial> =
        [GradPart::Own, GradPart::TiedHead].map(|part| partial(&thread, part, TreeNode::root(LANES))).into();
    let mut buffer = thread.arena().alloc_zeroed(Tag::Gradient, 4160 - 2048).expect("room");
    buffer.host_visible_mut().expect("on the host")[7] = f32::INFINITY;
    partials[0].slice = Slice::whole(buffer);
    assert_eq!(whole(&thread, partials).await.0.norm, Norm::NotFinite);
}

#[tokio::test]
async fn lanes_count_once_and_strangers_not_at_all() {
    let thread = thread();
    let mut gather = Gather::new(table(), LANES, Rounding::NONE, Cancel::default());
    let node = |start, end| TreeNode { start, end };
    let mut add = |partial| gather.add(&thread, &piece(), partial).map(|_| ());
    add(partial(&thread, GradPart::Own, node(0, 2))).expect("expected");
    let again = add(partial(&thread, GradPart::Own, node(1, 2)));
    assert!(matches!(again, Err(PartialError::Repeated { .. })), "{again:?}");
    let odd = add(partial(&thread, GradPart::Own, node(1, 3)));
    assert!(matches!(odd, Err(PartialError::Unexpected { .. })), "{odd:?}");
    let mut long = partial(&thread, GradPart::Own, node(2, 4));
    long.unit = unit(GradPart::TiedHead);
    let long = add(long);
    assert!(matches!(long, Err(PartialError::Length { expected: 2048, found: 2112, .. })), "{long:?}");
}
