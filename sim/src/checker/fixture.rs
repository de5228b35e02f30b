//! A world without an operator for the tests of the checkers: what an operator would do is said line by line, and the
//! checkers of a run say what they think of it.

use std::collections::BTreeMap;
use std::future::Future;

use etcd_operator::model::ClusterId;
use etcd_operator::ports::EtcdAccess;
use fake_k8s::server::{Request, ResourceName};
use serde_json::{Value, json};

use crate::converge::custom;
use crate::effect::Effect;
use crate::etcd::ProcessId;
use crate::etcd::boot::{BootFlags, Launch};
use crate::event::Millis;
use crate::ghost;
use crate::run::{NAMESPACE, SECRET, install};
use crate::world::{self, Blueprint, Shared, World};

/// The name of the EtcdCluster and of its EtcdRestore.
pub const CLUSTER: &str = "etcd";
/// Its key.
pub const OWNER: &str = "default/etcd";
/// etcd's clock.
const TICK: Millis = 250;
/// By then members that were started together serve, and have for longer than the checkers forgive.
const FORMED_AFTER: Millis = 30_000;

/// The world, and the pods of the lineages that were made in it.
pub struct Fixture<'a> {
    /// The world.
    pub world: &'a mut World,
    lineages: BTreeMap<String, (ClusterId, Vec<String>)>,
    pods: usize,
}

/// An empty world, for what takes its time.
pub fn in_time<F: Future<Output = ()>>(test: impl FnOnce(Shared) -> F) {
    let runtime = madsim::runtime::Runtime::with_seed_and_config(1, madsim::Config::default());
    runtime.block_on(async {
        let blueprint = Blueprint { seed: 1, nodes: 0, controllers: Vec::new(), faults: Vec::new(), trace: true };
        let (shared, _poked) = world::build(blueprint);
        install(&mut shared.enter());
        test(shared).await;
    });
}

