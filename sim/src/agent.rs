//! The agent's fetch in a pod, as its own task: it talks to the store and may take long, fail, or be killed. What it
//! does is the operator's own code.

use etcd_operator::agent::command::Fetch;
use etcd_operator::agent::fetch::{SNAPSHOT_CHANGED_EXIT_CODE, fetch};
use etcd_operator::ports::Credentials;

use crate::etcd::VolumeId;
use crate::files::Files;
use crate::network::Place;
use crate::port::Caller;
use crate::port::store::SimStores;
use crate::world::Shared;

/// What is fetched, and for which container.
pub struct Job {
    /// The pod's uid.
    pub pod: String,
    /// Its container.
    pub container: String,
    /// The container's attempt.
    pub attempt: u32,
    /// A copy of what the container sees: what was fetched is put into the world in the end, all or nothing.
    pub files: Files,
    /// The directory that receives the file.
    pub volume: VolumeId,
    /// The file in it.
    pub path: String,
    /// What the command line says.
    pub fetch: Fetch,
    /// The Secret's data, as mounted.
    pub credentials: Credentials,
}

/// Begins.
pub fn spawn(shared: &Shared, place: Place, job: Job) {
    let caller = Caller { shared: shared.clone(), place, incarnation: 0 };
    madsim::task::spawn(async move {
        let result = work(&caller, &job).await;
        let mut world = caller.shared.enter();
        let alive = world.runtime.get(&job.pod).is_some_and(|pod| {
            let container = pod.containers.get(&job.container);
            container.is_some_and(|container| container.start.attempt == job.attempt && container.exited.is_none())
        });
        if !alive {
            return;
        }
        let (code, message) = match result {
            Ok(()) => {
                if let Some(bytes) = job.files.read(&job.fetch.to) {
                    world.etcds.volumes.entry(job.volume).or_default().files.insert(job.path, bytes);
                }
                (0, String::new())
            }
            Err((code, message)) => (code, message),
        };
        world.end(&job.pod, &job.container, job.attempt, (code, None), &message);
        drop(world);
        caller.shared.poke();
    });
}

/// The exit code and the last words of the agent, if it fails.
async fn work(caller: &Caller, job: &Job) -> Result<(), (i32, String)> {
    let stores = SimStores(caller.clone());
    let credentials = |_: &str| Ok(job.credentials.clone());
    fetch(&job.fetch, &stores, credentials, &job.files).await.map(drop).map_err(|error| {
        let code = if error.is_changed() { SNAPSHOT_CHANGED_EXIT_CODE } else { 1 };
        (code, error.to_string())
    })
}
