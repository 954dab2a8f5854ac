//! A logical clock that runs the very lists the stage actors run.
//!
//! A device does one thing at a time; of the seats it serves, the one that can start first goes first. A transfer takes
//! time but occupies nobody.

use crate::ids::{MicroBatch, Replica, Seat, StageIndex};
use crate::schedule::Instruction;

/// Time units of each stage's instructions for one micro-batch. What is not named takes no time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// By stage.
    pub forward: Vec<u64>,
    /// By stage; only the last one's counts.
    pub loss: Vec<u64>,
    /// By stage.
    pub backward: Vec<u64>,
    /// Of an activation or gradient from a stage to its neighbour on another device.
    pub transfer: u64,
}

/// One seat's list and where it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// Which seat.
    pub seat: Seat,
    /// Seats with the same number share a device.
    pub device: usize,
    /// What it does.
    pub program: Vec<Instruction>,
}

/// Something that occupied a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Begin.
    pub start: u64,
    /// End.
    pub end: u64,
    /// What: a forward, a loss or a backward.
    pub instruction: Instruction,
}

/// What one seat did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeatTimeline {
    /// Which seat.
    pub seat: Seat,
    /// Where.
    pub device: usize,
    /// In order.
    pub slots: Vec<Slot>,
    /// Most micro-batches between their forward and their backward.
    pub peak_in_flight: u32,
}

/// A pass on the logical clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// When the last slot ends.
    pub wall: u64,
    /// Devices.
    pub devices: usize,
    /// By the order given.
    pub seats: Vec<SeatTimeline>,
}

impl Timeline {
    /// Time units in which a device computed, over all devices.
    #[must_use]
    pub fn busy(&self) -> u64 {
        self.seats.iter().flat_map(|seat| &seat.slots).map(|slot| slot.end - slot.start).sum()
    }

    /// Idle share of all devices' time.
    #[must_use]
    pub fn bubble(&self) -> f64 {
        let area = self.wall * self.devices as u64;
        if area == 0 { 0.0 } else { 1.0 - self.busy() as f64 / area as f64 }
    }
}

/// The lists wait for each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("every seat waits: {}", waiting.iter().map(|(s, i)| format!("{s} at {i:?}")).collect::<Vec<_>>().join(", "))]
pub struct Stuck {
    /// Unfinished seats and what they wait for.
    pub waiting: Vec<(Seat, Instruction)>,
}

/// Runs the lists.
///
/// # Errors
/// If they wait for each other: a receive without its send, or a circle.
pub fn timeline(tracks: &[Track], costs: &Costs) -> Result<Timeline, Stuck> {
    let devices = tracks.iter().map(|track| track.device + 1).max().unwrap_or(0);
    let mut clock = Clock {
        costs,
        mail: Mail::new(tracks),
        free: vec![0; devices],
        runs: tracks.iter().map(|_| Run::default()).collect(),
    };
    let mut sharers = vec![0u32; devices];
    for track in tracks {
        sharers[track.device] += 1;
    }
    loop {
        let startable = tracks.iter().enumerate().filter_map(|(i, track)| Some((clock.start(track, i)?, i)));
        let Some((mut start, i)) = startable.min() else { break };
        // Alone on its device a seat depends on messages only, so it runs on until it waits for one.
        loop {
            clock.step(&tracks[i], i, start);
            match clock.start(&tracks[i], i) {
                Some(next) if sharers[tracks[i].device] == 1 => start = next,
                Some(_) | None => break,
            }
        }
    }
    let runs = clock.runs;
    let waiting: Vec<_> = tracks
        .iter()
        .zip(&runs)
        .filter_map(|(track, run)| track.program.get(run.next).map(|instruction| (track.seat, *instruction)))
        .collect();
    if !waiting.is_empty() {
        return Err(Stuck { waiting });
    }
    let wall = runs.iter().map(|run| run.now).max().unwrap_or(0);
    let seats = tracks.iter().zip(runs).map(|(track, run)| SeatTimeline {
        seat: track.seat,
        device: track.device,
        slots: run.slots,
        peak_in_flight: run.peak,
    });
    Ok(Timeline { wall, devices, seats: seats.collect() })
}

struct Clock<'a> {
    costs: &'a Costs,
    mail: Mail,
    /// When each device is idle again.
    free: Vec<u64>,
    runs: Vec<Run>,
}

