//! The fidelity table: of each operation, how often both servers answered the same.
use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::compare::Difference;
use super::known::{KNOWN, known};
use super::sequence::Sequence;

/// One line.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Steps that were played.
    pub total: u64,
    /// Of these, answered the same.
    pub agreed: u64,
    /// Of these, answered with a difference that we know of.
    pub known: u64,
}

/// The whole table.
#[derive(Debug, Default, Clone, Serialize)]
pub struct Table {
    /// Sequences that were played.
    pub sequences: u64,
    /// By operation.
    pub rows: BTreeMap<String, Row>,
    /// How often each known difference was seen.
    pub differences: BTreeMap<&'static str, u64>,
}

impl Table {
    /// Counts a sequence, with all its differences.
    pub fn count(&mut self, sequence: &Sequence, differences: &[Difference]) {
        self.sequences += 1;
        for (at, step) in sequence.steps.iter().enumerate() {
            let row = self.rows.entry(step.does.clone()).or_default();
            row.total += 1;
            let here: Vec<&Difference> = differences.iter().filter(|difference| difference.step == at).collect();
            if here.is_empty() {
                row.agreed += 1;
                continue;
            }
            let all: Option<Vec<_>> = here.into_iter().map(known).collect();
            if let Some(all) = all {
                row.known += 1;
                for what in all.iter().map(|known| known.what).collect::<std::collections::BTreeSet<_>>() {
                    *self.differences.entry(what).or_default() += 1;
                }
            }
        }
    }

    /// Steps, those that agreed, and those with known differences only.
    pub fn sum(&self) -> Row {
        self.rows.values().fold(Row::default(), |sum, row| Row {
            total: sum.total + row.total,
            agreed: sum.agreed + row.agreed,
            known: sum.known + row.known,
        })
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        let mut out = String::from("| operation | agreed | of | known differences |\n|---|---:|---:|---:|\n");
        let sum = self.sum();
        let line = |name: &str, row: &Row| format!("| {name} | {} | {} | {} |\n", row.agreed, row.total, row.known);
        for (does, row) in &self.rows {
            out.push_str(&line(does, row));
        }
        out.push_str(&line(&format!("all, in {} sequences", self.sequences), &sum));
        out.push_str("\n| known difference | seen | why it stays |\n|---|---:|---|\n");
        for known in KNOWN {
            let seen = self.differences.get(known.what).copied().unwrap_or(0);
            let _ = writeln!(out, "| {} | {seen} | {} |", known.what, known.why);
        }
        out
    }
}
