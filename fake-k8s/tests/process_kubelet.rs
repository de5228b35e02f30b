//! The process kubelet end to end: pods of this very program as their image, in a sandbox, and nothing left of it after.
//!
//! It has its own `main`, because a sandbox must be entered before any thread starts. Run without arguments it starts itself
//! again as the driver (`--inside`), watches from outside, and looks for leftovers; inside a container it is the workload.
#![allow(clippy::disallowed_methods, reason = "this test is about real processes in real time")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a test program with its own main speaks on its own")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fake_k8s::controllers::object;
use fake_k8s::process::cluster::{Cluster, ClusterConfig};
use fake_k8s::process::images::{ImageFile, ImageRoot, ImageTable};
use fake_k8s::process::sandbox;
use fake_k8s::{Request, ResourceName};
use nix::sys::signal::{SigSet, Signal};
use serde_json::{Value, json};

/// In the command line of every container, so that leftovers can be told from other processes.
const MARK: &str = "--workload";
const PATIENCE: Duration = Duration::from_secs(30);

fn main() {
    sandbox::dispatch();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [MARK, rest @ ..] => workload(rest),
        ["--inside", how, mark] => inside(how, mark),
        ["--list", ..] => println!("process_kubelet: test"),
        _ => outside(),
    }
}

// ---- outside: start, look for leftovers ----

fn outside() {
    let mark = format!("mark-{}", std::process::id());
    let before = Machine::look();
    let own = std::env::current_exe().expect("a test has a program");
    let status = Command::new(&own).args(["--inside", "checks", &mark]).status().expect("start the driver");
    assert!(status.success(), "the checks inside failed: {status}");
    assert_nothing_left(&mark, &before);
    println!("ok: nothing is left after a clean end");

    let mut driver =
        Command::new(&own).args(["--inside", "wait", &mark]).stdout(Stdio::piped()).spawn().expect("start the driver");
    let mut lines = BufReader::new(driver.stdout.take().expect("it is piped")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line == "running")), "the driver did not start its pod");
    assert!(!marked(&mark).is_empty(), "the pod's process is to be seen from outside");
    let (all, inherited) = (marked(&mark), sockets("self"));
    let inodes: BTreeSet<String> =
        all.iter().flat_map(|line| sockets(line)).filter(|it| !inherited.contains(it)).collect();
    assert!(!inodes.is_empty(), "the pod listens");
    driver.kill().expect("kill -9 the driver");
    driver.wait().expect("it is a child");
    assert_nothing_left(&mark, &before);
    let still = inodes.intersection(&all_sockets()).cloned().collect::<Vec<_>>();
    assert_eq!(still, Vec::<String>::new(), "somebody still has a socket of the pod");
    println!("ok: nothing is left after kill -9");
}

fn assert_nothing_left(mark: &str, before: &Machine) {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let left = marked(mark);
        if left.is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "processes are left: {left:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(Machine::look().since(before), Vec::<String>::new(), "something is left on the machine");
}

/// What of a sandbox could stay on the machine, processes aside: links, network namespaces, mounts, the run's folder.
struct Machine(BTreeSet<String>);

impl Machine {
    fn look() -> Self {
        let names = |directory: &'static str| {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            entries.map(move |entry| format!("{directory}/{}", entry.file_name().to_string_lossy()))
        };
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("there is /proc");
        let points = mounts.lines().map(|line| line.split(' ').nth(4).unwrap_or_default());
        let mounts = points.filter(|point| point.contains("fake-k8s") || point.contains("netns"));
        let mounts = mounts.map(|point| format!("mount {point}"));
        Self(names("/sys/class/net").chain(names("/run/netns")).chain(names("/run/fake-k8s")).chain(mounts).collect())
    }

    fn since(&self, before: &Self) -> Vec<String> {
        self.0.difference(&before.0).cloned().collect()
    }
}

