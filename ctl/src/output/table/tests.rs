//! What people and programs are shown.

use serde_json::json;
use shoal_wire::api::{ArenaLine, CallLine, DeviceReport, NodeReport, TrafficLine};

use super::fixture::{node, status};
use super::*;
use crate::output::json;

#[test]
fn tables_are_aligned_and_numbers_have_units() {
    assert_eq!(
        vec![node()].show(),
        "NODE  STATE   PID  ADDRESS            USED   BUDGET  CLASS\n\
         w1    ready  4711  127.0.0.1:4000  3.0 MiB  2.0 GiB  avx2"
    );
    let reason = "left out of j1: its products are plain (portable), those of the job fused".to_owned();
    let other = NodeInfo { class: "portable".to_owned(), left_out: Some(reason), ..node() };
    assert!(
        vec![other]
            .show()
            .ends_with("portable\nw1: left out of j1: its products are plain (portable), those of the job fused")
    );
    assert_eq!(
        vec![status()].show(),
        "JOB  NAME  STATE              STEP    LOSS            SPEED\n\
         j1   demo  training  1,200 / 2,000  1.2500  54,321 tokens/s"
    );
}

#[test]
fn a_status_is_a_list_of_facts() {
    let text = status().show();
    for line in [
        "job              j1 (demo)",
        "step             1,200 of 2,000",
        "arithmetic       fused",
        "validation loss  -",
        "redundancy       restoring: 0 of 1 shadows",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
    assert!(!text.contains("reason"));
    assert!(!text.contains("warning"));
    let slow = JobStatus { plain: Some("its products are plain".to_owned()), ..status() }.show();
    assert!(slow.ends_with("warning          its products are plain"), "{slow}");
    let answer = |warning| SubmitAnswer { job: "j1".to_owned(), known: false, warning }.show();
    assert!(answer(Some("slow".to_owned())).ends_with("--until done` waits\nwarning: slow"));
    assert!(answer(None).ends_with("--until done` waits"));
    for (state, redundancy, says) in [
        (JobState::Cancelled, (0, 1, RedundancyState::Gone), "none: the job is over"),
        (JobState::Training, (0, 0, RedundancyState::Full), "none asked for"),
        (JobState::Queued, (0, 1, RedundancyState::Restoring), "none yet, 1 wanted"),
    ] {
        let (have, want, how) = redundancy;
        let text = JobStatus { state, redundancy: Redundancy { have, want, state: how }, ..status() }.show();
        assert!(text.contains(&format!("redundancy       {says}")), "{text}");
    }
}

#[test]
fn nothing_to_list_is_a_sentence() {
    assert!(Vec::<NodeInfo>::new().show().starts_with("no workers"));
    assert!(Vec::<JobStatus>::new().show().starts_with("no jobs"));
    assert!(Vec::<NodeReport>::new().show().starts_with("no node"));
}

#[test]
fn json_has_the_documented_keys() {
    let nodes: serde_json::Value = serde_json::from_str(&json::document(&[node()])).expect("a document");
    assert_eq!(
        nodes,
        json!([{"node": "w1", "id": "n1", "pid": 4711, "role": ["worker"], "address": "127.0.0.1:4000", "state": "ready",
                "budget_bytes": 2_147_483_648_u64, "used_bytes": 3_145_728, "class": "avx2", "arithmetic": "fused"}])
    );
    let status: serde_json::Value = serde_json::from_str(&json::line(&status())).expect("a line");
    assert_eq!(status["state"], "training");
    assert_eq!(status["redundancy"], json!({"have": 0, "want": 1, "state": "restoring"}));
    for key in [
        "job",
        "step",
        "steps",
        "loss",
        "loss_step",
        "val_loss",
        "loss_scale",
        "generation",
        "steps_lost",
        "steps_redone",
        "tokens_per_second",
        "plan",
        "arithmetic",
    ] {
        assert!(status.get(key).is_some(), "{key}");
    }
    assert!(!json::line(&node()).contains('\n'));
}

#[test]
fn a_report_answers_each_question_in_its_own_table() {
    let report = NodeReport {
        node: "w1".into(),
        devices: vec![DeviceReport {
            device: "cpu".into(),
            parameters: 1000,
            owned: 500,
            shadowed: 500,
            arenas: vec![ArenaLine {
                tier: "device".into(),
                tag: "weights".into(),
                live_bytes: 0,
                high_water_bytes: 2048,
            }],
            calls: vec![CallLine { block: 3, forward: 10, backward: 8 }],
            busy_seconds: 1.5,
        }],
        traffic: vec![TrafficLine {
            peer: "w2".into(),
            purpose: "activation".into(),
            bytes_sent: 1024,
            ..Default::default()
        }],
        decisions: 20,
        decision_seconds: 0.25,
    };
    let text = vec![report].show();
    for part in [
        "Devices\n",
        "1.50 s",
        "Arenas\n",
        "2.0 KiB",
        "Calls by block\n",
        "Decisions\n",
        "0.25 s",
        "Sent by purpose\nPURPOSE        SENT  MESSAGES\nactivation  1.0 KiB         0\nall         1.0 KiB         0\n",
        "Traffic\n",
        "activation",
        "1.0 KiB",
        "MESSAGES SENT  RECEIVED  MESSAGES RECEIVED",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}
