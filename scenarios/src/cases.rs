//! The cases: one file each under `cases/<topic>/`, named after what a user sees.
//!
//! They are read from the source tree that this program was built from. [`Case::faults`] says what is wrong with one
//! before anything runs. A topic may have a README.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Context, bail};
use etcd_operator::api::schema;
use serde_json::Value;
use sim::scenario::{ANY, Condition, Lane, Scenario, Step, Target, fill, parse_bound, place};

/// What every lane can fill in, besides the newest object.
const PLACEHOLDERS: [&str; 6] =
    ["NOW", "STORE_ENDPOINT", "STORE_USER", "STORE_PASSWORD", "ABS_ENDPOINT", "AGENT_IMAGE"];

/// The kinds as they are served: dear to derive, and asked for each condition.
static DEFINITIONS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let all = schema::custom_resource_definitions().into_iter();
    all.map(|definition| serde_json::to_value(definition).expect("a CRD serialises")).collect()
});

/// A case with where it came from.
#[derive(Clone, Debug)]
pub struct Case {
    /// What happens.
    pub scenario: Scenario,
    /// Its file's content.
    pub text: String,
    /// `topic/name`, after its file.
    pub path: String,
}

/// The directory of all cases.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases")
}

/// All cases, in order of their names.
///
/// # Errors
/// When a file cannot be read or is no scenario; the text names file and place.
pub fn all() -> anyhow::Result<Vec<Case>> {
    let mut files = Vec::new();
    collect(&directory(), &mut files)?;
    files.sort();
    files.iter().map(|file| read(file)).collect()
}

/// The cases of these names; all of them when there are none. A topic stands for all of its cases.
///
/// # Errors
/// When a name is none of a case or a topic.
pub fn chosen(names: &[String]) -> anyhow::Result<Vec<Case>> {
    let all = all()?;
    let is_meant = |case: &Case, name: &String| case.path == *name || case.path.starts_with(&format!("{name}/"));
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|case| is_meant(case, name))) {
        bail!("there is no case or topic `{unknown}`; `scenarios list` shows what there is");
    }
    let wanted = |case: &Case| names.is_empty() || names.iter().any(|name| is_meant(case, name));
    Ok(all.into_iter().filter(wanted).collect())
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let entries = fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("cannot list {}", directory.display()))?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_none_or(|ending| ending != "md") {
            files.push(path);
        }
    }
    Ok(())
}

fn read(file: &Path) -> anyhow::Result<Case> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let scenario = serde_saphyr::from_str(&text).with_context(|| format!("{} is no scenario", file.display()))?;
    let relative = file.strip_prefix(directory()).unwrap_or(file).with_extension("");
    Ok(Case { scenario, text, path: relative.to_string_lossy().into_owned() })
}

/// The documents of a manifest whose placeholders are filled.
///
/// # Errors
/// When one of them is no YAML.
pub fn documents(manifest: &str) -> anyhow::Result<Vec<Value>> {
    let parts = manifest.split("\n---").map(|part| part.trim_start_matches("---").trim());
    let parsed = parts
        .filter(|part| !part.is_empty())
        .map(|part| serde_saphyr::from_str(part).with_context(|| format!("no YAML: {part}")));
    parsed.collect()
}

impl Case {
    /// Whether it runs in a lane.
    pub fn is_in(&self, lane: Lane) -> bool {
        self.scenario.lanes.contains(&lane)
    }

    /// What is wrong with it: nothing, or sentences.
    pub fn faults(&self) -> Vec<String> {
        let scenario = &self.scenario;
        let mut faults = Vec::new();
        if scenario.name != self.path {
            faults.push(format!("its name is `{}` and its path is `{}`", scenario.name, self.path));
        }
        if scenario.about.trim().is_empty() || scenario.steps.is_empty() {
            faults.push("it must say what it is about and have steps".to_owned());
        }
        if scenario.lanes.len() < 2 && scenario.lane_note.is_none() {
            faults.push("it leaves a lane out and does not say why (`lane-note`)".to_owned());
        }
        if let Some(Err(fault)) = scenario.within.as_deref().map(parse_bound) {
            faults.push(fault);
        }
        for (index, step) in scenario.steps.iter().enumerate() {
            faults.extend(faults_of(step).into_iter().map(|fault| format!("step {}: {fault}", index + 1)));
        }
        faults
    }
}

fn faults_of(step: &Step) -> Vec<String> {
    let (mut bounds, mut conditions, mut manifests): (Vec<&str>, &[String], Vec<&str>) = (Vec::new(), &[], Vec::new());
    match step {
        Step::Apply(manifest) | Step::KubectlApply(manifest) | Step::Rejected { manifest, .. } => {
            manifests.push(manifest);
        }
        Step::Wait { until, within, .. } => (bounds, conditions) = (vec![within.as_str()], until),
        Step::Stays { conditions: stay, during, .. } => (bounds, conditions) = (vec![during.as_str()], stay),
        Step::Gone { within, .. }
        | Step::Objects { within, .. }
        | Step::Members { within, .. }
        | Step::Told { within, .. }
        | Step::Pods { within, .. }
        | Step::Serves { within, .. } => bounds.push(within),
        Step::Isolate { during, .. }
        | Step::Quiet { during }
        | Step::RebootNodes { during }
        | Step::Kubectl { during: Some(during), .. } => bounds.push(during),
        _ => {}
    }
    let newest = |prefix: &str| Ok(format!("{prefix}-newest"));
    let unusable = |manifest: &str| match fill(manifest, &PLACEHOLDERS.map(|name| (name, "value")), newest) {
        Err(fault) => Some(fault),
        Ok(filled) => documents(&filled).err().map(|error| format!("{error:#}")),
    };
    let bounds = bounds.into_iter().filter_map(|bound| parse_bound(bound).err());
    let conditions = conditions.iter().filter_map(|text| match text.parse::<Condition>() {
        Err(fault) => Some(fault),
        Ok(condition) => match step {
            Step::Wait { target, .. } | Step::Stays { target, .. } => absent(target, &condition),
            _ => None,
        },
    });
    let each_of_one = match step {
        Step::Wait { target, each: true, .. } if place(&target.name).1 != ANY => {
            Some(format!("`each` is for the name `{ANY}`, and this is `{}`", target.name))
        }
        _ => None,
    };
    bounds.chain(conditions).chain(manifests.into_iter().filter_map(unusable)).chain(each_of_one).collect()
}

/// What a condition of one of our kinds is about, and the kind does not have: it would be true, or false, for ever.
fn absent(target: &Target, condition: &Condition) -> Option<String> {
    let path: Vec<&str> = condition.path()?.collect();
    let mut kinds = DEFINITIONS.iter().filter(|definition| definition["spec"]["names"]["kind"] == target.kind);
    let schema = kinds.next()?.pointer("/spec/versions/0/schema/openAPIV3Schema")?;
    let is_there = path.first() == Some(&"metadata") || has_field(schema, &path);
    (!is_there).then(|| format!("there is no `{}` in {}", path.join("."), target.kind))
}

fn has_field(schema: &Value, path: &[&str]) -> bool {
    let Some((first, rest)) = path.split_first() else { return true };
    let below = match schema["type"].as_str() {
        Some("array") => schema.get("items").filter(|_| first.parse::<usize>().is_ok()),
        _ => schema["properties"].get(*first).or_else(|| schema.get("additionalProperties")),
    };
    below.is_some_and(|below| has_field(below, rest))
}
