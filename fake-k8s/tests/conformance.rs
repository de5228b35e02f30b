//! What a real API server answered, as it was recorded, against what this one answers now. No real server is needed:
//! `make conformance` plays fresh requests against one, and `make corpus` records anew.
#![cfg(feature = "conformance")]

use fake_k8s::conformance::client::InProcess;
use fake_k8s::conformance::compare::{Difference, differences};
use fake_k8s::conformance::corpus::{Recording, read};
use fake_k8s::conformance::fresh_server;
use fake_k8s::conformance::known::known;
use fake_k8s::conformance::mask::mask;
use fake_k8s::conformance::play::play;

const CORPUS: &str = include_str!("corpus/v1.34.jsonl");

async fn replay(recording: &Recording) -> Vec<Difference> {
    let server = InProcess(fresh_server(recording.sequence.seed).expect("a server"));
    let answers = play(&server, &recording.sequence).await.expect("it answers");
    let answers = mask(&recording.sequence, &answers);
    let mut found = differences(&recording.sequence, &recording.answers, &answers);
    found.retain(|difference| known(difference).is_none());
    found
}

/// All at once: those with a watch wait for a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_recorded_answer_is_given() {
    let corpus = read(CORPUS).expect("recordings");
    let steps: usize = corpus.iter().map(|recording| recording.sequence.steps.len()).sum();
    assert!(corpus.len() >= 50 && steps >= 1_500, "the corpus is small: {} sequences, {steps} steps", corpus.len());
    let found = futures::future::join_all(corpus.iter().map(replay)).await;
    let mut said = String::new();
    for (recording, different) in corpus.iter().zip(&found).filter(|(_, different)| !different.is_empty()) {
        let first = &different[0];
        let step = &recording.sequence.steps[first.step];
        said.push_str(&format!(
            "seed {}, step {}: {} {} ({}), at {}\n    recorded {}\n    now      {}\n",
            recording.sequence.seed,
            first.step,
            step.method,
            step.path,
            first.does,
            first.place,
            first.real,
            first.fake
        ));
    }
    assert!(said.is_empty(), "another answer than the real server's, the first of each sequence:\n{said}");
}
