//! `init`: certificates for a cluster that somebody else will start.

use serde::Serialize;
use shoal_config::node::{self, NodeSpec};
use shoal_config::spec::Auto;

use super::Context;
use crate::cli::Init;
use crate::cluster::{CLAIM, identity};
use crate::failure::{Failure, Verdict};
use crate::output::Show;

#[derive(Serialize)]
struct Made {
    dir: String,
    cluster: String,
    nodes: Vec<String>,
    /// Whether there was a cluster in the directory already.
    existed: bool,
}

pub(super) fn run(context: &Context, args: &Init) -> Result<Verdict, Failure> {
    if let Some(name) = args.nodes.iter().find(|name| !node::is_name(name)) {
        return Err(Failure::Usage(format!(
            "`{name}` cannot be a node's name; allowed: 1 to 63 of a-z, 0-9 and -, starting with a letter, but not `coordinator`"
        )));
    }
    if let Some(name) = args.nodes.iter().find(|name| context.dir.paths().node(name).join("node.toml").exists()) {
        return Err(Failure::Usage(format!(
            "there is a node `{name}` already, in {}; name another, or remove that directory first",
            context.dir.paths().node(name).display()
        )));
    }
    let _claim = context.dir.claim(CLAIM)?;
    let existed = context.dir.is_cluster();
    let cluster = identity::make_cluster(context.dir.paths())?;
    for name in &args.nodes {
        context.dir.write_node(&NodeSpec {
            name: name.clone(),
            listen: ([127, 0, 0, 1], 0).into(),
            join: None,
            memory: node::DEFAULT_MEMORY,
            threads: 1,
            class: Auto::Auto,
            // Beside the file, wherever the directory is carried.
            data_dir: "data".into(),
        })?;
        identity::make_node(context.dir.paths(), name)?;
    }
    let dir = context.dir.paths().root().display().to_string();
    context.format.print(&Made { dir, cluster, nodes: args.nodes.clone(), existed })?;
    Ok(Verdict::True)
}

impl Show for Made {
    fn show(&self) -> String {
        if self.existed && self.nodes.is_empty() {
            return format!(
                "{} in {} was there already and no worker was named, so nothing changed; `shoalctl init --node NAME` adds one",
                self.cluster, self.dir
            );
        }
        let nodes = if self.nodes.is_empty() { "the coordinator".to_owned() } else { self.nodes.join(", ") };
        format!("{} in {}: certificates for {nodes}", self.cluster, self.dir)
    }
}
