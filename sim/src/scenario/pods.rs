//! The pods of a cluster at a moment, and the order in which events were told: what both lanes compare.

use std::collections::BTreeMap;
use std::sync::Arc;

use fake_k8s::controllers::object;
use serde_json::Value;

/// Pods by name: uid, and how often their container was started again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pods(BTreeMap<String, (String, i64)>);

impl Pods {
    /// Of these objects.
    pub fn of(pods: &[Arc<Value>]) -> Self {
        let restarts = |pod: &Value| object::number(pod, "/status/containerStatuses/0/restartCount").unwrap_or(0);
        let named = pods.iter().map(|pod| (object::name(pod).to_owned(), (object::uid(pod).to_owned(), restarts(pod))));
        Self(named.collect())
    }

    /// What is missing until there are so many.
    pub fn missing(&self, wanted: usize) -> Option<String> {
        let found = self.0.len();
        (found != wanted).then(|| format!("there are {found} pods, {wanted} wanted"))
    }

    /// What is not as it was, when the container of each is to have been started again so many times; with `only_names`, only
    /// what is called otherwise.
    pub fn changed(&self, before: &Self, only_names: bool, restarted: i64) -> Option<String> {
        let gone = before.0.keys().find(|name| !self.0.contains_key(*name)).map(|name| format!("pod {name} is gone"));
        let new = self.0.keys().find(|name| !before.0.contains_key(*name)).map(|name| format!("pod {name} is new"));
        let other = || {
            let mut both = self.0.iter().filter_map(|(name, now)| Some((name, now, before.0.get(name)?)));
            let is_as_wanted =
                |now: &(String, i64), then: &(String, i64)| now.0 == then.0 && now.1 - then.1 == restarted;
            both.find(|(_, now, then)| !is_as_wanted(now, then)).map(|(name, now, then)| match now.1 - then.1 {
                _ if now.0 != then.0 => format!("pod {name} was made anew"),
                times => format!("pod {name} was started again {times} times, not {restarted}"),
            })
        };
        gone.or(new).or_else(|| if only_names { None } else { other() })
    }

    /// What is wrong unless so many are gone, and as many are new.
    pub fn not_replaced(&self, before: &Self, count: usize) -> Option<String> {
        let missing = |from: &Self, of: &Self| of.0.keys().filter(|name| !from.0.contains_key(*name)).count();
        let (gone, new) = (missing(self, before), missing(before, self));
        ((gone, new) != (count, count)).then(|| format!("{gone} pods are gone and {new} are new, not {count}"))
    }
}

/// What is missing until the first events with these reasons about an object are there, in this order.
pub fn out_of_order(events: &[Arc<Value>], about: &str, reasons: &[String]) -> Option<String> {
    let told = |reason: &str| {
        let about_it = events.iter().filter(|event| {
            object::text(event, "/involvedObject/name") == about && object::text(event, "/reason") == reason
        });
        about_it.filter_map(|event| object::version(event).parse::<u64>().ok()).min()
    };
    let mut last = (0, "");
    for reason in reasons {
        match told(reason) {
            None => return Some(format!("{reason} was not told of {about}")),
            Some(at) if at < last.0 => return Some(format!("{reason} was told of {about} before {}", last.1)),
            Some(at) => last = (at, reason),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pods(all: &[(&str, &str, i64)]) -> Pods {
        let pod = |(name, uid, restarts): &(&str, &str, i64)| {
            let status = json!({"containerStatuses": [{"restartCount": restarts}]});
            Arc::new(json!({"metadata": {"name": name, "uid": uid}, "status": status}))
        };
        Pods::of(&all.iter().map(pod).collect::<Vec<_>>())
    }

    #[test]
    fn pods_are_the_same_when_names_uids_and_restarts_are() {
        let before = pods(&[("a", "1", 0), ("b", "2", 1)]);
        let changed = |now: &[(&str, &str, i64)], only_names| pods(now).changed(&before, only_names, 0);
        assert_eq!(changed(&[("a", "1", 0), ("b", "2", 1)], false), None);
        assert_eq!(
            changed(&[("a", "1", 0), ("b", "2", 2)], false).as_deref(),
            Some("pod b was started again 1 times, not 0")
        );
        assert_eq!(changed(&[("a", "3", 0), ("b", "2", 1)], false).as_deref(), Some("pod a was made anew"));
        assert_eq!(changed(&[("a", "3", 0), ("b", "2", 2)], true), None);
        assert_eq!(changed(&[("a", "1", 0)], true).as_deref(), Some("pod b is gone"));
        assert_eq!(changed(&[("a", "1", 0), ("b", "2", 1), ("c", "4", 0)], true).as_deref(), Some("pod c is new"));
    }

    #[test]
    fn pods_may_have_to_be_started_again_or_replaced() {
        let before = pods(&[("a", "1", 0), ("b", "2", 1)]);
        let changed = |now: &[(&str, &str, i64)]| pods(now).changed(&before, false, 1);
        assert_eq!(changed(&[("a", "1", 1), ("b", "2", 2)]), None);
        assert!(
            changed(&[("a", "1", 1), ("b", "2", 1)])
                .is_some_and(|what| what.contains("pod b") && what.contains("0 times"))
        );
        assert_eq!(changed(&[("a", "3", 1), ("b", "2", 2)]).as_deref(), Some("pod a was made anew"));
        let replaced = |now: &[(&str, &str, i64)]| pods(now).not_replaced(&before, 1);
        assert_eq!(replaced(&[("a", "1", 0), ("c", "3", 0)]), None);
        assert_eq!(replaced(&[("a", "1", 0)]).as_deref(), Some("1 pods are gone and 0 are new, not 1"));
        assert!(replaced(&[("a", "9", 9), ("b", "2", 1)]).is_some(), "a pod is known by its name");
    }

    #[test]
    fn events_are_told_in_order_of_their_versions() {
        let event = |about: &str, reason: &str, version: &str| {
            let metadata = json!({"resourceVersion": version});
            Arc::new(json!({"metadata": metadata, "involvedObject": {"name": about}, "reason": reason}))
        };
        let events = [event("c", "Moved", "9"), event("c", "Removed", "10"), event("d", "Removed", "2")];
        let judge = |reasons: &[&str]| {
            out_of_order(&events, "c", &reasons.iter().map(|reason| (*reason).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(judge(&["Moved", "Removed"]), None);
        assert_eq!(judge(&["Removed", "Moved"]).as_deref(), Some("Moved was told of c before Removed"));
        assert_eq!(judge(&["Moved", "Added"]).as_deref(), Some("Added was not told of c"));
    }
}