impl Clock<'_> {
    /// When a track's next instruction can start; none if it has none or waits for a message nobody sent yet.
    fn start(&self, track: &Track, i: usize) -> Option<u64> {
        let run = &self.runs[i];
        let ready = match *track.program.get(run.next)? {
            Instruction::RecvActivation(m) => self.mail.activation(track.seat, m)?,
            Instruction::RecvGradient(m) => self.mail.gradient(track.seat, m)?,
            Instruction::Forward(_) | Instruction::Loss(_) | Instruction::Backward(_) => self.free[track.device],
            Instruction::Load(_)
            | Instruction::SendActivation(_)
            | Instruction::SendGradient(_)
            | Instruction::Reduce(_) => 0,
        };
        Some(ready.max(run.now))
    }

    fn step(&mut self, track: &Track, i: usize, start: u64) {
        let run = &mut self.runs[i];
        let instruction = track.program[run.next];
        run.now = start;
        run.next += 1;
        let stage = usize::from(track.seat.stage.0);
        let cost = match instruction {
            Instruction::Forward(_) => {
                run.in_flight += 1;
                run.peak = run.peak.max(run.in_flight);
                self.costs.forward[stage]
            }
            Instruction::Loss(_) => self.costs.loss[stage],
            Instruction::Backward(_) => {
                run.in_flight -= 1;
                self.costs.backward[stage]
            }
            Instruction::SendActivation(m) => return self.mail.send_activation(track, m, start, self.costs.transfer),
            Instruction::SendGradient(m) => return self.mail.send_gradient(track, m, start, self.costs.transfer),
            Instruction::Load(_)
            | Instruction::RecvActivation(_)
            | Instruction::RecvGradient(_)
            | Instruction::Reduce(_) => return,
        };
        run.now = start + cost;
        run.slots.push(Slot { start, end: run.now, instruction });
        self.free[track.device] = run.now;
    }
}

#[derive(Default)]
struct Run {
    next: usize,
    now: u64,
    in_flight: u32,
    peak: u32,
    slots: Vec<Slot>,
}

/// When what was sent arrives, by receiving seat and micro-batch.
struct Mail {
    stages: usize,
    micro_batches: usize,
    device_of: Vec<Option<usize>>,
    activations: Vec<Option<u64>>,
    gradients: Vec<Option<u64>>,
}

impl Mail {
    fn new(tracks: &[Track]) -> Self {
        let stages = tracks.iter().map(|l| usize::from(l.seat.stage.0) + 1).max().unwrap_or(0);
        let replicas = tracks.iter().map(|l| usize::from(l.seat.replica.0) + 1).max().unwrap_or(0);
        let micro_batches = tracks.iter().map(|l| l.program.len()).max().unwrap_or(0);
        let mut mail = Self {
            stages,
            micro_batches,
            device_of: vec![None; stages * replicas],
            activations: vec![None; stages * replicas * micro_batches],
            gradients: vec![None; stages * replicas * micro_batches],
        };
        for track in tracks {
            let at = mail.seat(track.seat);
            mail.device_of[at] = Some(track.device);
        }
        mail
    }

    fn seat(&self, seat: Seat) -> usize {
        usize::from(seat.replica.0) * self.stages + usize::from(seat.stage.0)
    }

    fn slot(&self, seat: Seat, m: MicroBatch) -> usize {
        self.seat(seat) * self.micro_batches + m.0 as usize
    }

    fn activation(&self, seat: Seat, m: MicroBatch) -> Option<u64> {
        self.activations[self.slot(seat, m)]
    }

    fn gradient(&self, seat: Seat, m: MicroBatch) -> Option<u64> {
        self.gradients[self.slot(seat, m)]
    }

    fn send_activation(&mut self, from: &Track, m: MicroBatch, now: u64, transfer: u64) {
        let to = neighbour(from.seat, from.seat.stage.0 + 1);
        let at = self.slot(to, m);
        self.activations[at] = Some(self.arrival(from, to, now, transfer));
    }

    fn send_gradient(&mut self, from: &Track, m: MicroBatch, now: u64, transfer: u64) {
        let to = neighbour(from.seat, from.seat.stage.0 - 1);
        let at = self.slot(to, m);
        self.gradients[at] = Some(self.arrival(from, to, now, transfer));
    }

    fn arrival(&self, from: &Track, to: Seat, now: u64, transfer: u64) -> u64 {
        if self.device_of[self.seat(to)] == Some(from.device) { now } else { now + transfer }
    }
}

fn neighbour(seat: Seat, stage: u16) -> Seat {
    Seat { stage: StageIndex(stage), replica: Replica(seat.replica.0) }
}
