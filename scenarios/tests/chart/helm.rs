//! Calls helm, and reads what it renders.

use scenarios::binaries;
use serde_json::Value;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

/// Where the release goes.
pub const NAMESPACE: &str = "a-namespace";
const RELEASE: &str = "release";
const VERSION: &str = "4.3.1";

/// What is given to the chart.
pub enum Values {
    /// Nothing: the defaults.
    None,
    /// One of the files in `ci/`.
    File(PathBuf),
    /// `--set`.
    Set(String),
}

impl Values {
    /// None, and each of the files.
    pub fn all() -> Vec<Self> {
        let entries = std::fs::read_dir(chart().join("ci")).expect("the chart has values to be tried with");
        let mut files: Vec<_> = entries.map(|entry| entry.expect("it is readable").path()).collect();
        files.sort();
        assert!(files.len() >= 3, "found only {files:?}");
        std::iter::once(Self::None).chain(files.into_iter().map(Self::File)).collect()
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no values"),
            Self::File(path) => f.write_str(&path.file_name().unwrap_or_default().to_string_lossy()),
            Self::Set(values) => f.write_str(values),
        }
    }
}

/// `--set` of these.
pub fn with(values: &str) -> Values {
    Values::Set(values.to_owned())
}

/// The rendered objects; `None`, and a word of it, where there is no helm and none can be built.
pub fn rendered(values: &Values) -> Option<Vec<Value>> {
    let answer = template(values)?;
    assert!(answer.status.success(), "{values}: {}", words(&answer));
    let text = String::from_utf8(answer.stdout).expect("helm writes UTF-8");
    let documents = text.split("\n---").filter(|document| document.lines().any(is_content));
    let read = |document: &str| {
        let document = document.trim_start_matches("---");
        serde_saphyr::from_str(document).unwrap_or_else(|error| panic!("{values}: {error}\n{document}"))
    };
    Some(documents.map(read).collect())
}

fn is_content(line: &str) -> bool {
    !line.trim().is_empty() && !line.starts_with('#') && line.trim() != "---"
}

/// `helm template`, definitions included.
pub fn template(values: &Values) -> Option<Output> {
    run(&["template", RELEASE, "--namespace", NAMESPACE, "--include-crds"], values)
}

/// helm with these arguments, the values and the chart.
#[expect(clippy::disallowed_methods, reason = "a test's own folder lies among temporary ones")]
pub fn run(arguments: &[&str], values: &Values) -> Option<Output> {
    let program = HELM.as_deref()?;
    // What it keeps for itself goes where it hurts nobody; it is never to talk to a cluster.
    let home = std::env::temp_dir().join(format!("chart-test-helm-{}", std::process::id()));
    let mut command = Command::new(program);
    for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(variable, &home);
    }
    command.env("KUBECONFIG", "/dev/null").args(arguments);
    match values {
        Values::None => {}
        Values::File(path) => drop(command.arg("--values").arg(path)),
        Values::Set(values) => drop(command.arg("--set").arg(values)),
    }
    let output = command.arg(chart()).output().expect("it runs: its version was asked when it was built");
    let _ = std::fs::remove_dir_all(home);
    Some(output)
}

/// All that it said.
pub fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// `kind` of an object.
pub fn kind(object: &Value) -> String {
    object["kind"].as_str().unwrap_or_default().to_owned()
}

/// The objects of one kind.
pub fn of_kind<'a>(objects: &'a [Value], wanted: &'a str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| kind(object) == wanted)
}

/// The root of the tree.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate is a folder of the workspace")
}

fn chart() -> PathBuf {
    root().join("charts/etcd-operator")
}

static HELM: LazyLock<Option<PathBuf>> =
    LazyLock::new(|| match binaries::locate("helm", VERSION, &|sentence| println!("{sentence}")) {
        Ok(installed) => Some(installed.program("helm").expect("the package is this program").to_owned()),
        Err(error) if error.is_want_of_go() => {
            println!("SKIPPED: {error}; nothing was checked");
            None
        }
        Err(error) => panic!("{error}"),
    });
