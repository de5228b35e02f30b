//! Making sequences: from a seed, weighted towards what clashes (stale versions, names that were deleted and made again,
//! finalizers, wrong preconditions, selectors, pages), and shrinking those on which two servers differ.
use proptest::prelude::{Strategy, any, prop};
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

use super::bodies::{KINDS, Kind, body};
use super::sequence::{Body, Sequence, Step};

/// One thing that is done, as small numbers: small ones are simple, so shrinking means counting down.
#[derive(Debug, Clone, Copy)]
struct Act {
    what: What,
    kind: usize,
    name: u8,
    variant: u16,
    twist: u8,
}

impl Act {
    fn generates(&self) -> bool {
        self.twist.is_multiple_of(11)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Get,
    Create,
    List,
    Replace,
    Merge,
    Json,
    Strategic,
    Apply,
    Status,
    Scale,
    Delete,
    DeleteCollection,
    Watch,
    Malformed,
}

const WEIGHTS: &[(u32, What)] = &[
    (6, What::Get),
    (26, What::Create),
    (7, What::List),
    (13, What::Replace),
    (9, What::Merge),
    (6, What::Json),
    (5, What::Strategic),
    (9, What::Apply),
    (6, What::Status),
    (3, What::Scale),
    (12, What::Delete),
    (1, What::DeleteCollection),
    (4, What::Watch),
    (3, What::Malformed),
];

fn weighted<T: Copy>(table: impl IntoIterator<Item = (u32, T)>) -> Vec<T> {
    table.into_iter().flat_map(|(weight, what)| std::iter::repeat_n(what, weight as usize)).collect()
}

/// A sequence uses few kinds, so that what it does meets what it did.
fn acts(length: usize) -> impl Strategy<Value = (Vec<usize>, Vec<Act>)> {
    let kinds = weighted(KINDS.iter().enumerate().map(|(i, kind)| (kind.weight, i)));
    let kinds = prop::collection::vec(prop::sample::select(kinds), 3);
    let what = prop::sample::select(weighted(WEIGHTS.iter().copied()));
    let act = (what, 0usize..3, 0u8..3, any::<u16>(), any::<u8>());
    let act = act.prop_map(|(what, kind, name, variant, twist)| Act { what, kind, name, variant, twist });
    (kinds, prop::collection::vec(act, length.max(1)..=length.max(1)))
}

/// A sequence that can be made smaller.
pub struct Shrinking {
    tree: Box<dyn ValueTree<Value = (Vec<usize>, Vec<Act>)>>,
    seed: u64,
    namespace: String,
    tries: u32,
}

impl Shrinking {
    /// The sequence of this seed, of `length` steps.
    pub fn new(seed: u64, length: usize) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(Config { failure_persistence: None, ..Config::default() }, rng);
        let tree = acts(length).new_tree(&mut runner).expect("nothing is filtered");
        Self { tree: Box::new(tree), seed, namespace: format!("q{seed:x}"), tries: 0 }
    }

    /// As it is now.
    pub fn current(&self) -> Sequence {
        let (kinds, acts) = self.tree.current();
        // Each try is played in a namespace of its own.
        let namespace =
            if self.tries == 0 { self.namespace.clone() } else { format!("{}t{}", self.namespace, self.tries) };
        // It begins with objects: what is done to none is soon said.
        let first =
            |(at, act): (usize, &Act)| if at < 4 { Act { what: What::Create, kind: at % 3, ..*act } } else { *act };
        let acts: Vec<Act> = acts.iter().enumerate().map(first).collect();
        let generates = acts.iter().any(|act| act.what == What::Create && act.generates());
        let steps = acts.iter().map(|act| step(*act, &kinds, &namespace, generates)).collect();
        Sequence { seed: self.seed, namespace, steps }
    }

    /// Makes it smaller, after it `differed`, or less small, after it did not; false when there is nothing more to try.
    pub fn shrink(&mut self, differed: bool) -> bool {
        self.tries += 1;
        if differed { self.tree.simplify() } else { self.tree.complicate() }
    }
}

/// The sequence of this seed, of up to `length` steps.
pub fn sequence(seed: u64, length: usize) -> Sequence {
    Shrinking::new(seed, length).current()
}

struct Making<'a> {
    act: Act,
    kind: &'static Kind,
    namespace: &'a str,
    /// As placeholders have it: `configmaps/x0`.
    key: String,
    name: String,
    /// Somewhere in the sequence a name is generated.
    generates: bool,
}

