//! What pods and containers ask for and are limited to.
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::checks::{Faults, items, text};
use crate::server::metadata::qualified_name_fault;
use crate::server::quantities::Quantity;

const HUGE_PAGES: &str = "hugepages-";
const COUNTED: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
const STANDARD: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

/// Is the resource one of Kubernetes' own?
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && qualified_name_fault(&format!("requests.{name}")).is_none()
}

/// Does it come in whole numbers only?
pub fn is_counted(name: &str) -> bool {
    COUNTED.contains(&name) || is_extended(name)
}

/// May more be used than was asked for?
fn may_exceed(name: &str) -> bool {
    is_native(name) && !name.starts_with(HUGE_PAGES)
}

/// Checks what a container asks for. Claims are among those of its pod.
pub fn check(faults: &mut Faults, at: &str, resources: &Value, claims: &BTreeSet<&str>) {
    check_amounts(faults, at, resources, &check_container_name);
    check_claims(faults, &format!("{at}.claims"), &resources["claims"], claims);
}

type NameCheck = dyn Fn(&mut Faults, &str, &str);

fn check_amounts(faults: &mut Faults, at: &str, resources: &Value, check_name: &NameCheck) {
    let amounts = |kind: &str| {
        let all = resources[kind].as_object().into_iter().flatten();
        let known = all.filter_map(|(name, amount)| Some((name.clone(), Quantity::of(amount)?)));
        known.collect::<BTreeMap<String, Quantity>>()
    };
    let (limits, requests) = (amounts("limits"), amounts("requests"));
    for (name, limit) in &limits {
        let field = format!("{at}.limits[{name}]");
        check_name(faults, &field, name);
        check_amount(faults, &field, name, *limit);
        check_pages(faults, &field, name, *limit);
    }
    for (name, request) in &requests {
        let field = format!("{at}.requests[{name}]");
        check_name(faults, &field, name);
        check_amount(faults, &field, name, *request);
        let whole = format!("{at}.requests");
        match limits.get(name) {
            Some(limit) if !may_exceed(name) && request.compare(*limit) != Ordering::Equal => {
                faults.invalid(whole, request.to_string(), format!("must be equal to {name} limit of {limit}"));
            }
            Some(limit) if request.compare(*limit) == Ordering::Greater => {
                let why = format!("must be less than or equal to {name} limit of {limit}");
                faults.invalid(whole, request.to_string(), why);
            }
            None if !may_exceed(name) => {
                faults.required(format!("{at}.limits"), "Limit must be set for non overcommitable resources");
            }
            _ => {}
        }
        check_pages(faults, &field, name, *request);
    }
    let all = || limits.keys().chain(requests.keys());
    if all().any(|n| n.starts_with(HUGE_PAGES)) && !all().any(|n| n == "cpu" || n == "memory") {
        faults.forbidden(at, "HugePages require cpu or memory");
    }
}

fn check_amount(faults: &mut Faults, at: &str, name: &str, amount: Quantity) {
    if amount.is_negative() {
        faults.invalid(at, amount.to_string(), "must be greater than or equal to 0");
    }
    if is_counted(name) && !amount.is_whole() {
        faults.invalid(at, amount.to_string(), "must be an integer");
    }
}

fn check_pages(faults: &mut Faults, at: &str, name: &str, amount: Quantity) {
    let Some(size) = name.strip_prefix(HUGE_PAGES) else { return };
    let size =
        Quantity::of(&Value::from(size)).filter(|size| !size.is_negative() && !size.is_zero() && size.is_whole());
    if !size.is_some_and(|size| amount.is_multiple_of(size)) {
        let why = format!("{amount} is not positive integer multiple of {name}");
        faults.invalid(at, amount.to_string(), why);
    }
}

fn check_standard_name(faults: &mut Faults, at: &str, name: &str) -> bool {
    if let Some(why) = qualified_name_fault(name) {
        faults.invalid(at, name, why);
        return false;
    }
    let pages = name.starts_with(HUGE_PAGES) || name.starts_with("requests.hugepages-");
    if !name.contains('/') && !STANDARD.contains(&name) && !pages {
        faults.invalid(at, name, "must be a standard resource type or fully qualified");
        return false;
    }
    true
}

