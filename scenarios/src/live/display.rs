//! What somebody who watches a case sees: nothing, plain lines, or on a terminal a table of the members that is drawn
//! again under what was said before.

use std::fmt::{self, Debug, Formatter};
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
pub struct Display {
    mode: Mode,
    /// How long it has been there.
    age: Box<dyn Fn() -> Duration + Send + Sync>,
    inner: Mutex<Inner>,
}

impl Debug for Display {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Display").field("mode", &self.mode).finish_non_exhaustive()
    }
}

struct Inner {
    out: Box<dyn Write + Send>,
    /// Headlines, and the display's age at each.
    phases: Vec<(String, Duration)>,
    step: Option<(String, Duration)>,
    rows: Vec<Row>,
    drawn: usize,
}

impl Display {
    /// Shows as much as the mode says, on standard output.
    pub fn new(mode: Mode) -> Self {
        let started = Instant::now();
        Self::on(Box::new(std::io::stdout()), mode, Box::new(move || started.elapsed()))
    }

    fn on(out: Box<dyn Write + Send>, mode: Mode, age: Box<dyn Fn() -> Duration + Send + Sync>) -> Self {
        let inner = Inner { out, phases: Vec::new(), step: None, rows: Vec::new(), drawn: 0 };
        Self { mode, age, inner: Mutex::new(inner) }
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
        inner.phases.push((name.to_owned(), (self.age)()));
        self.say(&mut inner, &format!("\n== {name}"));
    }

    /// A step begins.
    pub fn step(&self, sentence: &str) {
        let mut inner = self.inner();
        inner.step = Some((sentence.to_owned(), (self.age)()));
        self.draw(&mut inner);
    }

    /// The step that began last is done; `note` is what came of it.
    pub fn step_done(&self, note: &str) {
        let mut inner = self.inner();
        if let Some((sentence, since)) = inner.step.take() {
            let note = if note.is_empty() { String::new() } else { format!(": {note}") };
            self.say(&mut inner, &format!("   {:>6}  {sentence}{note}", seconds((self.age)() - since)));
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
        let now = (self.age)();
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
            seconds(now)
        ));
        self.say(&mut inner, &format!("\n== Times\n{}", lines.join("\n")));
    }

    fn say(&self, inner: &mut Inner, text: &str) {
        if self.mode == Mode::Silent {
            return;
        }
        let erase = erase(std::mem::take(&mut inner.drawn));
        // Nobody listens any more: the case goes on all the same.
        let _ = writeln!(inner.out, "{erase}{text}");
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
            lines.push(format!("   {:>6}  {:.100} ...", seconds((self.age)() - *since), first));
        }
        let Inner { out, drawn, .. } = inner;
        // A line that is too long is cut by the terminal: wrapped, it would be two to erase.
        let _ = write!(out, "{}\x1b[?7l", erase(*drawn));
        for line in &lines {
            let _ = writeln!(out, "{line}");
        }
        let _ = write!(out, "\x1b[?7h");
        let _ = out.flush();
        *drawn = lines.len();
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// What was written so far.
    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("nobody panics here").extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Paper {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().expect("nobody panics here").clone()).expect("text")
        }
    }

    /// A display of a short case, in which each step takes a second and a half.
    fn shown(mode: Mode, end: impl FnOnce(&Display)) -> String {
        let (paper, millis) = (Paper::default(), Arc::new(AtomicU64::new(0)));
        let clock = millis.clone();
        let age = Box::new(move || Duration::from_millis(clock.load(Ordering::Relaxed)));
        let display = Display::on(Box::new(paper.clone()), mode, age);
        let pass = || millis.fetch_add(1500, Ordering::Relaxed);
        display.phase("Something begins");
        display.step("do this");
        pass();
        display.step_done("");
        display.step("look: kubectl get etcd");
        display.block("$ kubectl get etcd\nNAME   SIZE\ndemo   3");
        display.phase("It ends");
        display.step("do that");
        let row = Row { pod: "demo-a".to_owned(), role: "leader".to_owned(), ..Row::default() };
        display.table(vec![row]);
        pass();
        display.step_done("done");
        end(&display);
        paper.text()
    }

    #[test]
    fn plain_lines_come_once_each_and_end_with_a_summary_of_times() {
        let wanted = "
== Something begins
    1.5 s  do this
             $ kubectl get etcd
             NAME   SIZE
             demo   3

== It ends
    1.5 s  do that: done

== Times
   Something begins                                                 1.5 s
   It ends                                                          1.5 s
   all of it, with the start of the API, the store and the operator   3.0 s
";
        assert_eq!(shown(Mode::Plain, Display::summary), wanted);
    }

    #[test]
    fn nobody_is_told_anything_when_nobody_watches() {
        assert_eq!(shown(Mode::Silent, Display::summary), "");
    }

    #[test]
    fn on_a_terminal_nothing_but_the_plain_lines_stays() {
        let written = shown(Mode::Terminal, Display::summary);
        assert!(written.contains("MEMBER") && written.contains("demo-a"), "there was a table:\n{written}");
        assert_eq!(on_screen(&written), shown(Mode::Plain, Display::summary));
    }

    #[test]
    fn on_a_terminal_the_step_under_way_is_below_the_table() {
        let written = shown(Mode::Terminal, |display| display.step("and more"));
        let screen = on_screen(&written);
        let (table, step) = (screen.find("demo-a"), screen.find("0.0 s  and more ..."));
        assert!(table.is_some() && table < step, "{screen}");
    }

    /// What a terminal shows after all of this: lines, cursor up, and clear to the end.
    fn on_screen(written: &str) -> String {
        let text = written.replace("\x1b[?7l", "").replace("\x1b[?7h", "");
        let mut lines: Vec<&str> = Vec::new();
        for (index, part) in text.split("\x1b[").enumerate() {
            let mut rest = part;
            if let Some((up, after)) = part.split_once('A').filter(|_| index > 0)
                && let Ok(up) = up.parse::<usize>()
            {
                lines.truncate(lines.len() - up);
                rest = after;
            } else if index > 0 {
                rest = part.strip_prefix('J').expect("no other sequence is known");
            }
            lines.extend(rest.split_terminator('\n'));
        }
        lines.iter().map(|line| format!("{line}\n")).collect()
    }
}
