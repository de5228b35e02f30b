//! A reason that is declared and that nothing ever gives is a promise to users that is not kept.

use crate::sources::{Source, code};

/// Where the reasons of all conditions are declared.
pub const DECLARED_IN: &str = "operator/src/api/conditions/reason.rs";

/// Reasons that no code of the operator mentions, under the name of their enum or one that an import gives it.
pub fn never_produced(declared: &Source, sources: &[Source]) -> Vec<String> {
    let is_code = |source: &&Source| {
        source.path.starts_with("operator/src/")
            && source.path.ends_with(".rs")
            && source.path != declared.path
            && !source.is_test()
    };
    let files: Vec<String> = sources.iter().filter(is_code).map(|source| code(&source.text)).collect();
    let mut wrong = Vec::new();
    for (line, name, reason) in reasons(&declared.text) {
        let is_given = |file: &String| {
            file.contains(&name)
                && names_of(&name, file).iter().any(|name| mentions(file, &format!("{name}::{reason}")))
        };
        if !files.iter().any(is_given) {
            wrong.push(declared.at(line, format!("`{name}::{reason}` is produced nowhere")));
        }
    }
    wrong
}

/// Line, enum and variant of each.
fn reasons(text: &str) -> Vec<(usize, String, String)> {
    let mut found = Vec::new();
    let mut name = None;
    for (at, line) in code(text).lines().enumerate() {
        let word = line.trim();
        if let Some(opened) = word.strip_suffix(" {").filter(|opened| opened.ends_with("Reason")) {
            name = Some(opened.to_owned());
        } else if let (Some(name), Some(variant)) = (&name, word.strip_suffix(',')) {
            found.push((at + 1, name.clone(), variant.to_owned()));
        }
    }
    found
}

/// The enum's own name in a file, and the one that it is imported as.
fn names_of(name: &str, file: &str) -> Vec<String> {
    let renamed = format!("{name} as ");
    let word = |rest: &str| rest.chars().take_while(|letter| letter.is_alphanumeric()).collect::<String>();
    let other = file.split(&renamed).skip(1).map(word);
    std::iter::once(name.to_owned()).chain(other).collect()
}

/// Whether the path is in the file, and not only the beginning or the end of another one.
fn mentions(file: &str, path: &str) -> bool {
    let in_word = |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    file.match_indices(path)
        .any(|(at, _)| !in_word(file[..at].chars().next_back()) && !in_word(file[at + path.len()..].chars().next()))
}

#[test]
fn a_reason_that_only_tests_and_other_enums_mention_is_found() {
    let declared = "reasons! {\n    /// Doc.\n    AReason {\n        /// One.\n        One,\n        /// Two.\n        \
                    Two,\n        Three,\n    }\n}\n";
    let declared = Source::of(DECLARED_IN, declared);
    let sources = [
        Source::of("operator/src/a.rs", "use x::AReason as Why;\nfn f() { Why::One; BReason::Two; }\n"),
        Source::of("operator/src/b.rs", "fn f() { AReason::Twofold; }\n#[cfg(test)]\nmod t { use AReason::Two; }\n"),
        Source::of("operator/src/b/tests.rs", "fn f() { AReason::Three; }\n"),
        Source::of("operator/src/c.rs", "use x::BReason as Why;\nfn f() { Why::Three; AReason::Three_; }\n"),
    ];
    let wrong = never_produced(&declared, &sources);
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    assert!(wrong[0].contains(":7: `AReason::Two`") && wrong[1].contains("`AReason::Three`"), "{wrong:?}");
}
