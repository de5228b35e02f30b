//! The unified diff that messages about immutable fields end with: which lines are matched follows Python's `difflib`, as
//! the real server's does.
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Unchanged lines that are shown around a change.
const CONTEXT: usize = 3;
/// From so many lines on, those that are repeated often do not start a match.
const LONG: usize = 200;

/// A run of lines that both texts have: where in each, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    old: usize,
    new: usize,
    length: usize,
}

/// A stretch of both texts, either the same in both or changed.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    same: bool,
    old: (usize, usize),
    new: (usize, usize),
}

/// The difference between two texts, empty when there is none.
pub fn unified_diff(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.split('\n').collect(), new.split('\n').collect());
    let mut out = String::new();
    for hunk in hunks(&stretches(&old, &new)) {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { continue };
        let _ = writeln!(out, "@@ -{} +{} @@", range(first.old.0, last.old.1), range(first.new.0, last.new.1));
        for stretch in hunk {
            let mut lines = |sign: char, text: &[&str], (from, to): (usize, usize)| {
                for line in &text[from..to] {
                    let _ = writeln!(out, "{sign}{line}");
                }
            };
            if stretch.same {
                lines(' ', &old, stretch.old);
            } else {
                lines('-', &old, stretch.old);
                lines('+', &new, stretch.new);
            }
        }
    }
    out
}

fn range(from: usize, to: usize) -> String {
    match to - from {
        0 => format!("{from},0"),
        1 => format!("{}", from + 1),
        length => format!("{},{length}", from + 1),
    }
}

fn stretches(old: &[&str], new: &[&str]) -> Vec<Stretch> {
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, line) in new.iter().enumerate() {
        places.entry(line).or_default().push(at);
    }
    if new.len() >= LONG {
        places.retain(|_, at| at.len() <= new.len() / 100 + 1);
    }
    let mut runs = Vec::new();
    find(old, new, &places, (0, old.len()), (0, new.len()), &mut runs);
    runs.push(Run { old: old.len(), new: new.len(), length: 0 });
    let (mut i, mut j, mut out) = (0, 0, Vec::<Stretch>::new());
    for run in runs {
        if i < run.old || j < run.new {
            out.push(Stretch { same: false, old: (i, run.old), new: (j, run.new) });
        }
        (i, j) = (run.old + run.length, run.new + run.length);
        match out.last_mut() {
            Some(last) if last.same => (last.old.1, last.new.1) = (i, j),
            _ if run.length > 0 => out.push(Stretch { same: true, old: (run.old, i), new: (run.new, j) }),
            _ => {}
        }
    }
    out
}

/// The longest run first, then what is left before and after it.
fn find(
    old: &[&str],
    new: &[&str],
    places: &BTreeMap<&str, Vec<usize>>,
    (a, b): (usize, usize),
    (c, d): (usize, usize),
    runs: &mut Vec<Run>,
) {
    let mut best = Run { old: a, new: c, length: 0 };
    let mut ending: BTreeMap<usize, usize> = BTreeMap::new();
    for (i, line) in old.iter().enumerate().take(b).skip(a) {
        let mut next = BTreeMap::new();
        for &j in places.get(line).into_iter().flatten().filter(|j| (c..d).contains(*j)) {
            let length = j.checked_sub(1).and_then(|j| ending.get(&j)).unwrap_or(&0) + 1;
            next.insert(j, length);
            if length > best.length {
                best = Run { old: i + 1 - length, new: j + 1 - length, length };
            }
        }
        ending = next;
    }
    while best.old > a && best.new > c && old[best.old - 1] == new[best.new - 1] {
        best = Run { old: best.old - 1, new: best.new - 1, length: best.length + 1 };
    }
    let end = |run: Run| (run.old + run.length, run.new + run.length);
    while end(best).0 < b && end(best).1 < d && old[end(best).0] == new[end(best).1] {
        best.length += 1;
    }
    if best.length == 0 {
        return;
    }
    if a < best.old && c < best.new {
        find(old, new, places, (a, best.old), (c, best.new), runs);
    }
    runs.push(best);
    if end(best).0 < b && end(best).1 < d {
        find(old, new, places, (end(best).0, b), (end(best).1, d), runs);
    }
}

/// Changes with what is around them; what is far from any change is left out.
fn hunks(stretches: &[Stretch]) -> Vec<Vec<Stretch>> {
    let (mut out, mut hunk) = (Vec::new(), Vec::new());
    for (at, stretch) in stretches.iter().enumerate() {
        if !stretch.same {
            hunk.push(*stretch);
            continue;
        }
        let length = stretch.old.1 - stretch.old.0;
        let (first, last) = (at == 0, at + 1 == stretches.len());
        let head = Stretch {
            same: true,
            old: (stretch.old.0, stretch.old.0 + length.min(CONTEXT)),
            new: (stretch.new.0, stretch.new.0 + length.min(CONTEXT)),
        };
        let tail = Stretch {
            same: true,
            old: (stretch.old.1 - length.min(CONTEXT), stretch.old.1),
            new: (stretch.new.1 - length.min(CONTEXT), stretch.new.1),
        };
        match (first, last) {
            (true, true) => {}
            (true, false) => hunk.push(tail),
            (false, true) => hunk.push(head),
            (false, false) if length > 2 * CONTEXT => {
                hunk.push(head);
                out.push(std::mem::take(&mut hunk));
                hunk.push(tail);
            }
            (false, false) => hunk.push(*stretch),
        }
    }
    out.push(hunk);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_with_the_lines_around_it() {
        let lines = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join("\n");
        let old = lines(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]);
        for (new, shown) in [
            (vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14], ""),
            (vec![1, 0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14], "@@ -1,5 +1,5 @@\n 1\n-2\n+0\n 3\n 4\n 5\n"),
            (vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13], "@@ -11,4 +11,3 @@\n 11\n 12\n 13\n-14\n"),
            (
                vec![0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
                "@@ -1,3 +1,4 @@\n+0\n 1\n 2\n 3\n@@ -12,3 +13,4 @@\n 12\n 13\n 14\n+15\n",
            ),
        ] {
            assert_eq!(unified_diff(&old, &lines(&new)), shown);
        }
    }
}