/// The sockets of a process, as the kernel numbers them; of a line of [`marked`].
fn sockets(line: &str) -> BTreeSet<String> {
    let pid = line.split(' ').next().unwrap_or_default();
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let links = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
    links.map(|link| link.to_string_lossy().into_owned()).filter(|link| link.starts_with("socket:")).collect()
}

/// Those of all processes: a port is open for as long as somebody has its socket.
fn all_sockets() -> BTreeSet<String> {
    let processes = fs::read_dir("/proc").expect("there is /proc").flatten();
    processes.flat_map(|process| sockets(&process.file_name().to_string_lossy())).collect()
}

/// Processes of this machine with the mark in their command line, this one aside.
fn marked(mark: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").expect("there is /proc").flatten();
    let lines = processes.filter_map(|process| {
        let pid: u32 = process.file_name().to_str()?.parse().ok()?;
        let line = fs::read_to_string(process.path().join("cmdline")).ok()?.replace('\0', " ");
        (pid != std::process::id() && line.contains(mark)).then(|| format!("{pid} {line}"))
    });
    lines.collect()
}

// ---- the workload ----

fn workload(words: &[&str]) -> ! {
    let code = match words {
        // Answers each connection with one HTTP response; ends well on SIGTERM.
        ["serve", port, text, ..] => serve(port, text),
        // Prints what a server answers.
        ["fetch", address, ..] => fetch(address).map_or_else(
            |why| {
                eprintln!("{why}");
                1
            },
            |text| {
                println!("{text}");
                0
            },
        ),
        // Appends to a file; the file named first must be there.
        ["write", needs, path, text, ..] => {
            let there = needs.is_empty() || Path::new(needs).exists();
            let written = there
                && fs::File::options()
                    .create(true)
                    .append(true)
                    .open(path)
                    .and_then(|mut file| writeln!(file, "{text}"))
                    .is_ok();
            i32::from(!written)
        }
        ["check", path, ..] => i32::from(!Path::new(path).exists()),
        ["fail", message, ..] => {
            fs::write("/dev/termination-log", message).expect("the message can be left");
            7
        }
        _ => 2,
    };
    std::process::exit(code)
}

fn serve(port: &str, text: &str) -> i32 {
    let mut set = SigSet::empty();
    set.add(Signal::SIGTERM);
    set.thread_block().expect("signals can be blocked");
    std::thread::spawn(move || {
        set.wait().expect("signals can be waited for");
        println!("leaving");
        std::process::exit(0);
    });
    let listener = TcpListener::bind(format!("0.0.0.0:{port}")).expect("the port is free in this pod");
    println!("serving {text}");
    let secret = fs::read_to_string("/secret/token").unwrap_or_default();
    let version = std::env::var("VERSION").unwrap_or_default();
    let hostname = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else { continue };
        let mut request = [0; 1024];
        let _ = stream.read(&mut request);
        let data = fs::read_to_string("/data/log").unwrap_or_default().lines().count();
        let body = format!("{text} {} {secret} v{version} data={data} pid={}", hostname.trim(), std::process::id());
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    }
    1
}

fn fetch(address: &str) -> Result<String, String> {
    let found = address.to_socket_addrs().map_err(|cause| format!("{address}: {cause}"))?.next();
    let mut stream = TcpStream::connect_timeout(&found.ok_or("no address")?, Duration::from_secs(2))
        .map_err(|cause| format!("{address}: {cause}"))?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).map_err(|cause| cause.to_string())?;
    write!(stream, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").map_err(|cause| cause.to_string())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|cause| cause.to_string())?;
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).ok_or_else(|| format!("no answer: {answer:?}"))
}

// ---- inside: the cluster and the checks ----

