//! The same requests against a real API server and against fake-k8s: what differs is shown, counted, and made small.
#![allow(clippy::disallowed_methods, reason = "a real server lives in the time of this machine")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use fake_k8s::conformance::client::{InProcess, OverHttp};
use fake_k8s::conformance::compare::{Difference, differences};
use fake_k8s::conformance::corpus::{self, Recording};
use fake_k8s::conformance::generate::{Shrinking, sequence};
use fake_k8s::conformance::known::known;
use fake_k8s::conformance::mask::mask;
use fake_k8s::conformance::play::{Answer, play};
use fake_k8s::conformance::sequence::Sequence;
use fake_k8s::conformance::table::Table;
use fake_k8s::conformance::{Api, Call, bodies, fresh_server};
use fake_k8s::process::sandbox;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

use crate::kubernetes::{self, Controllers, Kubernetes};
use crate::live::inside::{End, NO_SANDBOX};

/// How long a new definition may take to be served.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is small after so long is small enough.
const SHRINK_PATIENCE: Duration = Duration::from_secs(45);

/// What to play, and what to do with it.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// How many sequences.
    #[arg(long, default_value_t = 200)]
    pub sequences: u64,
    /// Requests in each.
    #[arg(long, default_value_t = 30)]
    pub length: usize,
    /// The first seed; the others follow it.
    #[arg(long, default_value_t = 1)]
    pub first: u64,
    /// Sequences at a time.
    #[arg(long, default_value_t = 32)]
    pub jobs: usize,
    /// Differences that are shown: of each kind one, the most frequent first.
    #[arg(long, default_value_t = 20)]
    pub show: usize,
    /// Makes the sequence of this seed as small as one on which the servers still differ, and shows it.
    #[arg(long)]
    pub shrink: Option<u64>,
    /// Writes what the real server said to this file, for the sequences that together show most.
    #[arg(long)]
    pub record: Option<PathBuf>,
    /// How many sequences are recorded.
    #[arg(long, default_value_t = 60)]
    pub keep: usize,
    /// Writes the fidelity table to this file (Markdown), and beside it as JSON.
    #[arg(long)]
    pub table: Option<PathBuf>,
}

impl Options {
    /// As a command line.
    pub fn arguments(&self) -> Vec<String> {
        let mut all = vec![
            format!("--sequences={}", self.sequences),
            format!("--length={}", self.length),
            format!("--first={}", self.first),
            format!("--jobs={}", self.jobs),
            format!("--show={}", self.show),
            format!("--keep={}", self.keep),
        ];
        all.extend(self.shrink.map(|seed| format!("--shrink={seed}")));
        let path =
            |name: &str, path: &Option<PathBuf>| path.as_ref().map(|path| format!("--{name}={}", path.display()));
        all.extend(path("record", &self.record));
        all.extend(path("table", &self.table));
        all
    }
}

/// Starts the real server in a new sandbox and plays. To be called before any thread starts.
///
/// # Errors
/// When something does not come up, or does not answer.
pub fn run(options: &Options, logs: &Path) -> anyhow::Result<End> {
    let programs = kubernetes::programs(&|_| {})?;
    sandbox::enter(|| Ok(Vec::new())).context(NO_SANDBOX)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let end = runtime.block_on(async {
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let work = async {
            let real = Kubernetes::start(&programs, Controllers::None, logs).await?;
            let api = real.api()?;
            define(&api).await?;
            let end = match options.shrink {
                Some(seed) => shrink(&api, seed, options.length).await,
                None => compare(api, options).await,
            };
            real.stop().await;
            end
        };
        tokio::select! {
            end = work => end,
            _ = terminate.recv() => Ok(End::Interrupted),
            _ = interrupt.recv() => Ok(End::Interrupted),
        }
    });
    runtime.shutdown_background();
    end
}

