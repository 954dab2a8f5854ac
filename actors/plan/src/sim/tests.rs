//! Written cases: a few nodes, one engine, and messages delivered one by one, as a text that can be read.
//!
//! A file in `testdata/scripts` has lines `> command`, each followed by what then happens. `SHOAL_BLESS=1` writes what
//! happens now. Nodes do their own work at once and transfers arrive at once; only control messages and the disk take time.
//!
//! ```text
//! > join n1 n2      nodes join                     > deaf n2, hear n2   transfers to n2 are lost; arrive again
//! > tick 50         time jumps, and is noticed late > reset n2          its link breaks: what is under way is lost
//! > wait 50         time passes, all are awake      > hang n2           its device begins nothing any more
//! > until TEXT      deliver until a line has TEXT  > kill n2, drain n2, pause, resume, digest
//! > settle          deliver until all is quiet     > restart            the coordinator, from what is on disk
//! > full n2, room n2  its disk is full; has room     > spoil n2           its data is not what was submitted
//! > silence n2, speak n2  what it says to the engine is held back; all of it arrives
//! > forge n2          what it holds is from a fork of the ledger
//! > plain n3          nodes join that do not fuse multiply and add
//! > alone             no shadows are asked for       > free n2            its device works again, what it had is gone
//! ```

mod player;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;

use shoal_config::spec::Auto;
use shoal_exact::Arithmetic;

use super::brief::{brief, brief_from, brief_to};
use super::world::offer;
use crate::blocks::ModelTable;
use crate::engine::{Command, Engine, Event, Happening, LossCause, Millis, Order, Record, Setup, Timing};
use crate::fixture;
use crate::holder::{Holder, HolderEvent, SlotId};
use crate::ids::{BlockId, Digest, Generation, NodeId};
use crate::job::Job;
use crate::layout::Plan;
use crate::ledger::Version;
use crate::protocol::{FromNode, PersistMode, ToNode};
use crate::space::Interval;

/// Something under way.
enum Wire {
    ToNode(NodeId, Box<ToNode>),
    FromNode(NodeId, FromNode),
    Disk(u64, usize),
}

struct Player {
    holder: Holder,
    arithmetic: Arithmetic,
    deaf: bool,
    /// What it says, if that does not arrive.
    unsaid: Option<Vec<FromNode>>,
    hung: Option<u64>,
    full: bool,
    spoilt: bool,
    plan: Option<(Generation, Arc<Plan>)>,
    slots: BTreeMap<SlotId, (BlockId, Interval)>,
}

struct Stage {
    setup: Setup,
    engine: Engine,
    now: u64,
    wakes: BTreeSet<u64>,
    journal: Vec<Record>,
    on_disk: usize,
    nodes: BTreeMap<NodeId, Player>,
    wires: VecDeque<Wire>,
    /// Nodes whose seats have run a step.
    ran: BTreeMap<(Generation, u64), BTreeSet<NodeId>>,
    requests: u64,
    lines: Vec<(String, String)>,
}

fn node(text: &str) -> NodeId {
    NodeId(text[1..].parse().expect("a node is n and a number"))
}

/// One layer on one seat: every piece has one owner and one shadow.
fn job() -> Job {
    let mut job = fixture::job();
    let model = job.spec.model.as_gpt2_mut().expect("a GPT-2");
    (model.layers, model.heads, model.width, model.vocab, model.context) = (1, 1, 16, 256, 8);
    (job.spec.parallel.pipeline, job.spec.parallel.data) = (Auto::Set(1), Auto::Set(1));
    (job.spec.train.steps, job.spec.train.evaluate) = (12, None);
    job
}

impl Stage {
    fn new() -> Self {
        let job = Arc::new(job());
        let table = Arc::new(ModelTable::of_job(&job.spec));
        let setup = Setup { job, table, incarnation: 1, timing: Timing::default() };
        Self {
            engine: Engine::new(setup.clone()),
            setup,
            now: 0,
            wakes: BTreeSet::new(),
            journal: Vec::new(),
            on_disk: 0,
            nodes: BTreeMap::new(),
            wires: VecDeque::new(),
            ran: BTreeMap::new(),
            requests: 0,
            lines: Vec::new(),
        }
    }

