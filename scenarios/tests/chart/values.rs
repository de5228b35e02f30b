//! What each value does. What the chart renders of each of the files in `ci/` is on record in `golden/`, and each of the old
//! chart's values is changed in turn: it has an effect, or `values.yaml` says that it has none.
//!
//! `UPDATE_CHART=1 cargo test -p scenarios --test chart` writes the records anew.

use serde_json::Value;
use std::path::{Path, PathBuf};

use crate::helm::{self, Values, root};

/// As `values.yaml` has them. A `*` stands for all but `spec`.
const WITHOUT_EFFECT: [&str; 5] = [
    "rbac.apiVersion",
    "backupOperator.*",
    "restoreOperator.*",
    "etcdCluster.image.tag",
    "etcdCluster.image.pullPolicy",
];

/// What is rendered, but for the definitions; `None` where there is no helm.
fn text(values: &Values) -> Option<String> {
    let answer = helm::run(&["template", "release", "--namespace", helm::NAMESPACE], values)?;
    assert!(answer.status.success(), "{values}: {}", helm::words(&answer));
    Some(String::from_utf8(answer.stdout).expect("helm writes UTF-8"))
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the switch of a generator, read by a test only")]
fn what_is_rendered_is_on_record() {
    let update = std::env::var("UPDATE_CHART").is_ok();
    for values in Values::all() {
        let Values::File(file) = &values else { continue };
        let Some(text) = text(&values) else { return };
        let record = root().join("scenarios/tests/chart/golden").join(file.file_name().expect("a file"));
        if update {
            std::fs::write(&record, &text).expect("it can be written");
        }
        let found = std::fs::read_to_string(&record).unwrap_or_default();
        let other = found.lines().zip(text.lines()).find(|(recorded, rendered)| recorded != rendered);
        assert!(
            found == text,
            "{values} renders something else ({other:?}): UPDATE_CHART=1 cargo test -p scenarios --test chart, and look"
        );
    }
}

#[test]
fn each_of_the_old_charts_values_has_an_effect_or_is_said_to_have_none() {
    let file = root().join("charts/etcd-operator/ci/old-chart-values.yaml");
    let old: Value = serde_saphyr::from_str(&read(&file)).expect("it is YAML");
    let Some(before) = text(&Values::File(file)) else { return };
    let mut leaves = Vec::new();
    collect(&old, "", &mut leaves);
    assert!(leaves.len() > 90, "all of them are set: {leaves:#?}");
    let changed = Changed::new();
    for leaf in leaves {
        let mut values = old.clone();
        change(values.pointer_mut(&leaf).expect("it is a leaf"));
        std::fs::write(&changed.0, values.to_string()).expect("it can be written");
        let Some(after) = text(&Values::File(changed.0.clone())) else { return };
        let path = leaf.trim_start_matches('/').replace('/', ".");
        assert_eq!(before == after, is_without_effect(&path), "{path}: (left: without effect, right: said to be)");
    }
}

#[test]
fn the_old_chart_had_the_same_values_for_each_operator() {
    let old: Value =
        serde_saphyr::from_str(&read(&root().join("charts/etcd-operator/ci/old-chart-values.yaml"))).expect("YAML");
    let keys = |part: &str| old[part].as_object().expect("values").keys().cloned().collect::<Vec<_>>();
    for part in ["backupOperator", "restoreOperator"] {
        let there = keys(part);
        assert!(keys("etcdOperator").iter().all(|key| there.contains(key)), "{part} has only {there:?}");
    }
}

#[test]
fn what_has_no_effect_is_said_where_values_are_looked_up_and_when_it_is_set() {
    let documented = read(&root().join("charts/etcd-operator/values.yaml"));
    for path in WITHOUT_EFFECT {
        assert!(documented.contains(&format!("#   {path}")), "values.yaml does not say that {path} has no effect");
    }
    let install = ["install", "release", "--dry-run=client", "--namespace", helm::NAMESPACE];
    let said = "of backupOperator have no effect";
    for (values, is_said) in [("backupOperator.image.tag=v0.9.4", true), ("backupOperator.spec.storageType=S3", false)]
    {
        let Some(answer) = helm::run(&install, &helm::with(values)) else { return };
        let notes = helm::words(&answer);
        assert!(answer.status.success(), "{notes}");
        assert_eq!(notes.contains(said), is_said, "{values}: {notes}");
    }
}

/// JSON pointers to all that is no object and no list.
fn collect(value: &Value, path: &str, leaves: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| collect(value, &format!("{path}/{name}"), leaves));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| collect(value, &format!("{path}/{index}"), leaves));
        }
        _ => leaves.push(path.to_owned()),
    }
}

fn change(leaf: &mut Value) {
    *leaf = match leaf {
        Value::Bool(is) => (!*is).into(),
        Value::Number(number) => (number.as_i64().expect("an integer") + 1).into(),
        Value::String(text) => format!("{text}x").into(),
        other => panic!("{other} is no leaf"),
    };
}

fn is_without_effect(path: &str) -> bool {
    WITHOUT_EFFECT.iter().any(|known| match known.strip_suffix('*') {
        Some(part) => path.strip_prefix(part).is_some_and(|value| !value.starts_with("spec.")),
        None => path == *known,
    })
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A file for values, gone with the test.
struct Changed(PathBuf);

impl Changed {
    #[expect(clippy::disallowed_methods, reason = "a test's own file lies among temporary ones")]
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("chart-test-values-{}.yaml", std::process::id())))
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
