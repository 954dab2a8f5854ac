//! `plan`: what a job would look like on so many nodes; needs no cluster.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use shoal_config::node::{least_memory, own_memory};
use shoal_config::{Bytes, JobSpec};
use shoal_plan::blocks::ModelTable;
use shoal_plan::draw::{self, Summary};
use shoal_plan::engine::{Arithmetic, Offer};
use shoal_plan::ids::{Digest, NodeId};
use shoal_plan::job::{DataFacts, Job};
use shoal_plan::planner::{Held, NoPlan, make_plan};

use super::Context;
use super::job_file::{self, JobFile};
use crate::cli::PlanArgs;
use crate::failure::{Failure, Verdict};
use crate::output::Show;
use crate::output::units::count;

/// A plan with what it is for.
#[derive(Serialize)]
pub(super) struct Drawn {
    job: String,
    parameters: u64,
    precision: &'static str,
    wire: &'static str,
    steps: u64,
    global_batch: u32,
    micro_batch: u32,
    /// The highest.
    learning_rate: f64,
    /// Why this layout.
    reason: String,
    /// What the job asked for and this does not give.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
    #[serde(flatten)]
    summary: Summary,
    #[serde(skip)]
    text: String,
}

pub(super) fn run(context: &Context, args: &PlanArgs) -> Result<Verdict, Failure> {
    let JobFile { spec, name } = job_file::of(&args.job)?;
    let (memory, least) = (args.memory, least_memory(args.threads));
    if memory < least {
        return Err(Failure::Usage(format!(
            "--memory {} is too little for a worker of {} threads; allowed: at least {}",
            memory.exact(),
            args.threads,
            least.exact()
        )));
    }
    let budget_bytes = memory.0.saturating_sub(own_memory(args.threads).0);
    let (threads, arithmetic) = (args.threads, Arithmetic::Fused);
    let offer = Offer { budget_bytes, threads, class: "any".to_owned(), arithmetic };
    let members = (1..=u64::from(args.nodes)).map(|node| (NodeId(node), offer.clone())).collect();
    let drawn = draw(spec, &members).map_err(|error| Failure::Usage(refused(&name, &error, args.threads)))?;
    context.format.print(&drawn)?;
    Ok(Verdict::True)
}

/// Why there is no plan; of too little memory, how much would do, as it is typed.
fn refused(name: &str, error: &NoPlan, threads: u32) -> String {
    let enough = match error {
        NoPlan::Memory { needed, .. } => {
            format!("; --memory {} is the least that is enough for it", Bytes(needed + own_memory(threads).0).exact())
        }
        NoPlan::NoNodes { .. } | NoPlan::StateLost { .. } | NoPlan::Impossible { .. } => String::new(),
    };
    format!("{name}: no plan is possible: {error}{enough}")
}

fn draw(spec: JobSpec, members: &BTreeMap<NodeId, Offer>) -> Result<Drawn, NoPlan> {
    // A layout does not depend on what is in the data, so the data need not be there.
    let data = DataFacts {
        digest: Digest::default(),
        train_tokens: 0,
        validation_digest: Digest::default(),
        validation_tokens: 0,
        tokenizer: None,
    };
    let job = Job { spec, data, weights: None };
    let table = ModelTable::of_job(&job.spec);
    let planned = make_plan(&job, &table, members, &BTreeSet::new(), &Held::none())?;
    Ok(Drawn {
        job: job.spec.name.clone(),
        parameters: table.parameters(),
        precision: job.spec.train.numerics.precision.dtype().word(),
        wire: job.spec.train.numerics.wire.dtype().word(),
        steps: job.spec.train.steps,
        global_batch: job.spec.train.global_batch,
        micro_batch: job.spec.train.micro_batch,
        learning_rate: job.spec.train.schedule.peak,
        reason: planned.reason,
        warning: planned.plan.shortfall(job.spec.elastic.redundancy, members.len()),
        summary: draw::summary(&planned.plan, &job, &table, members),
        text: draw::text(&planned.plan, &job, &table, members),
    })
}

impl Show for Drawn {
    fn show(&self) -> String {
        let warning = self.warning.as_ref().map_or_else(String::new, |warning| format!("\nwarning: {warning}"));
        let Self { precision, wire, micro_batch, learning_rate, .. } = self;
        let (steps, samples) = (count(self.steps), count(self.global_batch.into()));
        let head = format!(
            "{}: {} parameters, {precision}, {wire} on the wire\n{steps} steps of {samples} samples, {micro_batch} at a time, learning \
             rate up to {learning_rate}",
            self.job,
            count(self.parameters)
        );
        format!("{head}\n{}{warning}\n\n{}", self.reason, self.text)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn members(nodes: u64, budget_bytes: u64) -> BTreeMap<NodeId, Offer> {
        let offer = Offer { budget_bytes, threads: 1, class: "any".to_owned(), arithmetic: Arithmetic::Fused };
        (1..=nodes).map(|node| (NodeId(node), offer.clone())).collect()
    }

    fn demo() -> JobSpec {
        shoal_config::preset("demo", Path::new("/no/such/data")).expect("known preset")
    }

    #[test]
    fn it_is_drawn_for_people_and_listed_for_programs() {
        let drawn = draw(demo(), &members(4, 2 << 30)).expect("a plan");
        let text = drawn.show();
        assert!(text.contains("pipeline 2 x data 2, 1f1b, 4 nodes"), "{text}");
        let train = &demo().train;
        let said = format!(
            " steps of {} samples, {} at a time, learning rate up to {}\n",
            train.global_batch, train.micro_batch, train.schedule.peak
        );
        assert!(text.contains(&said), "{text}");
        assert!(text.contains("bubble") && !text.contains("warning"), "{text}");
        let json = serde_json::to_value(&drawn).expect("plain data");
        assert_eq!(
            (json["stages"].as_array().map(Vec::len), json["nodes"].as_array().map(Vec::len)),
            (Some(2), Some(4))
        );
        assert_eq!(json["parameters"], drawn.parameters);
    }

    #[test]
    fn redundancy_that_finds_no_room_is_said_in_the_words_of_the_cluster() {
        let drawn = draw(demo(), &members(1, 2 << 30)).expect("a plan");
        let said =
            "warning: redundancy 1 was asked for, 0 found room on 1 node: a loss may cost steps until nodes join\n";
        assert!(drawn.show().contains(said), "{}", drawn.show());
    }

    #[test]
    fn a_model_that_does_not_fit_says_by_how_much() {
        let error = draw(demo(), &members(1, 1 << 20)).map(|drawn| drawn.text).expect_err("no room");
        let said = error.to_string();
        assert!(said.contains("a node that may hold 1.0 MiB (1048576 bytes); give nodes more memory"), "{said}");
        let said = refused("demo", &error, 2);
        let (_, memory) = said.split_once("; --memory ").expect("how much is enough");
        let memory: Bytes = memory.split(' ').next().and_then(|size| size.parse().ok()).expect("as it is typed");
        let enough = memory.0 - own_memory(2).0;
        assert!(draw(demo(), &members(1, enough)).is_ok() && draw(demo(), &members(1, enough - 1)).is_err());
    }
}
