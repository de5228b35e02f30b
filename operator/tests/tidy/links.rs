//! Links in Markdown: relative files exist, anchors are headings. Links to other hosts are not followed.

use std::path::{Component, Path};

use crate::sources::{Source, root};

/// Links of this document that lead nowhere.
pub fn dead_links(source: &Source, all: &[Source]) -> Vec<String> {
    let exists = |path: &str| root().join(path).exists();
    let document = |path: &str| all.iter().find(|source| source.path == path).map(|source| source.text.as_str());
    dead_links_in(source, exists, document)
}

fn dead_links_in<'a>(
    source: &'a Source,
    exists: impl Fn(&str) -> bool,
    document: impl Fn(&str) -> Option<&'a str>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for (line, target) in links(&source.text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
        let path = if file.is_empty() { Some(source.path.clone()) } else { resolve(&source.path, file) };
        match path.filter(|path| exists(path)) {
            None => wrong.push(source.at(line, format!("`{target}` is not there"))),
            Some(path) => {
                let text = if path == source.path { Some(source.text.as_str()) } else { document(&path) };
                let is_heading = |anchor: &str| text.is_some_and(|text| anchors(text).iter().any(|a| a == anchor));
                if anchor.is_some_and(|anchor| path.ends_with(".md") && !is_heading(anchor)) {
                    wrong.push(source.at(line, format!("`{target}`: {path} has no such heading")));
                }
            }
        }
    }
    wrong
}

/// Targets of `[text](target)`, outside of code.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        for (at, _) in line.match_indices("](") {
            let in_code = line[..at].matches('`').count() % 2 == 1;
            let rest = &line[at + 2..];
            if let Some(end) = rest.find(')').filter(|_| !in_code) {
                found.push((number, rest[..end].split_whitespace().next().unwrap_or_default()));
            }
        }
    }
    found
}

/// The lines outside of fenced blocks.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((number + 1, line))
    })
}

/// The anchors that a forge gives to the headings.
fn anchors(text: &str) -> Vec<String> {
    let headings = prose(text).filter_map(|(_, line)| {
        let heading = line.trim_start_matches('#');
        (heading.len() < line.len() && heading.starts_with(' ')).then(|| heading.trim().to_lowercase())
    });
    let anchor = |heading: String| -> String {
        let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
        kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
    };
    headings.map(anchor).collect()
}

/// The target as a path from the root; `None` when it leaves the tree.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut path: Vec<&str> = if target.starts_with('/') {
        Vec::new()
    } else {
        from.split('/').collect::<Vec<_>>().split_last().map(|(_, folders)| folders.to_vec()).unwrap_or_default()
    };
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => {
                path.pop()?;
            }
            Component::Normal(name) => path.push(name.to_str()?),
            _ => {}
        }
    }
    Some(path.join("/"))
}

#[test]
fn a_dead_link_is_caught() {
    let text = "# A title, of `sorts`\n[a](b.md) [c](../up.md#the-part) [d](#a-title-of-sorts) [e](https://example.com/x)\n\
                ```\n[f](in-code.md)\n```\n`[g](h.md)`\n";
    let source = Source::of("docs/a.md", text);
    let there = ["docs/a.md", "docs/b.md", "up.md"];
    let up = "## The part\n";
    let dead = |there: &[&str], up: &'static str| {
        dead_links_in(&source, |path| there.contains(&path), |path| (path == "up.md").then_some(up))
    };
    assert_eq!(dead(&there, up), Vec::<String>::new());
    assert_eq!(dead(&there[..2], up).len(), 1);
    assert_eq!(dead(&there, "## Another part\n").len(), 1);
    assert_eq!(dead(&["docs/a.md"], up).len(), 2);
    let own = Source::of("a.md", "# Title\n[x](#titel)\n");
    assert_eq!(dead_links_in(&own, |_| true, |_| None).len(), 1);
    let out = Source::of("a.md", "[x](../outside.md)\n");
    assert_eq!(dead_links_in(&out, |_| true, |_| None).len(), 1);
}
