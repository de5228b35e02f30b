//! The operator's etcd adapter against real etcd processes of three generations, on loopback.
//!
//! What it shows: that the same call means the same thing to 3.2, 3.4 and 3.6, and that every "no" arrives as the right
//! kind of error. What it does not: lost answers (the adapter's own tests have them) and slow networks.
#![allow(clippy::print_stdout, reason = "a test tells what it builds and where its logs are")]

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use etcd_client::{AlarmAction, AlarmOptions, AlarmType, Client};
use etcd_operator::adapters::dial::Dialer;
use etcd_operator::adapters::etcd::EtcdAdapter;
use etcd_operator::adapters::tls;
use etcd_operator::model::{Alarm, MemberId, MemberStatus, Revision};
use etcd_operator::ports::etcd::Snapshot;
use etcd_operator::ports::{Etcd, EtcdAccess, EtcdError, EtcdTls};
use futures::StreamExt;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use scenarios::binaries;
use sha2::{Digest, Sha256};

/// How long a process may take to come up, on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(60);

/// Members of one cluster; they and their directory are gone when this is dropped.
struct Cluster {
    etcd: PathBuf,
    directory: PathBuf,
    members: Vec<Member>,
    scheme: &'static str,
    flags: Vec<String>,
}

struct Member {
    name: String,
    client_url: String,
    peer_url: String,
    process: Option<Child>,
}