fn inside(how: &str, mark: &str) {
    let entered = sandbox::enter(|| Ok(vec![TcpListener::bind("127.0.0.1:0")?]));
    let sandbox = match entered {
        Ok(sandbox) => sandbox,
        Err(why) => {
            eprintln!("FAILED: this machine cannot run the process kubelet: {why}");
            std::process::exit(1);
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a tokio runtime").block_on(async {
        let own = std::env::current_exe().expect("a test has a program");
        let image = |version: &str| ImageRoot {
            files: vec![ImageFile { source: own.clone(), target: "/bin/workload".into() }],
            entrypoint: vec!["/bin/workload".to_owned(), MARK.to_owned()],
            env: vec![("VERSION".to_owned(), version.to_owned())],
            ..ImageRoot::default()
        };
        let table = ImageTable::default().with("workload:1", image("1")).with("workload:2", image("2"));
        let config = ClusterConfig { listeners: sandbox.listeners, ..ClusterConfig::new(Arc::new(table)) };
        let cluster = Cluster::start(config).await.expect("the cluster starts");
        let world = World { cluster, mark: mark.to_owned() };
        match how {
            "wait" => {
                let args = json!(["serve", "8080", "x", world.mark]);
                world.pod("server", &json!({"containers": [{"name": "c", "image": "workload:1", "args": args}]}));
                world.until("a pod runs", || world.is_ready("server")).await;
                println!("running");
                tokio::time::sleep(Duration::from_secs(600)).await;
            }
            _ => checks(world).await,
        }
    });
}

struct World {
    cluster: Cluster,
    mark: String,
}

impl World {
    fn handle(&self, request: &Request) -> Value {
        let answer = self.cluster.shared.run(|now, server| server.handle(now, request));
        answer.unwrap_or_else(|status| panic!("{request:?}: {status}"))
    }

    fn create(&self, plural: &str, name: &str, mut body: Value) {
        body["apiVersion"] = json!("v1");
        body["metadata"]["name"] = json!(name);
        self.handle(&Request::create(ResourceName::core(plural), "default", body));
    }

    fn pod(&self, name: &str, spec: &Value) {
        self.create("pods", name, json!({"kind": "Pod", "metadata": {"labels": {"app": name}}, "spec": spec}));
    }

    fn find(&self, name: &str) -> Option<Arc<Value>> {
        self.cluster.shared.run(|_, server| server.peek(&ResourceName::core("pods"), "default", name))
    }

    fn is_ready(&self, name: &str) -> bool {
        self.find(name).is_some_and(|pod| object::condition(&pod, "Ready") == "True")
    }

    fn restarts(&self, name: &str) -> i64 {
        let pod = self.find(name).expect("the pod is there");
        object::number(&pod, "/status/containerStatuses/0/restartCount").unwrap_or_default()
    }

    fn phase(&self, name: &str) -> String {
        self.find(name).map(|pod| object::text(&pod, "/status/phase").to_owned()).unwrap_or_default()
    }