/// Makes the custom resource, and waits until it is served.
async fn define(api: &OverHttp) -> anyhow::Result<()> {
    let call = Call {
        method: "POST".into(),
        uri: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".into(),
        content_type: "application/json".into(),
        accept: String::new(),
        body: bodies::definition().to_string().into_bytes(),
    };
    let made = api.call(call).await?;
    if made.code != 201 {
        bail!("the definition was refused: {}", made.body);
    }
    let (start, list) = (Instant::now(), format!("/apis/{}/v1/widgets", bodies::GROUP));
    loop {
        let reply = api.call(kubernetes::get(&list)).await?;
        if reply.code == 200 {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            bail!("the custom resource is not served: {}", reply.body);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Both sides of one sequence, masked.
async fn both(api: &OverHttp, sequence: &Sequence) -> anyhow::Result<(Vec<Answer>, Vec<Answer>)> {
    let fake = InProcess(fresh_server(sequence.seed)?);
    let (real, fake) = tokio::try_join!(play(api, sequence), play(&fake, sequence))?;
    Ok((mask(sequence, &real), mask(sequence, &fake)))
}

/// Where two servers differed in one way.
struct Kind {
    count: u64,
    example: (u64, Difference),
}

#[derive(Default)]
struct Found {
    table: Table,
    kinds: BTreeMap<String, Kind>,
    recordings: BTreeMap<u64, Recording>,
}

async fn compare(api: OverHttp, options: &Options) -> anyhow::Result<End> {
    let start = Instant::now();
    let (api, found) = (Arc::new(api), Arc::new(Mutex::new(Found::default())));
    let places = Arc::new(Semaphore::new(options.jobs.max(1)));
    let mut tasks = tokio::task::JoinSet::new();
    for seed in options.first..options.first + options.sequences {
        let place = places.clone().acquire_owned().await.context("no place to play")?;
        let (api, found, length, record) = (api.clone(), found.clone(), options.length, options.record.is_some());
        tasks.spawn(async move {
            let sequence = sequence(seed, length);
            let (real, fake) = both(&api, &sequence).await.with_context(|| format!("seed {seed}"))?;
            let different = differences(&sequence, &real, &fake);
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.table.count(&sequence, &different);
            let unknown: Vec<Difference> = different.into_iter().filter(|one| known(one).is_none()).collect();
            // What comes after the first is mostly its consequence.
            let first = unknown.first().map(|one| one.step);
            for difference in unknown.into_iter().filter(|one| Some(one.step) == first) {
                let kind = found.kinds.entry(signature(&difference));
                kind.or_insert_with(|| Kind { count: 0, example: (seed, difference) }).count += 1;
            }
            // What is still different is told by this command; what is recorded must stay as it is.
            if record && first.is_none() {
                found.recordings.insert(seed, Recording { sequence, answers: real });
            }
            drop(place);
            anyhow::Ok(())
        });
        while let Some(done) = tasks.try_join_next() {
            done.context("a sequence broke off")??;
        }
    }
    while let Some(done) = tasks.join_next().await {
        done.context("a sequence broke off")??;
    }
    let found =
        Arc::into_inner(found).context("somebody still plays")?.into_inner().unwrap_or_else(PoisonError::into_inner);
    tell(&found, options, start.elapsed());
    if let Some(path) = &options.record {
        let recordings = corpus::choose(found.recordings.into_values().collect(), options.keep);
        std::fs::write(path, corpus::write(&recordings)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(path) = &options.table {
        std::fs::write(path, found.table.markdown()).with_context(|| format!("cannot write {}", path.display()))?;
        let json = serde_json::to_string_pretty(&found.table)?;
        std::fs::write(path.with_extension("json"), json + "\n").context("cannot write the table as JSON")?;
    }
    Ok(if found.kinds.is_empty() { End::Passed } else { End::Failed })
}

/// Differences that have the same one are of one kind: numbers and places in lists do not count.
fn signature(difference: &Difference) -> String {
    let place: Vec<&str> =
        difference.place.split('/').map(|step| if step.parse::<u32>().is_ok() { "*" } else { step }).collect();
    let short = |value: &serde_json::Value| {
        let text: String = value.to_string().chars().filter(|c| !c.is_ascii_digit()).take(90).collect();
        text
    };
    let about = if difference.place == "code" { "" } else { difference.does.as_str() };
    format!("{about} {} {} {}", place.join("/"), short(&difference.real), short(&difference.fake))
}

#[allow(clippy::print_stdout, reason = "this is what the command is for")]
fn tell(found: &Found, options: &Options, took: Duration) {
    let mut kinds: Vec<&Kind> = found.kinds.values().collect();
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.count));
    for kind in kinds.iter().take(options.show) {
        let (seed, difference) = &kind.example;
        println!(
            "{} x {} at {} (seed {seed}, step {})",
            kind.count, difference.does, difference.place, difference.step
        );
        println!("    real {}", difference.real);
        println!("    fake {}", difference.fake);
    }
    let sum = found.table.sum();
    println!("{} kinds of differences in {} sequences", kinds.len(), found.table.sequences);
    println!(
        "{} of {} steps agreed, {} with known differences ({:.1} s)",
        sum.agreed,
        sum.total,
        sum.known,
        took.as_secs_f64()
    );
}

#[allow(clippy::print_stdout, reason = "this is what the command is for")]
async fn shrink(api: &OverHttp, seed: u64, length: usize) -> anyhow::Result<End> {
    let mut shrinking = Shrinking::new(seed, length);
    let (mut smallest, start) = (None, Instant::now());
    loop {
        let sequence = shrinking.current();
        let (real, fake) = both(api, &sequence).await?;
        let mut different = differences(&sequence, &real, &fake);
        different.retain(|difference| known(difference).is_none());
        let differed = !different.is_empty();
        if differed {
            smallest = Some((sequence, real, fake, different));
        } else if smallest.is_none() {
            println!("seed {seed}: no difference");
            return Ok(End::Passed);
        }
        if !shrinking.shrink(differed) || start.elapsed() > SHRINK_PATIENCE {
            break;
        }
    }
    let (sequence, real, fake, different) = smallest.context("it differed once")?;
    let last = different.iter().map(|difference| difference.step).max().unwrap_or_default();
    for (at, step) in sequence.steps.iter().enumerate().take(last + 1) {
        println!("{at}: {} {} {}", step.method, step.path, serde_json::to_string(&step.body)?);
        println!("    real {} {}", real[at].code, real[at].body);
        if real[at] != fake[at] {
            println!("    fake {} {}", fake[at].code, fake[at].body);
        }
    }
    Ok(End::Failed)
}