/// A port for a server that is started a moment later. From below the range that the kernel gives to outgoing connections
/// (32768 and up, ip(7)): one of those may take a port that was free when it was looked at.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let base = 12_000 + u16::try_from(std::process::id() % 300).expect("below 300") * 50;
    loop {
        let port = base + NEXT.fetch_add(1, Ordering::Relaxed) % 2_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

impl Cluster {
    fn new(version: &str, test: &str) -> Self {
        let installed = binaries::locate("etcd", version, &|line| println!("{line}")).expect("etcd can be built");
        let name = format!("etcd-adapter-{test}-{version}-{}", std::process::id());
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&directory).expect("a place for data");
        let etcd = installed.program("etcd").expect("the catalogue builds it").to_owned();
        Self { etcd, directory, members: Vec::new(), scheme: "http", flags: Vec::new() }
    }

    /// A member that is known and not started.
    fn prepare(&mut self, name: &str) {
        let [client, peer] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
        let (client_url, peer_url) = (format!("{}://{client}", self.scheme), format!("http://{peer}"));
        self.members.push(Member { name: name.to_owned(), client_url, peer_url, process: None });
    }

    fn start(&mut self, name: &str, state: &str) {
        let initial: Vec<_> =
            self.members.iter().map(|member| format!("{}={}", member.name, member.peer_url)).collect();
        let log = File::create(self.directory.join(format!("{name}.log"))).expect("a log");
        let data = self.directory.join(name);
        let member = self.members.iter_mut().find(|member| member.name == name).expect("prepared");
        let process = Command::new(&self.etcd)
            .arg(format!("--name={name}"))
            .arg(format!("--data-dir={}", data.display()))
            .arg(format!("--listen-client-urls={}", member.client_url))
            .arg(format!("--advertise-client-urls={}", member.client_url))
            .arg(format!("--listen-peer-urls={}", member.peer_url))
            .arg(format!("--initial-advertise-peer-urls={}", member.peer_url))
            .arg(format!("--initial-cluster={}", initial.join(",")))
            .arg(format!("--initial-cluster-state={state}"))
            .args(&self.flags)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        member.process = Some(process.expect("etcd starts"));
    }

    fn kill(&mut self, name: &str) {
        let member = self.members.iter_mut().find(|member| member.name == name).expect("prepared");
        let mut process = member.process.take().expect("started");
        process.kill().and_then(|()| process.wait()).expect("ours to kill");
    }

    fn member(&self, name: &str) -> &Member {
        self.members.iter().find(|member| member.name == name).expect("prepared")
    }

    fn access(&self, names: &[&str]) -> EtcdAccess {
        let endpoints = names.iter().map(|name| self.member(name).client_url.clone()).collect();
        EtcdAccess { endpoints, tls: None }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for process in self.members.iter_mut().filter_map(|member| member.process.as_mut()) {
            let _ = process.kill().and_then(|()| process.wait());
        }
        if std::thread::panicking() {
            println!("logs are kept in {}", self.directory.display());
        } else {
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

/// Asks until the answer is good.
#[allow(clippy::disallowed_methods, reason = "real processes take real time")]
async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Result<T, String>) -> T {
    let started = Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(why) => assert!(started.elapsed() < PATIENCE, "{what}: {why}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn until_led(etcd: &EtcdAdapter, access: &EtcdAccess) -> MemberStatus {
    until("a leader", async || match etcd.status(access).await {
        Ok(status) if status.leader.is_some() => Ok(status),
        Ok(status) => Err(format!("{status:?}")),
        Err(error) => Err(error.to_string()),
    })
    .await
}

async fn put(access: &EtcdAccess, keys: usize) {
    let mut client = Client::connect(&access.endpoints, None).await.expect("connected");
    for key in 0..keys {
        client.put(format!("key-{key}"), vec![7; 100_000], None).await.expect("written");
    }
}

fn adapter() -> EtcdAdapter {
    tls::install_crypto_provider();
    EtcdAdapter::new(Dialer::tcp())
}

fn is_refused<T: std::fmt::Debug>(answer: Result<T, EtcdError>, words: &str) {
    match answer {
        Err(EtcdError::Refused { message }) if message.contains(words) => {}
        other => panic!("expected a refusal with {words:?}, got {other:?}"),
    }
}

fn is_unsupported<T: std::fmt::Debug>(answer: &Result<T, EtcdError>) {
    assert!(matches!(answer, Err(EtcdError::Unsupported { .. })), "{answer:?}");
}

/// etcd keeps the alarm of whoever it names, a member or not, and refuses writes while it is raised.
async fn alarms_outlive_their_members_until_they_are_disarmed(etcd: &EtcdAdapter, access: &EtcdAccess, modern: bool) {
    // CORRUPT is of 3.3 and later.
    let (alarm, kind) =
        if modern { (Alarm::Corrupt, AlarmType::Corrupt) } else { (Alarm::NoSpace, AlarmType::Nospace) };
    let gone = MemberId(0xdead);
    let mut client = Client::connect([access.endpoints[0].as_str()], None).await.expect("it is up");
    let mut options = AlarmOptions::new();
    options.with_member(gone.0);
    client.alarm(AlarmAction::Activate, kind, Some(options)).await.expect("it is raised");
    assert_eq!(etcd.alarms(access).await, Ok(vec![(gone, alarm)]));
    let refused = client.put("key", "value", None).await.expect_err("writes are refused").to_string();
    assert!(refused.contains(if modern { "corrupt" } else { "space exceeded" }), "{refused}");
    assert!(etcd.quorum_read(access).await.is_ok(), "and reads are not");
    assert_eq!(etcd.disarm(access, gone, alarm).await, Ok(()));
    assert_eq!(etcd.disarm(access, gone, alarm).await, Ok(()), "one that is not raised is as good");
    assert_eq!(etcd.alarms(access).await, Ok(Vec::new()));
}

async fn every_call_means_the_same(version: &str) {
    let modern = version != "3.2.25";
    let etcd = adapter();
    let mut cluster = Cluster::new(version, "calls");
    for name in ["a", "b"] {
        cluster.prepare(name);
    }
    for name in ["a", "b"] {
        cluster.start(name, "new");
    }
    let (a, b) = (cluster.access(&["a"]), cluster.access(&["b"]));
    let (of_a, of_b) = (until_led(&etcd, &a).await, until_led(&etcd, &b).await);
    assert_eq!((of_a.version.as_str(), of_a.cluster_id, of_a.learner), (version, of_b.cluster_id, false));
    assert_ne!(of_a.member_id, of_b.member_id);

    let members = etcd.members(&a, true).await.expect("a quorum is there");
    assert_eq!(members, etcd.members(&b, false).await.expect("it is up"));
    assert_eq!((members.cluster_id, members.members.len()), (of_a.cluster_id, 2));
    assert!(members.members.is_sorted_by_key(|member| member.id));
    let entry = members.by_id(of_a.member_id).expect("it is a member");
    assert_eq!(
        (entry.name.as_str(), &entry.client_urls, &entry.peer_urls),
        ("a", &a.endpoints, &vec![cluster.member("a").peer_url.clone()])
    );
    assert_eq!(etcd.alarms(&a).await, Ok(Vec::new()));
    alarms_outlive_their_members_until_they_are_disarmed(&etcd, &a, modern).await;

    put(&a, 20).await;
    let revision = etcd.quorum_read(&b).await.expect("a quorum is there");
    assert_eq!(revision, Revision(21));
    // etcd writes its file in batches.
    let written = async || match etcd.status(&a).await.map_err(|error| error.to_string())? {
        after if after.db_size > 2_000_000 => Ok(after),
        after => Err(format!("{after:?}")),
    };
    let after = until("the file has grown", written).await;
    assert!(after.raft_applied_index >= 20 && after.revision == revision, "{after:?}");
    snapshot_is_whole(&etcd, &a).await;
    if modern {
        let (first, second) = (etcd.hash_kv(&a, revision).await, etcd.hash_kv(&b, Revision(0)).await);
        assert_eq!((first.clone().map(|(_, at)| at), first), (Ok(revision), second));
    } else {
        is_unsupported(&etcd.hash_kv(&a, revision).await);
    }

    // The first endpoint is nobody's; the second takes it.
    cluster.prepare("nobody");
    let nobody = cluster.access(&["nobody", "a"]);
    cluster.members.retain(|member| member.name != "nobody");
    assert_eq!(etcd.status(&nobody).await.expect("a takes it").member_id, of_a.member_id);

    membership_changes(&etcd, &mut cluster, modern).await;

    cluster.kill("b");
    let lost = etcd.quorum_read(&a).await;
    assert!(matches!(lost, Err(EtcdError::Unavailable { .. })), "{lost:?}");
    let lost = etcd.members(&a, true).await;
    assert!(matches!(lost, Err(EtcdError::Unavailable { .. })), "{lost:?}");
    assert_eq!(etcd.members(&a, false).await.expect("it needs no quorum").members.len(), 2);
    let gone = etcd.status(&b).await;
    assert!(matches!(gone, Err(EtcdError::Unavailable { .. })), "{gone:?}");
    let sent = etcd.member_add(&a, "http://127.0.0.1:1", false).await;
    assert!(!matches!(sent, Ok(_) | Err(EtcdError::Unauthorised { .. })), "{sent:?}");
}

async fn snapshot_is_whole(etcd: &EtcdAdapter, access: &EtcdAccess) {
    let asked = etcd.status(access).await.expect("it is up");
    let Snapshot { status, chunks: mut stream } = etcd.snapshot(access).await.expect("it is up");
    assert_eq!((status.member_id, status.cluster_id), (asked.member_id, asked.cluster_id));
    assert!(status.revision >= asked.revision);
    let (mut bytes, mut chunks) = (Vec::new(), 0);
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&chunk.expect("a chunk"));
        chunks += 1;
    }
    assert!(chunks > 2 && bytes.len() > 2_000_000, "{chunks} chunks, {} bytes", bytes.len());
    let (database, sum) = bytes.split_at(bytes.len() - 32);
    assert_eq!(Sha256::digest(database).as_slice(), sum);
}

/// Adds c, gives it its vote, moves the leader, removes c again.
async fn membership_changes(etcd: &EtcdAdapter, cluster: &mut Cluster, modern: bool) {
    let a = cluster.access(&["a"]);
    cluster.prepare("c");
    let peer_url = cluster.member("c").peer_url.clone();
    let taken = cluster.member("b").peer_url.clone();
    // etcd adds nobody within seconds of an election, and says that its cluster is unhealthy.
    let settled = async || match etcd.member_add(&a, &taken, false).await {
        Err(EtcdError::Refused { message }) if message.contains("unhealthy") => Err(message),
        answer => Ok(answer),
    };
    is_refused(until("a settled cluster", settled).await, "exists");
    let id = if modern {
        let id = until("the learner", async || {
            etcd.member_add(&a, &peer_url, true).await.map_err(|error| error.to_string())
        })
        .await;
        is_refused(etcd.member_add(&a, "http://127.0.0.1:1", true).await, "too many learner");
        is_refused(etcd.member_promote(&a, id).await, "in sync");
        cluster.start("c", "existing");
        let c = cluster.access(&["c"]);
        assert!(until_led(etcd, &c).await.learner);
        assert_eq!(
            etcd.members(&a, true).await.expect("a quorum").learners().map(|member| member.id).collect::<Vec<_>>(),
            [id]
        );
        until("the promotion", async || etcd.member_promote(&a, id).await.map_err(|error| error.to_string())).await;
        is_refused(etcd.member_promote(&a, id).await, "");
        id
    } else {
        is_unsupported(&etcd.member_add(&a, &peer_url, true).await);
        assert_eq!(etcd.members(&a, true).await.expect("a quorum").members.len(), 2);
        is_unsupported(&etcd.member_promote(&a, MemberId(1)).await);
        let id =
            until("the voter", async || etcd.member_add(&a, &peer_url, false).await.map_err(|error| error.to_string()))
                .await;
        cluster.start("c", "existing");
        until_led(etcd, &cluster.access(&["c"])).await;
        id
    };
    assert_eq!(etcd.members(&a, true).await.expect("a quorum").voters().count(), 3);
    until("c is in the list with its name", async || {
        let members = etcd.members(&a, true).await.map_err(|error| error.to_string())?;
        members.by_id(id).filter(|member| member.has_started()).map(drop).ok_or_else(|| format!("{members:?}"))
    })
    .await;

    let leader = until_led(etcd, &a).await.leader.expect("led");
    let statuses =
        [etcd.status(&a).await, etcd.status(&cluster.access(&["b"])).await].map(|status| status.expect("up"));
    let name = ["a", "b"][usize::from(statuses[1].member_id == leader)];
    let to = statuses.iter().map(|status| status.member_id).find(|&id| id != leader).expect("two members");
    if modern {
        let other = if name == "a" { "b" } else { "a" };
        is_refused(etcd.move_leader(&cluster.access(&[other]), to).await, "not leader");
        etcd.move_leader(&cluster.access(&[name]), to).await.expect("moved");
        assert_eq!(until_led(etcd, &cluster.access(&[name])).await.leader, Some(to));
    } else {
        is_unsupported(&etcd.move_leader(&cluster.access(&[name]), to).await);
    }

    until("the removal", async || etcd.member_remove(&a, id).await.map_err(|error| error.to_string())).await;
    assert_eq!(etcd.members(&a, true).await.expect("a quorum").by_id(id), None);
    is_refused(etcd.member_remove(&a, id).await, "not found");
    cluster.kill("c");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_means_the_same_to_etcd_3_2() {
    every_call_means_the_same("3.2.25").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_means_the_same_to_etcd_3_4() {
    every_call_means_the_same("3.4.13").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_means_the_same_to_etcd_3_6() {
    every_call_means_the_same("3.6.10").await;
}

/// A certificate authority, and what it signs.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("signed").pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// Certificate and key, in PEM.
    fn signed(&self, name: &str) -> (String, String) {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("an address");
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        (certificate.pem(), key.serialize_pem())
    }
}

fn refused_by_tls<T: std::fmt::Debug>(answer: &Result<T, EtcdError>) -> Result<(), String> {
    match answer {
        Err(EtcdError::Unauthorised { .. }) => Ok(()),
        Err(EtcdError::Unavailable { message } | EtcdError::Ambiguous { message }) => Err(message.clone()),
        other => panic!("it must not get through, nor reach etcd: {other:?}"),
    }
}

async fn tls_is_checked_on_both_sides(version: &str) {
    let etcd = adapter();
    let (ours, foreign) = (Authority::new("ours"), Authority::new("foreign"));
    let mut cluster = Cluster::new(version, "tls");
    cluster.scheme = "https";
    let (certificate, key) = ours.signed("server");
    for (file, content) in [("ca.crt", &ours.pem), ("server.crt", &certificate), ("server.key", &key)] {
        fs::write(cluster.directory.join(file), content).expect("written");
    }
    let path = |file: &str| cluster.directory.join(file).display().to_string();
    cluster.flags = vec![
        format!("--cert-file={}", path("server.crt")),
        format!("--key-file={}", path("server.key")),
        format!("--trusted-ca-file={}", path("ca.crt")),
        "--client-cert-auth".to_owned(),
    ];
    cluster.prepare("a");
    cluster.start("a", "new");

    let with = |ca: &Authority, signed_by: &Authority| {
        let (certificate, key) = signed_by.signed("client");
        let tls = EtcdTls { ca: ca.pem.clone().into(), certificate: certificate.into(), key: key.into() };
        EtcdAccess { tls: Some(tls), ..cluster.access(&["a"]) }
    };
    let good = with(&ours, &ours);
    assert_eq!(until_led(&etcd, &good).await.version, version);
    assert_eq!(etcd.members(&good, true).await.expect("a quorum").members.len(), 1);
    let wrong = [
        ("its authority", with(&foreign, &ours)),
        ("our certificate", with(&ours, &foreign)),
        ("none", cluster.access(&["a"])),
    ];
    for (what, access) in wrong {
        // Where the server judges us last (TLS 1.3), its alert can be lost behind the connection's reset.
        until(what, async || refused_by_tls(&etcd.status(&access).await)).await;
        until(what, async || refused_by_tls(&etcd.member_remove(&access, MemberId(1)).await)).await;
    }
    let plain = EtcdAccess { endpoints: vec![good.endpoints[0].replace("https", "http")], tls: None };
    let answer = etcd.status(&plain).await;
    assert!(matches!(answer, Err(EtcdError::Unavailable { .. })), "{answer:?}");
    let garbage = EtcdTls { ca: b"no PEM".to_vec(), certificate: b"no PEM".to_vec(), key: b"no PEM".to_vec() };
    let answer = etcd.status(&EtcdAccess { tls: Some(garbage), ..good }).await;
    assert!(matches!(answer, Err(EtcdError::Unauthorised { .. })), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_checked_on_both_sides_by_etcd_3_2() {
    tls_is_checked_on_both_sides("3.2.25").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_checked_on_both_sides_by_etcd_3_6() {
    tls_is_checked_on_both_sides("3.6.10").await;
}
