//! Security contexts of pods and containers.
use std::collections::BTreeSet;

use serde_json::Value;

use super::checks::{Faults, items, text};
use super::pod_volumes::check_relative;

const HIGHEST: i64 = i32::MAX as i64;
const PROFILES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];

fn check_id(faults: &mut Faults, at: String, id: &Value) {
    if let Some(id) = id.as_i64() {
        faults.within(at, id, 0, HIGHEST);
    }
}

/// Checks the context of a pod.
pub fn check_pod(faults: &mut Faults, at: &str, spec: &Value) {
    let context = &spec["securityContext"];
    let here = format!("{at}.securityContext");
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        check_id(faults, format!("{here}.{field}"), &context[field]);
    }
    for (i, group) in items(&context["supplementalGroups"]) {
        check_id(faults, format!("{here}.supplementalGroups[{i}]"), group);
    }
    if spec["shareProcessNamespace"] == true && spec["hostPID"] == true {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        faults.invalid(format!("{here}.shareProcessNamespace"), true, why);
    }
    check_sysctls(faults, &format!("{here}.sysctls"), spec);
    if !context["fsGroupChangePolicy"].is_null() {
        let at = format!("{here}.fsGroupChangePolicy");
        faults.one_of(at, &context["fsGroupChangePolicy"], &["Always", "OnRootMismatch"]);
    }
    check_seccomp(faults, &format!("{here}.seccompProfile"), &context["seccompProfile"]);
    check_app_armor(faults, &format!("{here}.appArmorProfile"), &context["appArmorProfile"]);
    if !context["supplementalGroupsPolicy"].is_null() {
        let at = format!("{here}.supplementalGroupsPolicy");
        faults.one_of(at, &context["supplementalGroupsPolicy"], &["Merge", "Strict"]);
    }
    if !context["seLinuxChangePolicy"].is_null() {
        faults.one_of(format!("{here}.seLinuxChangePolicy"), &context["seLinuxChangePolicy"], &["Recursive"]);
    }
}

fn check_sysctls(faults: &mut Faults, at: &str, spec: &Value) {
    const SHAPE: &str = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
    const OF_IPC: &[&str] =
        &["kernel.shmall", "kernel.shmmax", "kernel.shmmni", "kernel.shm_rmid_forced", "kernel.sem"];
    let mut names = BTreeSet::new();
    for (i, sysctl) in items(&spec["securityContext"]["sysctls"]) {
        let (at, name) = (format!("{at}[{i}].name"), text(&sysctl["name"]));
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let segment = |s: &str| {
            let bytes = s.as_bytes();
            let ends = bytes.first().is_some_and(|b| plain(*b)) && bytes.last().is_some_and(|b| plain(*b));
            ends && bytes.iter().all(|b| plain(*b) || b"-_".contains(b))
        };
        if name.is_empty() {
            faults.required(&at, "");
        } else if name.len() > 253 || !name.split(['.', '/']).all(segment) {
            faults.invalid(&at, name, format!("must have at most 253 characters and match regex {SHAPE}"));
        } else if names.contains(name) {
            faults.duplicate(&at, name);
        }
        let dotted = name.replace('/', ".");
        if spec["hostNetwork"] == true && dotted.starts_with("net.") {
            faults.invalid(&at, name, "may not be specified when 'hostNetwork' is true");
        }
        let ipc =
            OF_IPC.contains(&dotted.as_str()) || ["kernel.msg", "fs.mqueue."].iter().any(|p| dotted.starts_with(p));
        if spec["hostIPC"] == true && ipc {
            faults.invalid(&at, name, "may not be specified when 'hostIPC' is true");
        }
        names.insert(name);
    }
}