    async fn until(&self, what: &str, good: impl Fn() -> bool) {
        let (start, deadline) = (Instant::now(), Instant::now() + PATIENCE);
        while !good() {
            if Instant::now() > deadline {
                let pods = self.cluster.shared.run(|_, server| server.peek_all(&ResourceName::core("pods"), None));
                let events = self.cluster.shared.run(|_, server| server.peek_all(&ResourceName::core("events"), None));
                events.iter().for_each(|event| {
                    eprintln!("event: {} {}", object::text(event, "/reason"), object::text(event, "/message"));
                });
                pods.iter().for_each(|pod| eprintln!("pod: {} {}", object::name(pod), pod["status"]));
                pods.iter().for_each(|pod| eprintln!("log of {}: {}", object::name(pod), self.log(object::name(pod))));
                panic!("waited in vain: {what}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        println!("ok: {what} ({} ms)", start.elapsed().as_millis());
    }

    /// A pod that fetches from an address and ends; what it printed.
    async fn fetch(&self, name: &str, address: &str) -> String {
        let container = json!({"name": "c", "image": "workload:1", "args": ["fetch", address, self.mark]});
        self.pod(name, &json!({"restartPolicy": "Never", "containers": [container]}));
        self.until(&format!("{name} ends"), || matches!(self.phase(name).as_str(), "Succeeded" | "Failed")).await;
        self.log(name)
    }

    fn log(&self, pod: &str) -> String {
        let mut stream = TcpStream::connect(self.cluster.address).expect("the API listens");
        let path = format!("/api/v1/namespaces/default/pods/{pod}/log");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("the API reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the API answers");
        answer
    }

    fn server(&self) -> Value {
        let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path});
        let write = |name: &str, needs: &str, path: &str| {
            json!({"name": name, "image": "workload:1", "args": ["write", needs, path, name],
                "volumeMounts": [mount("shared", "/shared"), mount("data", "/data")]})
        };
        json!({
            "hostname": "server", "subdomain": "group", "terminationGracePeriodSeconds": 5,
            "initContainers": [write("first", "", "/shared/first"), write("second", "/shared/first", "/shared/second"),
                write("log", "/shared/second", "/data/log")],
            "containers": [{
                "name": "c", "image": "workload:1", "args": ["serve", "8080", "$(NAME)-$(TOKEN)", self.mark],
                "env": [{"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "token"}}}],
                "ports": [{"name": "http", "containerPort": 8080}],
                "volumeMounts": [mount("shared", "/shared"), mount("data", "/data"), mount("secret", "/secret")],
                "startupProbe": {"tcpSocket": {"port": "http"}, "periodSeconds": 1},
                "readinessProbe": {"httpGet": {"port": "http", "path": "/"}, "periodSeconds": 1, "failureThreshold": 1},
                "livenessProbe": {"exec": {"command": ["/bin/workload", MARK, "check", "/shared/second"]}, "periodSeconds": 1},
            }],
            "volumes": [{"name": "shared", "emptyDir": {"medium": "Memory"}}, {"name": "secret", "secret": {"secretName": "s"}},
                {"name": "data", "persistentVolumeClaim": {"claimName": "d"}}],
        })
    }
}

async fn checks(world: World) {
    let selector = json!({"app": "server"});
    let port = json!([{"name": "http", "port": 80, "targetPort": "http"}]);
    world.create(
        "services",
        "group",
        json!({"kind": "Service", "metadata": {},
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": true, "selector": selector, "ports": port}}),
    );
    world.create(
        "services",
        "front",
        json!({"kind": "Service", "metadata": {}, "spec": {"selector": selector, "ports": port}}),
    );
    world.create(
        "persistentvolumeclaims",
        "d",
        json!({"kind": "PersistentVolumeClaim", "metadata": {}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
    );
    world.pod("server", &world.server());
    world
        .until("a pod waits for its Secret", || {
            let events = world.cluster.shared.run(|_, server| server.peek_all(&ResourceName::core("events"), None));
            events.iter().any(|event| object::text(event, "/reason") == "FailedMount")
        })
        .await;
    world.create("secrets", "s", json!({"kind": "Secret", "metadata": {}, "stringData": {"token": "t0"}}));
    world.until("init containers ran in order, the server is ready", || world.is_ready("server")).await;

    let said = world.fetch("by-host", "server.group.default.svc.cluster.local:8080").await;
    assert!(said.contains("server-t0 server t0 v1 data=1 pid=1"), "{said}");
    let said = world.fetch("by-search", "server.group:8080").await;
    assert!(said.contains("server-t0"), "{said}");
    let said = world.fetch("by-service", "front.default.svc:80").await;
    assert!(said.contains("server-t0"), "{said}");
    let said = world.fetch("by-wrong-name", "nobody.group.default.svc:8080").await;
    assert_eq!(world.phase("by-wrong-name"), "Failed", "{said}");
    assert!(world.log("server").contains("serving server-t0"));
    restarts(&world).await;
    faults(&world).await;
    ends(&world).await;
    let pids = world.cluster.running();
    assert!(!pids.is_empty(), "something runs before the end");
    world.cluster.shutdown().await;
    let alive: Vec<_> = pids.iter().filter(|pid| Path::new(&format!("/proc/{pid}")).exists()).collect();
    assert!(alive.is_empty(), "processes outlive the shutdown: {alive:?}");
    println!("ok: shutdown leaves no process");
}

async fn restarts(world: &World) {
    world.cluster.signal_container("default", "server", "c", Signal::SIGKILL).expect("it runs");
    world.until("a killed container is restarted", || world.restarts("server") == 1 && world.is_ready("server")).await;
    let pod = world.find("server").expect("the pod is there");
    let last = "/status/containerStatuses/0/lastState/terminated";
    assert_eq!(object::number(&pod, &format!("{last}/exitCode")), Some(137), "{}", pod["status"]);
    let patch = json!({"spec": {"containers": [{"name": "c", "image": "workload:2"}]}});
    let mut request = Request::merge_patch(ResourceName::core("pods"), "default", "server", patch);
    request.verb = fake_k8s::Verb::Patch(fake_k8s::PatchKind::StrategicMerge);
    world.handle(&request);
    world
        .until("a patched image restarts the container", || world.restarts("server") == 2 && world.is_ready("server"))
        .await;
    let said = world.fetch("after-patch", "front.default.svc:80").await;
    assert!(said.contains("v2 data=1"), "the new image, the same data: {said}");
}

async fn faults(world: &World) {
    world.cluster.cut_network("default", "server", true).expect("it has a network");
    world.until("a pod that is cut off is not ready", || !world.is_ready("server")).await;
    let said = world.fetch("cut", "front.default.svc:80").await;
    assert_eq!(world.phase("cut"), "Failed", "{said}");
    world.cluster.cut_network("default", "server", false).expect("it has a network");
    world.until("a pod that is joined again is ready", || world.is_ready("server")).await;
    let data = world.cluster.claim_directory("default", "d").expect("it is bound");
    assert!(data.join("log").exists());
    world.cluster.destroy_claim_data("default", "d").expect("it is bound");
    assert!(!data.join("log").exists());
    world.pod("missing", &json!({"containers": [{"name": "c", "image": "nowhere/none:1"}]}));
    world
        .until("an image that nobody has is an ErrImagePull, then a back-off", || {
            let pod = world.find("missing").expect("the pod is there");
            object::text(&pod, "/status/containerStatuses/0/state/waiting/reason") == "ImagePullBackOff"
        })
        .await;
    world.pod(
        "fails",
        &json!({"restartPolicy": "Never", "containers": [
        {"name": "c", "image": "workload:1", "args": ["fail", "because"]}]}),
    );
    world
        .until("a failure carries its code and message", || {
            let pod = world.find("fails").expect("the pod is there");
            let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
            ended["exitCode"] == 7 && ended["message"] == "because"
        })
        .await;
    world.pod(
        "absent",
        &json!({"restartPolicy": "Never", "containers": [
        {"name": "c", "image": "workload:1", "command": ["no-such-program"]}]}),
    );
    world
        .until("a program that is not in the image is a StartError", || {
            let pod = world.find("absent").expect("the pod is there");
            pod["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] == "StartError"
        })
        .await;
}

async fn ends(world: &World) {
    let start = Instant::now();
    let mut request = Request::delete(ResourceName::core("pods"), "default", "server");
    request.options.grace_period_seconds = Some(20);
    world.handle(&request);
    world.until("a pod that ends on SIGTERM is gone before its grace", || world.find("server").is_none()).await;
    assert!(start.elapsed() < Duration::from_secs(10));
    let args = json!(["serve", "1", "x", world.mark]);
    let stopped = json!({"containers": [{"name": "c", "image": "workload:1", "args": args}]});
    world.pod("last", &stopped);
    world.until("the last pod runs", || world.is_ready("last")).await;
    world.cluster.signal_container("default", "last", "c", Signal::SIGSTOP).expect("it runs");
    let mut request = Request::delete(ResourceName::core("pods"), "default", "last");
    request.options.grace_period_seconds = Some(1);
    world.handle(&request);
    world.until("a stopped process is killed after its grace", || world.find("last").is_none()).await;
    world.pod("again", &world.server());
    world.until("the claim is mounted again", || world.is_ready("again")).await;
}
