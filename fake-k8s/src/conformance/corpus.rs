//! What a real server answered, recorded: sequences with its masked answers, one JSON line each.
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
