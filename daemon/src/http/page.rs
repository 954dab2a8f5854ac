//! A page for people: what `nodes` and `list` say, refreshed by the browser.

use std::fmt::Write as _;

use axum::extract::State;
use axum::http::header::REFERRER_POLICY;
use axum::response::{Html, IntoResponse};
use shoal_actors::coordinator::Read;
use shoal_wire::api::{JobStatus, NodeInfo};

use super::App;
use super::fault::Fault;

const HEAD: &str = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"2\">\
<title>Shoal</title><style>body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em}\
table{border-collapse:collapse;width:100%;margin-bottom:2em}th,td{text-align:left;padding:.3em .8em .3em 0;\
border-bottom:1px solid #ddd}th{font-weight:600}</style></head><body><h1>Shoal</h1>";

/// The token is in the page's address; nothing that it links to gets to see it.
pub(super) async fn index(State(app): State<App>) -> Result<impl IntoResponse, Fault> {
    let nodes = app.read(Read::Nodes).await?;
    let jobs = app.read(Read::Jobs).await?;
    Ok(([(REFERRER_POLICY, "no-referrer")], Html(render(&nodes, &jobs))))
}

fn render(nodes: &[NodeInfo], jobs: &[JobStatus]) -> String {
    let mut out = HEAD.to_owned();
    out.push_str("<h2>Jobs</h2>");
    table(
        &mut out,
        &["job", "name", "state", "step", "loss", "val loss", "tokens/s", "shadows", "plan", "reason"],
        jobs,
        {
            |job| {
                vec![
                    job.job.clone(),
                    job.name.clone(),
                    word(&job.state),
                    format!("{} / {}", job.step, job.steps),
                    decimal(job.loss, 4),
                    decimal(job.val_loss, 4),
                    decimal(job.tokens_per_second, 0),
                    format!("{} of {} ({})", job.redundancy.have, job.redundancy.want, word(&job.redundancy.state)),
                    job.plan.clone().unwrap_or_default(),
                    [job.reason.clone(), job.plain.clone()].into_iter().flatten().collect::<Vec<_>>().join("; "),
                ]
            }
        },
    );
    out.push_str("<h2>Nodes</h2>");
    table(&mut out, &["node", "pid", "address", "state", "arenas", "class", "left out"], nodes, |node| {
        let mib = |bytes: u64| bytes >> 20;
        vec![
            node.node.clone(),
            node.pid.to_string(),
            node.address.clone(),
            word(&node.state),
            format!("{} of {} MiB", mib(node.used_bytes), mib(node.budget_bytes)),
            node.class.clone(),
            node.left_out.clone().unwrap_or_default(),
        ]
    });
    out.push_str("</body></html>");
    out
}

fn table<T>(out: &mut String, heads: &[&str], items: &[T], row: impl Fn(&T) -> Vec<String>) {
    out.push_str("<table><tr>");
    for head in heads {
        // Writing to a string does not fail.
        let _ = write!(out, "<th>{head}</th>");
    }
    for cells in items.iter().map(row) {
        out.push_str("</tr><tr>");
        for cell in cells {
            let _ = write!(out, "<td>{}</td>", escape(&cell));
        }
    }
    out.push_str("</tr></table>");
}

/// The word that JSON has for a state.
fn word(state: &impl serde::Serialize) -> String {
    serde_json::to_value(state).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn decimal(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(String::new, |value| format!("{value:.digits$}"))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