fn check_seccomp(faults: &mut Faults, at: &str, profile: &Value) {
    if profile.is_null() {
        return;
    }
    check_profile_type(faults, format!("{at}.type"), profile, "seccompProfile");
    let (local, at) = (&profile["localhostProfile"], format!("{at}.localhostProfile"));
    match (profile["type"] == "Localhost", local.as_str()) {
        (true, None) => faults.required(at, "must be set when seccomp type is Localhost"),
        (true, Some(path)) => check_relative(faults, &at, path),
        (false, Some(path)) => {
            let kind = text(&profile["type"]);
            let shown = format!("{{\"Type\":{kind:?},\"LocalhostProfile\":{path:?}}}");
            let why = "can only be set when seccomp type is Localhost";
            faults.0.push(crate::server::FieldError::invalid(at, Value::Null, why).printed(shown));
        }
        (false, None) => {}
    }
}

fn check_profile_type(faults: &mut Faults, at: String, profile: &Value, named: &str) {
    if text(&profile["type"]).is_empty() {
        faults.required(at, &format!("type is required when {named} is set"));
    } else {
        faults.one_of(at, &profile["type"], PROFILES);
    }
}

fn check_app_armor(faults: &mut Faults, at: &str, profile: &Value) {
    if profile.is_null() {
        return;
    }
    let (local, here) = (&profile["localhostProfile"], format!("{at}.localhostProfile"));
    let needed = "must be set when AppArmor type is Localhost";
    match (text(&profile["type"]), local.as_str()) {
        ("Localhost", None | Some("")) => faults.required(here, needed),
        ("Localhost", Some(name)) => {
            if name.trim() != name {
                faults.invalid(&here, name, "must not be padded with whitespace");
            }
            if name.len() > 4095 {
                faults.too_long(here, 4095);
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(name)) => {
            faults.invalid(here, name, "can only be set when AppArmor type is Localhost");
        }
        ("RuntimeDefault" | "Unconfined", None) => {}
        _ => check_profile_type(faults, format!("{at}.type"), profile, "appArmorProfile"),
    }
}

/// Checks the context of a container.
pub fn check_container(faults: &mut Faults, at: &str, context: &Value, spec: &Value) {
    if context.is_null() {
        return;
    }
    for field in ["runAsUser", "runAsGroup"] {
        check_id(faults, format!("{at}.{field}"), &context[field]);
    }
    let mount = &context["procMount"];
    if !mount.is_null() {
        faults.one_of(format!("{at}.procMount"), mount, &["Default", "Unmasked"]);
        if mount == "Unmasked" && spec["hostUsers"] != false {
            let why = "`hostUsers` must be false to use `Unmasked`";
            faults.invalid(format!("{at}.procMount"), mount.clone(), why);
        }
    }
    check_seccomp(faults, &format!("{at}.seccompProfile"), &context["seccompProfile"]);
    if context["allowPrivilegeEscalation"] == false {
        let keeps = "cannot set `allowPrivilegeEscalation` to false and";
        if context["privileged"] == true {
            faults.invalid(at, context.clone(), format!("{keeps} `privileged` to true"));
        }
        for _ in items(&context["capabilities"]["add"]).filter(|(_, c)| *c == "CAP_SYS_ADMIN") {
            faults.invalid(at, context.clone(), format!("{keeps} `capabilities.Add` CAP_SYS_ADMIN"));
        }
    }
    check_app_armor(faults, &format!("{at}.appArmorProfile"), &context["appArmorProfile"]);
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "JSON is written where it is passed")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn contexts_are_checked() {
        let said = |context: Value| {
            let mut faults = Faults::default();
            check_pod(&mut faults, "spec", &json!({"securityContext": context}));
            faults.0.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let nothing: [&str; 0] = [];
        assert_eq!(said(json!({"runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}})), nothing);
        assert_eq!(
            said(json!({"fsGroup": -1})),
            ["spec.securityContext.fsGroup: Invalid value: -1: must be between 0 and 2147483647, inclusive"]
        );
        assert_eq!(
            said(json!({"seccompProfile": {"type": "Odd"}})),
            [
                "spec.securityContext.seccompProfile.type: Unsupported value: \"Odd\": supported values: \"Localhost\", \"RuntimeDefault\", \"Unconfined\""
            ]
        );
    }
}
