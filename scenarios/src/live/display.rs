//! What somebody who watches a case sees: nothing, plain lines, or on a terminal a table of the members that is drawn
//! again under what was said before.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing.
    Silent,
    /// Lines, each once.
    Plain,
    /// Lines, and a table that is drawn again and again.
    Terminal,
}

impl Mode {
    /// For somebody who watches: by what standard output is.
    pub fn for_watching() -> Self {
        if std::io::stdout().is_terminal() { Self::Terminal } else { Self::Plain }
    }
}

/// A member of a cluster, as the table shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Name of its pod.
    pub pod: String,
    /// `leader`, `voter`, `learner`, or empty when etcd does not list it.
    pub role: String,
    /// Whether the pod is ready, or what it is instead.
    pub state: String,
    /// Restarts of its container.
    pub restarts: i64,
    /// Its version.
    pub version: String,
    /// Revision of its key space.
    pub revision: String,
}

/// The display of one case.
#[derive(Debug)]
pub struct Display {
    mode: Mode,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    started: Instant,
    phases: Vec<(String, Instant)>,
    step: Option<(String, Instant)>,
    rows: Vec<Row>,
    drawn: usize,
}

impl Display {
    /// Shows as much as the mode says.
    pub fn new(mode: Mode) -> Self {
        let inner = Inner { started: Instant::now(), phases: Vec::new(), step: None, rows: Vec::new(), drawn: 0 };
        Self { mode, inner: Mutex::new(inner) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // What a panic left is at worst drawn twice.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anybody sees it.
    pub fn is_watched(&self) -> bool {
        self.mode != Mode::Silent
    }

    /// Whether there is a table.
    pub fn has_table(&self) -> bool {
        self.mode == Mode::Terminal
    }

    /// A headline; from now on time counts for it.
    pub fn phase(&self, name: &str) {
        let mut inner = self.inner();
        inner.phases.push((name.to_owned(), Instant::now()));
        self.say(&mut inner, &format!("\n== {name}"));
    }

    /// A step begins.
    pub fn step(&self, sentence: &str) {
        let mut inner = self.inner();
        inner.step = Some((sentence.to_owned(), Instant::now()));
        self.draw(&mut inner);
    }

    /// The step that began last is done; `note` is what came of it.
    pub fn step_done(&self, note: &str) {
        let mut inner = self.inner();
        if let Some((sentence, since)) = inner.step.take() {
            let note = if note.is_empty() { String::new() } else { format!(": {note}") };
            self.say(&mut inner, &format!("   {:>6}  {sentence}{note}", seconds(since.elapsed())));
        }
    }

    /// Several lines as they are.
    pub fn block(&self, text: &str) {
        let mut inner = self.inner();
        inner.step = None;
        let indented: Vec<String> =
            text.lines().map(|line| format!("             {line}").trim_end().to_owned()).collect();
        self.say(&mut inner, &indented.join("\n"));
    }

    /// The members as they are now.
    pub fn table(&self, rows: Vec<Row>) {
        let mut inner = self.inner();
        inner.rows = rows;
        self.draw(&mut inner);
    }

    /// The end: times per phase.
    pub fn summary(&self) {
        let mut inner = self.inner();
        (inner.step, inner.rows) = (None, Vec::new());
        let now = Instant::now();
        let ends = inner.phases.iter().skip(1).map(|(_, start)| *start).chain([now]);
        let mut lines: Vec<String> = inner
            .phases
            .iter()
            .zip(ends)
            .map(|((name, start), end)| format!("   {name:<62}{:>8}", seconds(end - *start)))
            .collect();
        lines.push(format!(
            "   {:<62}{:>8}",
            "all of it, with the start of the API, the store and the operator",
            seconds(now - inner.started)
        ));
        self.say(&mut inner, &format!("\n== Times\n{}", lines.join("\n")));
    }

    fn say(&self, inner: &mut Inner, text: &str) {
        if self.mode == Mode::Silent {
            return;
        }
        let mut out = std::io::stdout().lock();
        let erase = erase(std::mem::take(&mut inner.drawn));
        // Nobody listens any more: the case goes on all the same.
        let _ = writeln!(out, "{erase}{text}");
        drop(out);
        self.draw(inner);
    }

    fn draw(&self, inner: &mut Inner) {
        if self.mode != Mode::Terminal {
            return;
        }
        let mut lines = Vec::new();
        if !inner.rows.is_empty() {
            lines.push(String::new());
            lines.push(format!(
                "   {:<26}{:<9}{:<20}{:>8}  {:<9}{:>9}",
                "MEMBER", "ROLE", "POD", "RESTARTS", "VERSION", "REVISION"
            ));
            lines.extend(inner.rows.iter().map(|row| {
                let Row { pod, role, state, restarts, version, revision } = row;
                format!("   {pod:<26}{role:<9}{state:<20}{restarts:>8}  {version:<9}{revision:>9}")
            }));
        }
        if let Some((sentence, since)) = &inner.step {
            let first = sentence.lines().next().unwrap_or_default();
            lines.push(format!("   {:>6}  {:.100} ...", seconds(since.elapsed()), first));
        }
        let mut out = std::io::stdout().lock();
        // A line that is too long is cut by the terminal: wrapped, it would be two to erase.
        let _ = write!(out, "{}\x1b[?7l", erase(inner.drawn));
        for line in &lines {
            let _ = writeln!(out, "{line}");
        }
        let _ = write!(out, "\x1b[?7h");
        let _ = out.flush();
        inner.drawn = lines.len();
    }
}

/// Moves up over so many lines and clears what is below.
fn erase(lines: usize) -> String {
    if lines == 0 { String::new() } else { format!("\x1b[{lines}A\x1b[J") }
}

/// A time for people: `4.2 s`.
pub fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
