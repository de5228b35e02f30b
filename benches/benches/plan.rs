//! The decision: `plan` of clusters of 3 and 7 members, when all is well and when one of them is to be replaced.
//!
//! The budget is tens of microseconds for 7 members. Beside it, a whole pass over a converged cluster but for what it
//! waits for: the objects from the cache, validation, the plan, the status.

use benches::clusters::{Formed, cluster, now, settings};
use criterion::{Criterion, criterion_group, criterion_main};
use etcd_operator::api::EtcdClusterStatus;
use etcd_operator::cache::Cache;
use etcd_operator::plan::plan;
use etcd_operator::ports::WatchEvent;
use etcd_operator::status::status;
use etcd_operator::validate::validate;
use std::hint::black_box;

fn cache_of(formed: &Formed) -> Cache {
    let mut cache = Cache::default();
    for object in &formed.objects {
        cache.apply(object.kind(), WatchEvent::Applied(object.clone()));
    }
    cache
}

fn plans(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("plan");
    for size in [3, 7] {
        let formed = Formed::new("a-cluster", size);
        let cache = cache_of(&formed);
        let (desired, converged) = (&formed.desired, formed.observe(&cache));
        let idle = plan(desired, &converged, now());
        assert!(idle.steps.is_empty() && idle.refused.is_empty(), "nothing is to be done: {idle:?}");
        group.bench_function(format!("{size} members, converged"), |bencher| {
            bencher.iter(|| plan(black_box(desired), black_box(&converged), now()));
        });
        let failed = formed.observe_with_a_failed_member(&cache);
        let busy = plan(desired, &failed, now());
        assert!(!busy.steps.is_empty(), "the member is to be replaced: {busy:?}");
        group.bench_function(format!("{size} members, one failed"), |bencher| {
            bencher.iter(|| plan(black_box(desired), black_box(&failed), now()));
        });
    }
    group.finish();
}

fn passes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pass without its waiting");
    for size in [3, 7] {
        let formed = Formed::new("a-cluster", size);
        let cache = cache_of(&formed);
        let (cluster, settings) = (cluster("a-cluster", size), settings());
        let pass = |previous: &EtcdClusterStatus| {
            let observed = formed.observe(black_box(&cache));
            let desired = validate(black_box(&cluster), None, &settings);
            let plan = plan(desired.as_ref().expect("the spec is valid"), &observed, now());
            status(previous, &desired, &observed, &plan, now())
        };
        let settled = pass(&pass(&EtcdClusterStatus::default()));
        assert_eq!(pass(&settled), settled, "a converged cluster's status stands still");
        group
            .bench_function(format!("{size} members, converged"), |bencher| bencher.iter(|| pass(black_box(&settled))));
    }
    group.finish();
}

criterion_group!(benches, plans, passes);
criterion_main!(benches);