    /// Notes a line; the same said to or by several nodes in a row is one.
    fn say(&mut self, who: impl Into<String>, what: impl Into<String>) {
        let (who, what) = (who.into(), what.into());
        match self.lines.last_mut() {
            Some((nodes, last)) if *last == what && !who.is_empty() => *nodes = format!("{nodes} {who}"),
            Some(_) | None => self.lines.push((who, what)),
        }
    }

    fn tell(&mut self, event: Event) {
        for command in self.engine.handle(Millis(self.now), event) {
            match command {
                Command::Send { node, message } => self.wires.push_back(Wire::ToNode(node, Box::new(message))),
                Command::Journal(record) => {
                    match &record {
                        Record::Happened(Happening::Decided { reason }) if reason.starts_with("parked") => {
                            self.say("", format!("= {reason}"));
                        }
                        Record::Happened(
                            Happening::Decided { .. } | Happening::Ordered { .. } | Happening::Ended { .. },
                        )
                        | Record::Fenced { .. }
                        | Record::Planned { .. } => {}
                        shown => self.say("", format!("= {}", brief(shown))),
                    }
                    self.journal.push(record);
                }
                Command::Flush { mark } => self.wires.push_back(Wire::Disk(mark, self.journal.len())),
                Command::Answer { answer, .. } => {
                    let text = format!("{answer:?}");
                    self.say("", format!("= answer {}", text.split([' ', '(']).next().unwrap_or_default()));
                }
                Command::Dismiss { node } => self.say("", format!("= {node} is told to end")),
                Command::WakeAt(at) => {
                    self.wakes.insert(at.0);
                }
            }
        }
        self.engine.check().expect("invariants hold");
    }

    /// Delivers the next thing under way.
    fn deliver(&mut self) -> bool {
        let Some(wire) = self.wires.pop_front() else { return false };
        match wire {
            Wire::ToNode(node, message) => {
                if self.nodes.contains_key(&node) {
                    self.say(node.to_string(), format!("<- {}", brief_to(&message)));
                    self.hold(node, HolderEvent::Engine(*message));
                }
            }
            Wire::FromNode(node, message) => {
                if let Some(unsaid) = self.nodes.get_mut(&node).and_then(|player| player.unsaid.as_mut()) {
                    unsaid.push(message);
                    return true;
                }
                self.say(node.to_string(), format!("-> {}", brief_from(&message)));
                self.tell(Event::From { node, message });
            }
            Wire::Disk(mark, length) => {
                self.on_disk = self.on_disk.max(length);
                self.tell(Event::Flushed { mark });
            }
        }
        true
    }

    fn order(&mut self, order: Order) {
        self.requests += 1;
        self.tell(Event::Operator { request: self.requests, order });
    }