fn check_container_name(faults: &mut Faults, at: &str, name: &str) {
    check_standard_name(faults, at, name);
    if name.split('/').count() == 1 {
        if !["cpu", "memory", "ephemeral-storage"].contains(&name) && !name.starts_with(HUGE_PAGES) {
            faults.invalid(at, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        faults.invalid(at, name, "doesn't follow extended resource name standard");
    }
}

fn check_claims(faults: &mut Faults, at: &str, claims: &Value, known: &BTreeSet<&str>) {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for (i, claim) in items(claims) {
        let (name, request, at) = (text(&claim["name"]), text(&claim["request"]), format!("{at}[{i}]"));
        if name.is_empty() {
            faults.required(at, "");
            continue;
        }
        if names.contains(name) {
            faults.duplicate(&at, name);
        } else {
            let key = if request.is_empty() { name.to_owned() } else { format!("{name}/{request}") };
            if !request.is_empty() {
                faults.label(format!("{at}.request"), request);
            }
            if names.contains(&key) {
                faults.duplicate(&at, key.as_str());
            } else if request.is_empty() {
                let same = names.iter().filter(|n| n.split_once('/').is_some_and(|(of, _)| of == name)).count();
                (0..same).for_each(|_| faults.duplicate(&at, name));
            }
            names.insert(key);
        }
        if !known.contains(name) {
            let all: Vec<&str> = known.iter().copied().collect();
            let end = if all.is_empty() { " which is empty".into() } else { format!(": {}", all.join(", ")) };
            faults.not_found(&at, name);
            if let Some(last) = faults.0.last_mut() {
                last.detail = format!("must be one of the names in pod.spec.resourceClaims{end}");
            }
        }
    }
}

/// Checks what a pod as a whole asks for.
pub fn check_pod(faults: &mut Faults, at: &str, spec: &Value) {
    let (resources, at) = (&spec["resources"], format!("{at}.resources"));
    if resources.is_null() {
        return;
    }
    if spec["os"]["name"] == "windows" {
        return faults.forbidden(at, "may not be set for a windows pod");
    }
    if !resources["claims"].is_null() {
        faults.forbidden(format!("{at}.claims"), "claims may not be set for Resources at pod-level");
    }
    check_amounts(faults, &at, resources, &|faults, field, name| {
        let supported = ["cpu", "hugepages-", "memory"];
        let known = name == "cpu" || name == "memory" || name.starts_with(HUGE_PAGES);
        if check_standard_name(faults, field, name) && !known {
            faults.not_supported(field, &Value::from(name), &supported);
        }
    });
    check_sums(faults, &at, spec);
}

fn check_sums(faults: &mut Faults, at: &str, spec: &Value) {
    let resources = &spec["resources"];
    let own = |kind: &str, name: &str| Quantity::of(&resources[kind][name]);
    for (name, sum) in spec.as_object().map(aggregate_requests).unwrap_or_default() {
        if let Some(asked) = own("requests", &name).filter(|asked| sum.compare(*asked) == Ordering::Greater) {
            let why = format!("must be greater than or equal to aggregate container requests of {sum}");
            faults.invalid(format!("{at}.requests[{name}]"), asked.to_string(), why);
        }
    }
    for (i, container) in items(&spec["containers"]) {
        for (name, limit) in container["resources"]["limits"].as_object().into_iter().flatten() {
            let (Some(limit), Some(most)) = (Quantity::of(limit), own("limits", name)) else { continue };
            if limit.compare(most) == Ordering::Greater {
                let why = format!("must be less than or equal to pod limits of {most}");
                faults.invalid(format!("{at}.containers[{i}][{name}].limits"), limit.to_string(), why);
            }
        }
    }
}

/// What the containers ask for together: those that run at the same time are added up.
pub fn aggregate_requests(spec: &Map<String, Value>) -> BTreeMap<String, Quantity> {
    let mut sum: BTreeMap<String, Quantity> = BTreeMap::new();
    let mut sidecars: BTreeMap<String, Quantity> = BTreeMap::new();
    let mut most: BTreeMap<String, Quantity> = BTreeMap::new();
    let list = |field: &str| spec.get(field).and_then(Value::as_array).into_iter().flatten();
    for container in list("containers") {
        add(&mut sum, &requests(container));
    }
    for container in list("initContainers") {
        let mut own = requests(container);
        if container["restartPolicy"] == "Always" {
            add(&mut sum, &own);
            add(&mut sidecars, &own);
            own = sidecars.clone();
        } else {
            add(&mut own, &sidecars);
        }
        raise(&mut most, &own);
    }
    raise(&mut sum, &most);
    sum
}

fn requests(container: &Value) -> BTreeMap<String, Quantity> {
    let all = container["resources"]["requests"].as_object().into_iter().flatten();
    all.filter_map(|(name, amount)| Some((name.clone(), Quantity::of(amount)?))).collect()
}

fn add(sum: &mut BTreeMap<String, Quantity>, more: &BTreeMap<String, Quantity>) {
    for (name, amount) in more {
        sum.entry(name.clone()).and_modify(|known| *known = known.plus(*amount)).or_insert(*amount);
    }
}

fn raise(least: &mut BTreeMap<String, Quantity>, other: &BTreeMap<String, Quantity>) {
    for (name, amount) in other {
        let known = least.entry(name.clone()).or_insert(*amount);
        if amount.compare(*known) == Ordering::Greater {
            *known = *amount;
        }
    }
}

/// Guaranteed, Burstable or BestEffort.
pub fn qos_class(pod: &Value) -> &'static str {
    let spec = &pod["spec"];
    let whole = &spec["resources"];
    let sources: Vec<&Value> = if whole.is_object() {
        vec![whole]
    } else {
        let lists = ["containers", "initContainers"].into_iter();
        lists.flat_map(|list| items(&spec[list])).map(|(_, container)| &container["resources"]).collect()
    };
    let amounts = |resources: &Value, kind: &str| {
        let named =
            ["cpu", "memory"].into_iter().filter_map(|n| Some((n.to_owned(), Quantity::of(&resources[kind][n])?)));
        named.filter(|(_, q)| !q.is_zero() && !q.is_negative()).collect::<BTreeMap<_, _>>()
    };
    let (mut requests, mut limits, mut guaranteed) = (BTreeMap::new(), BTreeMap::new(), true);
    for resources in sources {
        add(&mut requests, &amounts(resources, "requests"));
        let own = amounts(resources, "limits");
        guaranteed &= own.len() == 2;
        add(&mut limits, &own);
    }
    let equal = |(name, q): (&String, &Quantity)| limits.get(name).is_some_and(|l| l.compare(*q) == Ordering::Equal);
    match () {
        () if requests.is_empty() && limits.is_empty() => "BestEffort",
        () if guaranteed && requests.len() == limits.len() && requests.iter().all(equal) => "Guaranteed",
        () => "Burstable",
    }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "JSON is written where it is passed")]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(resources: Value) -> Vec<String> {
        let mut faults = Faults::default();
        check(&mut faults, "r", &resources, &BTreeSet::new());
        faults.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn amounts_are_checked_against_each_other() {
        let nothing: [&str; 0] = [];
        assert_eq!(said(json!({"limits": {"cpu": "1", "memory": "64Mi"}})), nothing);
        assert_eq!(
            said(json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}})),
            ["r.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1"]
        );
        assert_eq!(
            said(json!({"requests": {"example.com/card": "1"}})),
            ["r.limits: Required value: Limit must be set for non overcommitable resources"]
        );
        assert_eq!(
            said(json!({"limits": {"cores": "1"}})),
            [
                "r.limits[cores]: Invalid value: \"cores\": must be a standard resource type or fully qualified",
                "r.limits[cores]: Invalid value: \"cores\": must be a standard resource for containers"
            ]
        );
        assert_eq!(
            said(json!({"limits": {"cpu": "-1"}})),
            ["r.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0"]
        );
    }

    #[test]
    fn the_class_of_service_follows_the_amounts() {
        let class = |resources: Value| qos_class(&json!({"spec": {"containers": [{"resources": resources}]}}));
        let both = json!({"cpu": "1000m", "memory": "1Gi"});
        assert_eq!(class(json!({})), "BestEffort");
        assert_eq!(class(json!({"requests": {"cpu": "0"}})), "BestEffort");
        assert_eq!(class(json!({"requests": {"cpu": "1"}})), "Burstable");
        assert_eq!(class(json!({"limits": both, "requests": {"cpu": "1", "memory": "1024Mi"}})), "Guaranteed");
    }
}
