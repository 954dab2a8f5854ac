//! Node ids in what engines say, turned into the names that operators know.
//!
//! Decisions speak of ids, because a name may come back as another process. People are shown names: the id is in
//! `nodes --json` for whoever has to tell two processes of one name apart.

use shoal_plan::ids::NodeId;
use shoal_wire::control::Answer;

use super::state::Coordinator;

impl Coordinator {
    /// A text of an engine, with the names of nodes in it.
    pub(super) fn spelled(&self, text: &str) -> String {
        spell(text, |node| self.names.get(&node).cloned())
    }

    /// A worker's answer, with the names of nodes in it.
    pub(super) fn named(&self, answer: Answer) -> Answer {
        match answer {
            Answer::Report(mut report) => {
                report.node = self.spelled(&report.node);
                for line in &mut report.traffic {
                    line.peer = self.spelled(&line.peer);
                }
                Answer::Report(report)
            }
            other @ (Answer::Manifest(_) | Answer::Written(_) | Answer::Refused(_)) => other,
        }
    }
}

/// Puts a name in place of every id (`n12`, by itself) that has one.
pub(super) fn spell(text: &str, name: impl Fn(NodeId) -> Option<String>) -> String {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '.');
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (head, tail) = rest.split_at(word);
        // A sentence may end with an id.
        let bare = head.trim_end_matches(['.', '-']);
        let id =
            bare.strip_prefix('n').and_then(|digits| digits.parse().ok()).filter(|id| NodeId(*id).to_string() == bare);
        match id.and_then(|id| name(NodeId(id))) {
            Some(name) => out.extend([name.as_str(), &head[bare.len()..]]),
            None => out.push_str(head),
        }
        let gap = tail.find(is_word).unwrap_or(tail.len());
        out.push_str(&tail[..gap]);
        rest = &tail[gap..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_stand_by_themselves_become_names() {
        let name = |node: NodeId| (node.0 < 4).then(|| format!("w{}", node.0 * 10));
        for (text, spelled) in [
            ("n1 is lost: died", "w10 is lost: died"),
            ("wait for n1,n2 and (n3).", "wait for w10,w20 and (w30)."),
            ("a stage on n2 failed: x", "a stage on w20 failed: x"),
            ("n4 is nobody, n01 and n are no ids", "n4 is nobody, n01 and n are no ids"),
            ("/data/n1/text, n1-old, in1, n1.txt", "/data/n1/text, n1-old, in1, n1.txt"),
            ("ended by n1.", "ended by w10."),
            ("n1→n2", "w10→w20"),
            ("", ""),
        ] {
            assert_eq!(spell(text, name), spelled);
        }
    }
}
