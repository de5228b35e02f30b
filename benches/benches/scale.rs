//! Ten thousand EtcdClusters in one process: the cache and the queue, and how much memory the cache holds.
//!
//! Budgets: all of it within 500 MB, and an event reaches its first write within 50 ms; what is measured here is the part
//! of that which happens in the process.

#![allow(clippy::print_stdout, reason = "the memory is a number to be read, not a time")]

use benches::clusters::{Formed, NAMESPACE};
use benches::machine::{mebibytes, resident};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use etcd_operator::cache::Cache;
use etcd_operator::observe::View;
use etcd_operator::ports::{Controller, Kind, Object, ObjectKey, Target, Typed, WatchEvent};
use etcd_operator::queue::{Finished, Queue};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use std::collections::BTreeMap;
use std::hint::black_box;

const CLUSTERS_COUNT: usize = 10_000;
const KINDS: [Kind; 4] = [Kind::EtcdCluster, Kind::Pod, Kind::PersistentVolumeClaim, Kind::Service];

fn name(index: usize) -> String {
    format!("cluster-{index:05}")
}

fn all_objects() -> BTreeMap<Kind, Vec<Object>> {
    let mut objects = BTreeMap::<Kind, Vec<Object>>::new();
    for object in (0..CLUSTERS_COUNT).flat_map(|index| Formed::new(&name(index), 3).objects) {
        objects.entry(object.kind()).or_default().push(object);
    }
    objects
}

fn listed(objects: &BTreeMap<Kind, Vec<Object>>) -> Cache {
    let mut cache = Cache::default();
    for (kind, objects) in objects {
        cache.apply(*kind, WatchEvent::Relisted(objects.clone()));
    }
    cache
}

/// The objects one after another, each in a new state.
struct Changes {
    pods: Vec<Pod>,
    version: u64,
}

impl Changes {
    fn next(&mut self) -> Object {
        self.version += 1;
        let count = self.pods.len() as u64;
        // A step that visits every pod before it visits one twice.
        let pod = &mut self.pods[usize::try_from(self.version * 7919 % count).expect("an index")];
        pod.metadata.resource_version = Some(self.version.to_string());
        pod.clone().into_object()
    }
}

fn cache(criterion: &mut Criterion) {
    let before = resident().expect("there is /proc");
    let mut cache = Cache::default();
    // One by one, as a watch hands them over: what is counted is what the cache keeps, not what it was made of.
    for object in (0..CLUSTERS_COUNT).flat_map(|index| Formed::new(&name(index), 3).objects) {
        cache.apply(object.kind(), WatchEvent::Applied(object));
    }
    let used = resident().expect("there is /proc").saturating_sub(before);
    let objects = all_objects();
    let count: usize = objects.values().map(Vec::len).sum();
    println!("memory of {CLUSTERS_COUNT} clusters of 3 in the cache ({count} objects): {} MiB", mebibytes(used));
    assert!(KINDS.iter().all(|kind| objects[kind].len() >= CLUSTERS_COUNT));

    let mut group = criterion.benchmark_group("cache of 10,000 clusters");
    group.sample_size(10);
    group.bench_function("first list of all kinds", |bencher| bencher.iter(|| listed(black_box(&objects))));
    group.bench_function("the same list again", |bencher| {
        bencher.iter_batched(
            || objects.clone(),
            |objects| {
                for (kind, objects) in objects {
                    assert!(cache.apply(kind, WatchEvent::Relisted(objects)).is_empty());
                }
            },
            BatchSize::PerIteration,
        );
    });
    group.sample_size(100);
    let pods = objects[&Kind::Pod].iter().filter_map(Object::typed::<Pod>).take(5000).map(|pod| Pod::clone(&pod));
    let mut changes = Changes { pods: pods.collect(), version: 1 };
    group.bench_function("one pod changes", |bencher| {
        bencher.iter_batched(
            || changes.next(),
            |pod| assert_eq!(cache.apply(Kind::Pod, WatchEvent::Applied(pod)).len(), 1),
            BatchSize::SmallInput,
        );
    });
    let keys: Vec<_> = (0..CLUSTERS_COUNT).map(|index| ObjectKey::new(NAMESPACE, name(index))).collect();
    let mut keys = keys.iter().cycle();
    group.bench_function("the objects of one cluster", |bencher| {
        bencher.iter(|| View::cached(&cache, keys.next().expect("a cycle")).expect("it is there"));
    });
    group.finish();
}

fn queue(criterion: &mut Criterion) {
    let target = |index| Target { controller: Controller::Cluster, key: ObjectKey::new(NAMESPACE, name(index)) };
    let targets: Vec<_> = (0..CLUSTERS_COUNT).map(target).collect();
    let full = || {
        let mut queue = Queue::default();
        for (index, target) in targets.iter().enumerate() {
            queue.add(target, SignedDuration::from_millis(index as i64));
        }
        queue
    };
    let mut group = criterion.benchmark_group("queue of 10,000 clusters");
    group.bench_function("filled and emptied", |bencher| {
        bencher.iter(|| {
            let mut queue = full();
            let end = SignedDuration::from_hours(1);
            while let Some(target) = queue.pop(end) {
                queue.finish(&target, end, Finished::Again(None));
            }
            assert!(queue.is_empty());
        });
    });
    let mut queue = full();
    let mut now = SignedDuration::from_hours(1);
    group.bench_function("one taken and put back for a minute later", |bencher| {
        bencher.iter(|| {
            now += SignedDuration::from_millis(10);
            let target = queue.pop(now).expect("one is always due");
            queue.finish(&target, now, Finished::Again(Some(SignedDuration::from_secs(60))));
        });
    });
    group.finish();
}

criterion_group!(benches, cache, queue);
criterion_main!(benches);
