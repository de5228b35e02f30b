//! What a real server answered, recorded: sequences with its masked answers, one JSON line each.
use std::collections::BTreeSet;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::play::Answer;
use super::sequence::Sequence;

/// A sequence, and what a real server said to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// What was asked.
    pub sequence: Sequence,
    /// What was answered, masked.
    pub answers: Vec<Answer>,
}

impl Recording {
    /// What it shows: each kind of answer to each kind of request, numbers and names left aside.
    fn shows(&self) -> BTreeSet<String> {
        let steps = self.sequence.steps.iter().zip(&self.answers);
        steps
            .map(|(step, answer)| {
                let message = answer.body["message"].as_str().unwrap_or_default();
                let words: String = message.chars().filter(|c| !c.is_ascii_digit()).take(120).collect();
                let events: BTreeSet<&str> =
                    answer.body.as_array().into_iter().flatten().filter_map(|event| event["type"].as_str()).collect();
                format!("{} {} {words} {events:?}", step.does, answer.code)
            })
            .collect()
    }
}

/// The `count` recordings that together show most, each chosen for what it adds.
pub fn choose(mut recordings: Vec<Recording>, count: usize) -> Vec<Recording> {
    let (mut chosen, mut shown) = (Vec::new(), BTreeSet::new());
    while chosen.len() < count && !recordings.is_empty() {
        let adds = |recording: &Recording| recording.shows().difference(&shown).count();
        let best = (0..recordings.len()).max_by_key(|at| (adds(&recordings[*at]), std::cmp::Reverse(*at)));
        let Some(best) = best else { break };
        let recording = recordings.swap_remove(best);
        shown.extend(recording.shows());
        chosen.push(recording);
    }
    chosen.sort_by_key(|recording| recording.sequence.seed);
    chosen
}

/// Reads recordings.
///
/// # Errors
/// When a line is none; the error says which.
pub fn read(text: &str) -> anyhow::Result<Vec<Recording>> {
    let lines = text.lines().enumerate();
    lines
        .map(|(i, line)| serde_json::from_str(line).with_context(|| format!("line {} is no recording", i + 1)))
        .collect()
}

/// Writes recordings.
///
/// # Errors
/// When one cannot be written as JSON.
pub fn write(recordings: &[Recording]) -> anyhow::Result<String> {
    let lines: Result<Vec<String>, _> = recordings.iter().map(serde_json::to_string).collect();
    Ok(lines.context("a recording is no JSON")?.join("\n") + "\n")
}
