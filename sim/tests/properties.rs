//! Each property that a failing seed can name is in the README, and each one there is checked.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// `S1` or `L12`.
fn is_property(word: &str) -> bool {
    let number = word.strip_prefix(['S', 'L']);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// String literals that are names of properties, in the sources under a folder.
fn named_in(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("it is there") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            named_in(&path, found);
        } else {
            let text = fs::read_to_string(&path).expect("a source");
            found.extend(text.split('"').filter(|literal| is_property(literal)).map(str::to_owned));
        }
    }
}

#[test]
fn properties_that_seeds_name_are_those_of_the_readme() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(here.join("README.md")).expect("it is there");
    let rows = readme.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next());
    let listed: BTreeSet<String> = rows.filter(|word| is_property(word)).map(str::to_owned).collect();
    let mut named = BTreeSet::new();
    named_in(&here.join("src"), &mut named);
    assert_eq!(named, listed);
}