    fn command(&mut self, line: &str) {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match verb {
            "join" | "plain" => {
                let arithmetic = if verb == "plain" { Arithmetic::Plain } else { Arithmetic::Fused };
                for id in rest.split(' ').map(node) {
                    let (job, table) = (&self.setup.job, Arc::clone(&self.setup.table));
                    let holder = Holder::new(id, job, table);
                    let (plan, slots) = (None, BTreeMap::new());
                    let player = Player {
                        holder,
                        arithmetic,
                        deaf: false,
                        unsaid: None,
                        hung: None,
                        full: false,
                        spoilt: false,
                        plan,
                        slots,
                    };
                    self.nodes.insert(id, player);
                    self.tell(Event::Joined { node: id, offer: offer(arithmetic) });
                }
            }
            "tick" => {
                self.now += rest.parse::<u64>().expect("milliseconds");
                self.tell(Event::Tick);
            }
            "wait" => {
                let end = self.now + rest.parse::<u64>().expect("milliseconds");
                while let Some(at) = self.wakes.pop_first() {
                    if at > end {
                        self.wakes.insert(at);
                        break;
                    }
                    self.now = self.now.max(at);
                    self.tell(Event::Tick);
                }
                self.now = end;
            }
            "alone" => {
                let mut job = (*self.setup.job).clone();
                job.spec.elastic.redundancy = 0;
                self.setup.job = Arc::new(job);
                self.engine = Engine::new(self.setup.clone());
            }
            "silence" => self.nodes.get_mut(&node(rest)).expect("a node").unsaid = Some(Vec::new()),
            "speak" => {
                let id = node(rest);
                let unsaid = self.nodes.get_mut(&id).expect("a node").unsaid.take().unwrap_or_default();
                self.wires.extend(unsaid.into_iter().map(|message| Wire::FromNode(id, message)));
            }
            "forge" => {
                let version = Version { step: self.engine.version().step, chain: Digest([0xF0; 32]) };
                self.nodes.get_mut(&node(rest)).expect("a node").holder.forge(version);
            }
            "free" => self.nodes.get_mut(&node(rest)).expect("a node").hung = None,
            "hang" => self.nodes.get_mut(&node(rest)).expect("a node").hung = Some(self.now),
            "full" | "room" => self.nodes.get_mut(&node(rest)).expect("a node").full = verb == "full",
            "spoil" => self.nodes.get_mut(&node(rest)).expect("a node").spoilt = true,
            "until" => {
                while !self.lines.iter().any(|(who, what)| format!("{who} {what}").contains(rest)) {
                    assert!(self.deliver(), "nothing under way has `{rest}`");
                }
            }
            "settle" => while self.deliver() {},
            "deaf" | "hear" => self.nodes.get_mut(&node(rest)).expect("a node").deaf = verb == "deaf",
            "reset" => {
                self.cut(node(rest));
                self.tell(Event::LinkReset { node: node(rest) });
            }
            "kill" => {
                self.cut(node(rest));
                self.nodes.remove(&node(rest));
                self.tell(Event::Lost { node: node(rest), cause: LossCause::Died });
            }
            "drain" => self.tell(Event::Draining { node: node(rest) }),
            "pause" => self.order(Order::Pause { at: None }),
            "resume" => self.order(Order::Resume),
            "digest" => self.order(Order::Persist { at: None, mode: PersistMode::Hash }),
            "restart" => {
                self.journal.truncate(self.on_disk);
                self.wires.clear();
                self.setup.incarnation += 1;
                self.engine = Engine::restore(self.setup.clone(), self.journal.clone());
                self.tell(Event::Tick);
                let nodes = self.nodes.iter().map(|(node, player)| (*node, player.arithmetic));
                for (node, arithmetic) in nodes.collect::<Vec<_>>() {
                    self.tell(Event::Joined { node, offer: offer(arithmetic) });
                }
            }
            other => panic!("unknown command {other}"),
        }
    }

    /// Loses what is under way to and from a node.
    fn cut(&mut self, node: NodeId) {
        self.wires.retain(|wire| match wire {
            Wire::ToNode(of, _) | Wire::FromNode(of, _) => *of != node,
            Wire::Disk(..) => true,
        });
    }
}

fn play(script: &str) -> String {
    let mut stage = Stage::new();
    let mut text = String::new();
    for line in script.lines().filter(|line| line.starts_with("> ") || line.starts_with('#')) {
        if let Some(command) = line.strip_prefix("> ") {
            stage.command(command);
        }
        text.push_str(&format!("{line}\n"));
        for (who, what) in stage.lines.drain(..) {
            let space = if who.is_empty() { "" } else { " " };
            text.push_str(&format!("{who}{space}{what}\n"));
        }
    }
    text
}

#[test]
fn scripts_play_as_written() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/scripts");
    let bless = std::env::var_os("SHOAL_BLESS").is_some();
    let mut played = 0;
    for file in std::fs::read_dir(directory).expect("scripts are there") {
        let path = file.expect("readable").path();
        let script = std::fs::read_to_string(&path).expect("readable");
        let found = play(&script);
        if bless {
            std::fs::write(&path, &found).expect("writable");
            continue;
        }
        assert_eq!(found, script, "{} plays otherwise; SHOAL_BLESS=1 writes it anew", path.display());
        played += 1;
    }
    assert!(bless || played >= 6, "only {played} scripts");
}