/// A world with one EtcdCluster and nothing else.
pub fn in_world(test: impl FnOnce(&mut Fixture<'_>)) {
    in_time(|shared| async move { test(&mut Fixture::of(&mut shared.enter())) });
}

/// The host of a member's URL is the name of its pod.
fn resolve(url: &str) -> Option<String> {
    let host = url.strip_prefix("http://")?.split(':').next()?;
    Some(format!("{NAMESPACE}/{host}"))
}

impl<'a> Fixture<'a> {
    /// With one EtcdCluster.
    pub fn of(world: &'a mut World) -> Self {
        let mut fixture = Self { world, lineages: BTreeMap::new(), pods: 0 };
        fixture.create(&json!({
            "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster",
            "metadata": {"name": CLUSTER}, "spec": {"size": 3, "version": "3.5.26"},
        }));
        fixture
    }

    /// Creates an object in our namespace.
    pub fn create(&mut self, body: &Value) {
        let resource = crate::user::resource(body["kind"].as_str().unwrap());
        let now = self.world.timestamp();
        self.world.server.handle(now, &Request::create(resource, NAMESPACE, body.clone())).unwrap();
    }

    /// An object as it is.
    pub fn object(&self, kind: &str, name: &str) -> Value {
        Value::clone(&self.world.server.peek(&crate::user::resource(kind), NAMESPACE, name).unwrap())
    }

    /// Replaces the status of an object, unseen by the checkers.
    pub fn set_status(&mut self, kind: &str, name: &str, status: &Value) {
        let mut body = self.object(kind, name);
        body["status"] = status.clone();
        let now = self.world.timestamp();
        let request = Request::replace_status(crate::user::resource(kind), NAMESPACE, name, body);
        self.world.server.handle(now, &request).unwrap();
    }

    fn launch(&mut self, token: &str, count: usize) -> Vec<Launch> {
        let first = self.pods;
        self.pods += count;
        let names: Vec<String> = (first..self.pods).map(|number| format!("{CLUSTER}-{number}")).collect();
        let initial_cluster: Vec<_> = names.iter().map(|name| (name.clone(), format!("http://{name}:2380"))).collect();
        let mut launches = Vec::new();
        for name in names {
            let labels = json!({"etcd_cluster": CLUSTER});
            self.create(&json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
                "spec": {"containers": [{"name": "etcd", "image": "etcd"}]},
            }));
            let now = self.world.timestamp();
            let claim = json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "labels": labels},
                "spec": {
                    "accessModes": ["ReadWriteOnce"], "volumeName": name,
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            });
            let claims = ResourceName::core("persistentvolumeclaims");
            self.world.server.handle(now, &Request::create(claims, NAMESPACE, claim)).unwrap();
            let flags = BootFlags {
                initial_cluster: initial_cluster.clone(),
                existing: false,
                token: token.to_owned(),
                peer_urls: vec![format!("http://{name}:2380")],
                client_urls: vec![format!("http://{name}:2379")],
                name: name.clone(),
            };
            let (pod, volume) = (format!("{NAMESPACE}/{name}"), format!("pv:{name}"));
            launches.push(Launch { pod, volume, version: (5, 26), flags });
        }
        launches
    }

    fn start(&mut self, token: &str, launches: Vec<Launch>) {
        let pods = launches.iter().map(|launch| launch.pod.clone()).collect();
        self.lineages.insert(token.to_owned(), (launches[0].flags.cluster(), pods));
        for launch in launches {
            let world = &mut *self.world;
            world.etcds.start(world.now, &world.network, &resolve, launch).unwrap();
            world.judge_births();
        }
        self.pass(FORMED_AFTER);
    }

    /// So many members form a lineage under a token.
    pub fn form(&mut self, token: &str, count: usize) {
        let launches = self.launch(token, count);
        self.start(token, launches);
    }

    /// The directories of so many members are made from a snapshot.
    pub fn restore_directories(&mut self, token: &str, count: usize, snapshot: &[u8]) -> Vec<Launch> {
        let launches = self.launch(token, count);
        for launch in &launches {
            let disk = self.world.etcds.restore(&launch.pod, snapshot, &launch.flags).unwrap();
            self.world.judge_births();
            self.world.etcds.volumes.entry(launch.volume.clone()).or_default().disk = Some(disk);
        }
        let pods = launches.iter().map(|launch| launch.pod.clone()).collect();
        self.lineages.insert(token.to_owned(), (launches[0].flags.cluster(), pods));
        launches
    }

    /// So many members form a lineage from a snapshot.
    pub fn restore(&mut self, token: &str, count: usize, snapshot: &[u8]) {
        let launches = self.restore_directories(token, count, snapshot);
        self.start(token, launches);
    }

    /// The id of a lineage, as status has it.
    pub fn id(&self, token: &str) -> String {
        format!("{:016x}", self.cluster(token).0)
    }

    /// The id of a lineage.
    pub fn cluster(&self, token: &str) -> ClusterId {
        self.lineages[token].0
    }

    /// The pods of a lineage.
    pub fn pods(&self, token: &str) -> Vec<String> {
        self.lineages[token].1.clone()
    }

    /// A process of a lineage.
    pub fn process(&self, token: &str) -> ProcessId {
        self.world.etcds.of_pod(&self.lineages[token].1[0]).unwrap().id
    }

    /// The pods of a lineage are ready and behind the client Service; its endpoint.
    pub fn serve(&mut self, token: &str) -> EtcdAccess {
        self.create(&json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("{CLUSTER}-client")},
            "spec": {"selector": {"etcd_cluster": CLUSTER}, "ports": [{"port": 2379}]},
        }));
        for pod in self.pods(token) {
            let name = pod.split_once('/').unwrap().1;
            self.set_status("Pod", name, &json!({"conditions": [{"type": "Ready", "status": "True"}]}));
        }
        EtcdAccess { endpoints: vec![format!("http://{CLUSTER}-client.{NAMESPACE}.svc:2379")], tls: None }
    }

    /// Writes a key.
    pub fn write(&mut self, token: &str, key: &str, value: &str) {
        let process = self.process(token);
        let world = &mut *self.world;
        world.etcds.write(process, key.as_bytes(), value.as_bytes(), world.now, &world.network).unwrap();
    }

    /// A snapshot of a lineage.
    pub fn snapshot(&mut self, token: &str) -> Vec<u8> {
        let process = self.process(token);
        self.world.etcds.snapshot(process).unwrap()
    }

    /// Time passes, and the checkers look.
    pub fn pass(&mut self, millis: Millis) {
        for _ in 0..millis / TICK {
            let world = &mut *self.world;
            world.now += TICK;
            world.etcds.tick(world.now, &world.network);
            ghost::look(world);
            let mut checkers = std::mem::take(&mut world.checkers);
            let verdict = checkers.tick(world);
            world.checkers = checkers;
            if let Some(violation) = verdict {
                world.violate(violation);
            }
        }
    }

    /// A lineage as status has it.
    pub fn lineage(&self, token: &str, restored_from: Option<&str>) -> Value {
        let mut lineage = json!({"attempt": 1, "token": token, "formed": true, "clusterID": self.id(token)});
        if let Some(uid) = restored_from {
            lineage["restoredFrom"] = uid.into();
        }
        lineage
    }

    /// The EtcdCluster's status names a lineage.
    pub fn record(&mut self, token: &str, restored_from: Option<&str>) {
        let lineage = self.lineage(token, restored_from);
        self.set_status("EtcdCluster", CLUSTER, &json!({"lineage": lineage}));
        self.pass(TICK);
    }

    /// Somebody asks for a restore of the EtcdCluster.
    pub fn ask_restore(&mut self) {
        self.create(&json!({
            "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdRestore", "metadata": {"name": CLUSTER},
            "spec": {
                "etcdCluster": {"name": CLUSTER}, "backupStorageType": "S3",
                "s3": {"path": "backups/once", "awsSecret": SECRET},
            },
        }));
    }

    /// The uid of the EtcdRestore.
    pub fn restore_uid(&self) -> String {
        let restore = self.world.server.peek(&custom("etcdrestores"), NAMESPACE, CLUSTER).unwrap();
        restore["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    /// The operator has an effect now; what the checkers say.
    pub fn effect(&mut self, effect: Effect) -> Option<String> {
        self.world.issued = self.world.now;
        self.world.commit("operator", 1, Some(effect), |_| Ok::<_, String>(())).unwrap();
        self.violation()
    }

    /// The operator replaces the status of an object; what the checkers say.
    pub fn write_status(&mut self, kind: &str, name: &str, status: &Value) -> Option<String> {
        let mut body = self.object(kind, name);
        body["status"] = status.clone();
        let effect = Effect::Update { kind: kind.to_owned(), key: format!("{NAMESPACE}/{name}"), status: true, body };
        let said = self.effect(effect);
        self.set_status(kind, name, status);
        said
    }

    /// What was violated so far.
    pub fn violation(&mut self) -> Option<String> {
        self.world.violation.take().map(|violation| violation.to_string())
    }

    /// What the checkers say at the end.
    pub fn end(&mut self) -> Option<String> {
        let mut checkers = std::mem::take(&mut self.world.checkers);
        let verdict = checkers.end(self.world);
        self.world.checkers = checkers;
        verdict.map(|violation| violation.to_string())
    }
}