fn step(act: Act, kinds: &[usize], namespace: &str, generates: bool) -> Step {
    let kind = &KINDS[kinds[act.kind]];
    let short = format!("x{}", act.name);
    let name = if kind.namespaced { short.clone() } else { format!("{namespace}-{short}") };
    let making = Making { act, kind, namespace, key: format!("{}/{short}", kind.plural), name, generates };
    match act.what {
        What::Get => making.get(),
        What::Create => making.create(),
        What::List => making.list(false),
        What::Replace => making.replace(),
        What::Merge => making.merge(),
        What::Json => making.json_patch(),
        What::Strategic => making.strategic(),
        What::Apply => making.apply(),
        What::Status => making.status(),
        What::Scale => making.scale(),
        What::Delete => making.delete(),
        What::DeleteCollection => making.delete_collection(),
        What::Watch => making.list(true),
        What::Malformed => making.malformed(),
    }
}

const JSON: &str = "application/json";

impl Making<'_> {
    fn whole(&self) -> String {
        self.kind.path(self.namespace)
    }

    fn one(&self) -> String {
        format!("{}/{}", self.whole(), self.name)
    }

    fn step(&self, verb: &str, method: &str, path: String) -> Step {
        Step {
            does: format!("{verb} {}", self.kind.plural),
            method: method.into(),
            path,
            query: Vec::new(),
            content_type: String::new(),
            accept: String::new(),
            body: Body::None,
            about: self.key.clone(),
        }
    }

    fn with_body(&self, verb: &str, method: &str, path: String, content_type: &str, body: Body) -> Step {
        Step { content_type: content_type.into(), body, ..self.step(verb, method, path) }
    }

    fn body(&self) -> Value {
        let mut body = body(self.kind, self.namespace, &self.name, self.act.variant);
        // What is of no namespace is found again by a label of its own.
        if !self.kind.namespaced {
            body["metadata"]["labels"]["seq"] = json!(self.namespace);
        }
        body
    }

    fn validated(&self, mut step: Step) -> Step {
        match self.act.twist % 16 {
            1 => step.query.push(("fieldValidation".into(), "Strict".into())),
            2 => step.query.push(("fieldValidation".into(), "Ignore".into())),
            3 => step.query.push(("dryRun".into(), "All".into())),
            _ => {}
        }
        step
    }

    fn get(&self) -> Step {
        let mut step = self.step("get", "GET", self.one());
        if self.act.twist % 8 == 1 {
            step.path.push_str("/status");
            step.does = format!("get status {}", self.kind.plural);
        }
        step
    }

    fn create(&self) -> Step {
        let mut body = self.body();
        if self.act.generates() {
            let meta = body["metadata"].as_object_mut().expect("it has metadata");
            meta.remove("name");
            meta.insert("generateName".into(), json!(format!("{}-", self.name)));
        }
        self.validated(self.with_body("create", "POST", self.whole(), JSON, Body::Json(body)))
    }

    fn list(&self, watch: bool) -> Step {
        let mut step = self.step(if watch { "watch" } else { "list" }, "GET", self.whole());
        step.about.clear();
        let mut labels = Vec::new();
        if !self.kind.namespaced {
            labels.push(format!("seq={}", self.namespace));
        }
        match self.act.twist % 12 {
            1 => labels.push("n=1".into()),
            2 => labels.push("n in (0,2)".into()),
            3 => labels.push("n!=1".into()),
            4 => labels.push("tier".into()),
            5 => labels.push("!tier".into()),
            6 => step.query.push(("fieldSelector".into(), format!("metadata.name={}", self.name))),
            7 if !watch => labels.push("n in (0".into()),
            8 if !watch => step.query.push(("fieldSelector".into(), "spec.nothing=x".into())),
            9 => step.query.push(("fieldSelector".into(), format!("metadata.name!={}", self.name))),
            _ => {}
        }
        if !labels.is_empty() {
            step.query.push(("labelSelector".into(), labels.join(",")));
        }
        if watch {
            step.query.push(("watch".into(), "1".into()));
            step.query.push(("timeoutSeconds".into(), "1".into()));
            step.query.push(("resourceVersion".into(), "${version}".into()));
        } else {
            // Pages are of what is in no other sequence, and in the order of names that are not drawn by chance.
            match self.act.variant % 5 {
                _ if !self.kind.namespaced || self.generates => {}
                1 => step.query.push(("limit".into(), (1 + self.act.variant % 2).to_string())),
                2 => step.query.extend([("limit".into(), "1".into()), ("continue".into(), "${continue}".into())]),
                _ => {}
            }
        }
        step
    }

    fn replace(&self) -> Step {
        let key = self.key.clone();
        let fresh = self.body();
        let merge = |mut change: Value| {
            for part in ["spec", "data"] {
                if self.act.variant.is_multiple_of(2) && fresh[part].is_object() {
                    change[part] = fresh[part].clone();
                }
            }
            Body::Changed { of: key.clone(), by: change }
        };
        let meta = |meta: Value| json!({"metadata": meta});
        let label = json!({"n": (self.act.variant % 3).to_string()});
        let body = match self.act.twist % 12 {
            0 => Body::Json(fresh.clone()),
            1 => merge(meta(json!({"resourceVersion": format!("${{rv:{key}@1}}"), "labels": label}))),
            2 => merge(meta(json!({"resourceVersion": null, "labels": label}))),
            3 => merge(meta(json!({"uid": "11111111-2222-3333-4444-555555555555"}))),
            4 => merge(meta(json!({"name": "other"}))),
            5 => merge(meta(json!({"finalizers": ["example.com/keep", "example.com/more"]}))),
            6 => merge(meta(json!({"finalizers": null}))),
            7 => merge(meta(json!({"namespace": "other"}))),
            8 => merge(meta(json!({"generation": 99, "creationTimestamp": null}))),
            9 => merge(json!({})),
            _ => merge(meta(json!({"labels": label}))),
        };
        self.validated(self.with_body("replace", "PUT", self.one(), JSON, body))
    }

    fn change(&self) -> Value {
        let body = self.body();
        let mut change = json!({});
        for part in ["spec", "data"] {
            if body[part].is_object() && self.act.variant.is_multiple_of(3) {
                change[part] = body[part].clone();
            }
        }
        match self.act.twist % 10 {
            0 => change["metadata"] = json!({"finalizers": null}),
            1 => change["metadata"] = json!({"resourceVersion": format!("${{rv:{}@1}}", self.key)}),
            2 => {
                change["metadata"] =
                    json!({"resourceVersion": format!("${{rv:{}}}", self.key), "labels": {"tier": "b"}});
            }
            3 => change["metadata"] = json!({"labels": null}),
            4 => change["status"] = json!({"phase": "Odd"}),
            5 => change["metadata"] = json!({"name": "other"}),
            6 => {}
            _ => {
                change["metadata"] =
                    json!({"labels": {"n": (self.act.variant % 3).to_string()}, "annotations": {"note": "x"}});
            }
        }
        change
    }

    fn merge(&self) -> Step {
        let step = self.with_body(
            "merge patch",
            "PATCH",
            self.one(),
            "application/merge-patch+json",
            Body::Json(self.change()),
        );
        self.validated(step)
    }

    fn strategic(&self) -> Step {
        let mut change = self.change();
        match self.act.variant % 6 {
            1 => change["metadata"] = json!({"finalizers": ["example.com/more"]}),
            2 => change["metadata"] = json!({"$deleteFromPrimitiveList/finalizers": ["example.com/keep"]}),
            3 if self.kind.plural == "pods" => {
                change = json!({"spec": {"containers": [{"name": "main", "image": "example.com/other:1"}]}});
            }
            4 => change["metadata"] = json!({"labels": {"$patch": "replace", "only": "this"}}),
            _ => {}
        }
        let kind = "application/strategic-merge-patch+json";
        self.with_body("strategic merge patch", "PATCH", self.one(), kind, Body::Json(change))
    }

    fn json_patch(&self) -> Step {
        let op = |op: &str, path: &str, value: Value| json!({"op": op, "path": path, "value": value});
        let patch = match self.act.twist % 10 {
            0 => json!([op("test", "/metadata/labels/n", json!("1")), op("replace", "/metadata/labels/n", json!("2"))]),
            1 => json!([op("replace", "/spec/none/there", json!(1))]),
            2 => json!([{"op": "remove", "path": "/metadata/finalizers"}]),
            3 => json!([op("add", "/metadata/finalizers", json!(["example.com/keep"]))]),
            4 => json!([op("odd", "/metadata", json!({}))]),
            5 => json!({"op": "add"}),
            6 => json!([{"op": "remove", "path": "/metadata/labels/none"}]),
            7 => json!([op("replace", "/metadata/resourceVersion", json!(format!("${{rv:{}@1}}", self.key)))]),
            8 => json!([]),
            _ => json!([op("add", "/metadata/labels/tier", json!("c"))]),
        };
        self.with_body("json patch", "PATCH", self.one(), "application/json-patch+json", Body::Json(patch))
    }

    fn apply(&self) -> Step {
        let mut body = self.body();
        if let Some(meta) = body["metadata"].as_object_mut() {
            meta.remove("resourceVersion");
            meta.remove("uid");
        }
        if self.act.twist % 16 == 7 {
            body["metadata"]["managedFields"] = json!([]);
        }
        let mut step = self.with_body("apply", "PATCH", self.one(), "application/apply-patch+yaml", Body::Json(body));
        if self.act.twist % 32 != 31 {
            step.query.push(("fieldManager".into(), format!("m{}", self.act.twist % 2)));
        }
        if self.act.twist % 4 == 2 {
            step.query.push(("force".into(), "true".into()));
        }
        step
    }

    fn status(&self) -> Step {
        let status = match self.kind.plural {
            "pods" => json!({"phase": "Running", "podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}]}),
            "widgets" => json!({"size": self.act.variant % 4, "phase": "Made", "selector": "a=b", "odd": 1}),
            "deployments" => json!({"replicas": 1, "observedGeneration": 1}),
            "replicasets" => json!({"replicas": self.act.variant % 3}),
            "persistentvolumeclaims" | "persistentvolumes" => json!({"phase": "Bound"}),
            "poddisruptionbudgets" => {
                json!({"disruptionsAllowed": 1, "currentHealthy": 1, "desiredHealthy": 0, "expectedPods": 1})
            }
            _ => json!({}),
        };
        let path = format!("{}/status", self.one());
        if self.act.twist.is_multiple_of(2) {
            let by = json!({"status": status, "spec": {"size": 5}, "metadata": {"labels": {"n": "9"}}});
            let body = Body::Changed { of: self.key.clone(), by };
            return self.with_body("replace status", "PUT", path, JSON, body);
        }
        let kind = "application/merge-patch+json";
        self.with_body("patch status", "PATCH", path, kind, Body::Json(json!({"status": status})))
    }

    fn scale(&self) -> Step {
        let path = format!("{}/scale", self.one());
        let replicas = i64::from(self.act.variant % 12) - 1;
        match self.act.twist % 4 {
            0 => self.step("get scale", "GET", path),
            1 => {
                let patch = Body::Json(json!({"spec": {"replicas": replicas}}));
                self.with_body("patch scale", "PATCH", path, "application/merge-patch+json", patch)
            }
            _ => {
                let mut meta = json!({"name": self.name, "namespace": self.namespace});
                if self.act.twist % 4 == 3 {
                    meta["resourceVersion"] = json!(format!("${{rv:{}@1}}", self.key));
                }
                let body = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": meta, "spec": {"replicas": replicas}});
                self.with_body("replace scale", "PUT", path, JSON, Body::Json(body))
            }
        }
    }

    fn delete(&self) -> Step {
        let options = |fields: Value| {
            let mut body = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
            json_patch::merge(&mut body, &fields);
            Body::Json(body)
        };
        let key = &self.key;
        let body = match self.act.twist % 14 {
            1 => options(json!({"preconditions": {"uid": format!("${{uid:{key}}}")}})),
            2 => options(json!({"preconditions": {"uid": format!("${{uid:{key}@1}}")}})),
            3 => options(json!({"preconditions": {"resourceVersion": format!("${{rv:{key}}}")}})),
            4 => options(json!({"preconditions": {"resourceVersion": format!("${{rv:{key}@1}}")}})),
            5 => options(json!({"propagationPolicy": "Foreground"})),
            6 => options(json!({"propagationPolicy": "Orphan"})),
            7 => options(json!({"gracePeriodSeconds": 0})),
            8 => options(json!({"gracePeriodSeconds": 7})),
            9 => options(json!({"propagationPolicy": "Odd"})),
            10 => options(json!({"dryRun": ["All"]})),
            11 => options(json!({"propagationPolicy": "Background"})),
            _ => Body::None,
        };
        let content_type = if body == Body::None { "" } else { JSON };
        self.with_body("delete", "DELETE", self.one(), content_type, body)
    }

    fn delete_collection(&self) -> Step {
        let mut step = self.step("delete all", "DELETE", self.whole());
        step.about.clear();
        let label = if self.kind.namespaced { "n=1".to_owned() } else { format!("seq={},n=1", self.namespace) };
        step.query.push(("labelSelector".into(), label));
        step
    }

    fn malformed(&self) -> Step {
        let text = |text: &str| Body::Text(text.into());
        let (whole, one) = (self.whole(), self.one());
        match self.act.twist % 12 {
            0 => self.with_body("malformed", "POST", whole, JSON, text("{\"kind\":")),
            1 => self.with_body("malformed", "POST", whole, "text/plain", text("hello")),
            2 => self.with_body("malformed", "POST", whole, JSON, text("[]")),
            3 => self.with_body("malformed", "PATCH", one, JSON, text("{}")),
            4 => self.with_body("malformed", "PATCH", one, "application/merge-patch+json", text("[1]")),
            5 => self.with_body("malformed", "POST", whole, JSON, text("")),
            6 => self.with_body("malformed", "PUT", one, JSON, Body::Json(json!({"apiVersion": "v1", "kind": "Node"}))),
            7 => self.step("malformed", "GET", format!("{one}/nothing")),
            8 => self.step("malformed", "PATCH", whole),
            9 => self.step("malformed", "GET", format!("{whole}s")),
            10 => self.with_body(
                "malformed",
                "POST",
                whole,
                JSON,
                Body::Json(json!({"apiVersion": "odd/v1", "kind": self.kind.kind})),
            ),
            _ => self.with_body("malformed", "PATCH", one, "application/merge-patch+json", text("{\"a\":")),
        }
    }
}
