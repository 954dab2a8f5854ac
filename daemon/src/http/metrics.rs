//! `/metrics` in Prometheus' text format.

use std::fmt::Write as _;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use shoal_actors::coordinator::Read;
use shoal_wire::api::{JobStatus, NodeInfo, NodeState};

use super::App;
use super::fault::Fault;

pub(super) async fn metrics(State(app): State<App>) -> Result<Response, Fault> {
    let nodes = app.read(Read::Nodes).await?;
    let jobs = app.read(Read::Jobs).await?;
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4")], render(&nodes, &jobs)).into_response())
}

fn render(nodes: &[NodeInfo], jobs: &[JobStatus]) -> String {
    let mut out = String::new();
    family(&mut out, "shoal_node_up", "gauge", "whether a worker takes part", nodes, |node| {
        (labels(&[("node", &node.node)]), Some(f64::from(u8::from(node.state == NodeState::Ready))))
    });
    family(&mut out, "shoal_node_arena_bytes", "gauge", "bytes held by a worker's arenas", nodes, |node| {
        (labels(&[("node", &node.node)]), Some(node.used_bytes as f64))
    });
    family(&mut out, "shoal_node_budget_bytes", "gauge", "bytes a worker's arenas may hold", nodes, |node| {
        (labels(&[("node", &node.node)]), Some(node.budget_bytes as f64))
    });
    family(&mut out, "shoal_job_step", "gauge", "committed steps", jobs, |job| (names(job), Some(job.step as f64)));
    family(&mut out, "shoal_job_loss", "gauge", "mean training loss per token", jobs, |job| (names(job), job.loss));
    family(&mut out, "shoal_job_validation_loss", "gauge", "mean validation loss per token", jobs, |job| {
        (names(job), job.val_loss)
    });
    family(&mut out, "shoal_job_tokens_per_second", "gauge", "over the last steps", jobs, |job| {
        (names(job), job.tokens_per_second)
    });
    family(&mut out, "shoal_job_shadows", "gauge", "shadows of the worst-off interval", jobs, |job| {
        (names(job), Some(f64::from(job.redundancy.have)))
    });
    family(&mut out, "shoal_job_steps_lost_total", "counter", "committed steps given up", jobs, |job| {
        (names(job), Some(job.steps_lost as f64))
    });
    family(&mut out, "shoal_job_steps_redone_total", "counter", "steps begun, aborted, begun again", jobs, |job| {
        (names(job), Some(job.steps_redone as f64))
    });
    out
}

fn family<T>(
    out: &mut String,
    name: &str,
    kind: &str,
    help: &str,
    items: &[T],
    sample: impl Fn(&T) -> (String, Option<f64>),
) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (labels, value) in items.iter().map(sample) {
        if let Some(value) = value {
            let _ = writeln!(out, "{name}{labels} {value}");
        }
    }
}

fn names(job: &JobStatus) -> String {
    labels(&[("job", &job.job), ("name", &job.name)])
}

fn labels(pairs: &[(&str, &str)]) -> String {
    let escape = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let pairs: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}=\"{}\"", escape(value))).collect();
    format!("{{{}}}", pairs.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_missing_values_left_out() {
        let node = NodeInfo {
            node: "a\"b".to_owned(),
            id: "n1".to_owned(),
            pid: 1,
            role: vec!["worker".to_owned()],
            address: "127.0.0.1:1".to_owned(),
            state: NodeState::Ready,
            budget_bytes: 10,
            used_bytes: 7,
            class: "avx2".to_owned(),
            arithmetic: "fused".to_owned(),
            left_out: None,
        };
        let text = render(&[node], &[]);
        assert!(text.contains("shoal_node_arena_bytes{node=\"a\\\"b\"} 7\n"), "{text}");
        assert!(text.contains("# TYPE shoal_job_loss gauge\n# HELP"), "{text}");
    }
}
