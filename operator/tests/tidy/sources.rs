//! The files of the tree, and Rust text without what the compiler does not read.

use std::fs;
use std::path::{Path, PathBuf};

/// One text file.
#[derive(Debug)]
pub struct Source {
    /// Path from the root of the tree, with `/`.
    pub path: String,
    /// Content.
    pub text: String,
}

impl Source {
    /// For the rules' own tests.
    pub fn of(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// Tests in a file of their own.
    pub fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.contains("/tests/")
    }

    /// What to say of a line.
    pub fn at(&self, line: usize, what: impl std::fmt::Display) -> String {
        format!("{}:{line}: {what}", self.path)
    }
}

/// The root of the tree.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate is a folder of the workspace").to_owned()
}

/// All text files of the tree: what is under the top-level folders that we have, build output aside.
pub fn sources() -> Vec<Source> {
    let root = root();
    let mut sources = Vec::new();
    collect(&root, &root, &mut sources);
    sources.sort_by(|one, other| one.path.cmp(&other.path));
    sources
}

fn collect(root: &Path, folder: &Path, into: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).expect("the tree is readable") {
        let entry = entry.expect("the tree is readable");
        let (path, name) = (entry.path(), entry.file_name());
        let kind = entry.file_type().expect("the tree is readable");
        if kind.is_dir() {
            if name != "target" && name != ".git" {
                collect(root, &path, into);
            }
        } else if kind.is_file() && name != ".git" {
            let relative = path.strip_prefix(root).expect("it is below the root").to_string_lossy().replace('\\', "/");
            if let Ok(text) = fs::read_to_string(&path) {
                into.push(Source { path: relative, text });
            }
        }
    }
}

/// Rust with comments, strings and `#[cfg(test)]` modules blanked out; every line keeps its number.
pub fn code(text: &str) -> String {
    without_test_modules(&without_comments_and_strings(text))
}

fn without_comments_and_strings(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < letters.len() {
        let end = end_of_blank(&letters, at).unwrap_or(at);
        if end == at {
            code.push(letters[at]);
            at += 1;
        } else {
            code.extend(letters[at..end].iter().map(|letter| if *letter == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    code
}

/// Where the comment or literal that starts here ends; `None` when none starts here.
fn end_of_blank(letters: &[char], at: usize) -> Option<usize> {
    let starts = |what: &str| what.chars().enumerate().all(|(i, letter)| letters.get(at + i) == Some(&letter));
    let in_word = at > 0 && (letters[at - 1].is_alphanumeric() || letters[at - 1] == '_');
    if starts("//") {
        return Some((at..letters.len()).find(|&i| letters[i] == '\n').unwrap_or(letters.len()));
    }
    if starts("/*") {
        let mut depth = 0;
        let mut i = at;
        while i + 1 < letters.len() {
            match (letters[i], letters[i + 1]) {
                ('/', '*') => (depth, i) = (depth + 1, i + 2),
                ('*', '/') => (depth, i) = (depth - 1, i + 2),
                _ => i += 1,
            }
            if depth == 0 {
                return Some(i);
            }
        }
        return Some(letters.len());
    }
    if starts("r\"") || starts("r#") && !in_word {
        let hashes = letters[at + 1..].iter().take_while(|letter| **letter == '#').count();
        let open = at + 1 + hashes;
        if letters.get(open) != Some(&'"') {
            return None;
        }
        let closes =
            |i: &usize| letters[*i] == '"' && letters[i + 1..].iter().take_while(|l| **l == '#').count() >= hashes;
        return Some((open + 1..letters.len()).find(closes).map_or(letters.len(), |i| i + 1 + hashes));
    }
    if starts("\"") {
        let mut i = at + 1;
        while i < letters.len() && letters[i] != '"' {
            i += if letters[i] == '\\' { 2 } else { 1 };
        }
        return Some((i + 1).min(letters.len()));
    }
    if starts("'") {
        // 'x' and '\n' are literals; 'a without a closing quote is a lifetime.
        if letters.get(at + 1) == Some(&'\\') {
            return (at + 3..letters.len()).find(|&i| letters[i] == '\'').map(|i| i + 1);
        }
        return (letters.get(at + 2) == Some(&'\'')).then_some(at + 3);
    }
    None
}

/// Takes code without comments and strings.
fn without_test_modules(code: &str) -> String {
    let mut code = code.to_owned();
    let mut from = 0;
    while let Some(found) = code[from..].find("#[cfg(test)]") {
        let start = from + found;
        let rest = code[start + "#[cfg(test)]".len()..].trim_start();
        let opens = code[start..].find('{').map(|i| start + i);
        let is_module = rest.starts_with("mod ") || rest.starts_with("pub mod ") || rest.starts_with("#[allow");
        let ends = code[start..].find(';').map_or(usize::MAX, |i| start + i);
        from = start + 1;
        let Some(open) = opens.filter(|open| is_module && *open < ends) else { continue };
        let mut depth = 0;
        let close = code[open..].char_indices().find_map(|(i, letter)| {
            depth += i32::from(letter == '{') - i32::from(letter == '}');
            (depth == 0).then_some(open + i + 1)
        });
        let close = close.unwrap_or(code.len());
        let blank: String = code[start..close].chars().map(|l| if l == '\n' { '\n' } else { ' ' }).collect();
        code.replace_range(start..close, &blank);
    }
    code
}

#[test]
fn comments_strings_and_test_modules_are_not_code() {
    let text = "use a; // crate::x\n/* crate::y /* */ */ let s = \"crate::z \\\" {\"; let r = r#\"\"crate::q\"\"#;\n\
                fn f<'a>(c: char) { c == '{' }\n#[cfg(test)]\nmod tests { use crate::t; fn g() {} }\nfn h() {}\n";
    let code = code(text);
    assert!(!code.contains("crate"), "{code}");
    assert!(code.contains("fn f<'a>(c: char)") && code.contains("fn h() {}"), "{code}");
    assert_eq!(code.lines().count(), text.lines().count());
}

#[test]
fn a_test_only_item_that_is_no_module_hides_nothing() {
    let code = code("#[cfg(test)]\nuse crate::x;\nmod real { use crate::y; }\n");
    assert!(code.contains("crate::y"), "{code}");
}
