//! Addresses: a bridge in the sandbox, a network namespace with its own address for each pod, and the cluster addresses of
//! Services. All by `ip`, all inside the sandbox.
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use super::sandbox::run_ip;

/// The bridge's address: the pods' gateway, and where their names are resolved.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 1);
/// The name of the bridge. Pod number n is at the link `vn`, and in the network namespace `podn`.
pub const BRIDGE: &str = "pods0";
/// 10.244.0.2 to 10.244.255.254.
const HOSTS: std::ops::Range<u32> = 2..65_535;

/// A pod's place in the network.
#[derive(Clone, Debug)]
pub struct PodNetwork {
    /// Its address.
    pub ip: Ipv4Addr,
    /// Its network namespace.
    pub namespace: PathBuf,
    number: u32,
}

/// The network of the sandbox.
#[derive(Debug)]
pub struct Network {
    next_host: u32,
    pods: BTreeMap<String, PodNetwork>,
}

impl Network {
    /// Makes the bridge.
    pub fn create() -> Result<Self, String> {
        run_ip(
            None,
            &format!(
                "link add {BRIDGE} type bridge forward_delay 0\naddr add {GATEWAY}/16 dev {BRIDGE}\nlink set {BRIDGE} up\n"
            ),
        )?;
        Ok(Self { next_host: HOSTS.start, pods: BTreeMap::new() })
    }

    /// Gives a pod its namespace and address. Addresses are used again as late as possible.
    pub fn add_pod(&mut self, pod: &str) -> Result<PodNetwork, String> {
        if let Some(known) = self.pods.get(pod) {
            return Ok(known.clone());
        }
        let taken = |host: u32| self.pods.values().any(|pod| pod.number == host);
        let candidates = (self.next_host..HOSTS.end).chain(HOSTS.start..self.next_host);
        let host = candidates.into_iter().find(|host| !taken(*host)).ok_or("no pod address is free")?;
        self.next_host = if host + 1 < HOSTS.end { host + 1 } else { HOSTS.start };
        let ip = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 244, 0, 0)) + host);
        let name = namespace_name(host);
        run_ip(None, &format!("netns add {name}\n"))?;
        let found = PodNetwork { ip, namespace: PathBuf::from(format!("/run/netns/{name}")), number: host };
        self.pods.insert(pod.to_owned(), found.clone());
        let made = run_ip(None, &format!(
            "link add v{host} type veth peer name eth0 netns {name}\nlink set v{host} master {BRIDGE}\nlink set v{host} up\n"
        ))
        .and_then(|()| {
            run_ip(
                Some(&name),
                &format!("link set lo up\naddr add {ip}/16 dev eth0\nlink set eth0 up\nroute add default via {GATEWAY}\n"),
            )
        });
        match made {
            Ok(()) => Ok(found),
            Err(why) => {
                // Half a network is worse than none: the next attempt starts afresh.
                let _ = self.remove_pod(pod);
                Err(why)
            }
        }
    }

    /// Takes a pod's namespace, link and address away.
    pub fn remove_pod(&mut self, pod: &str) -> Result<(), String> {
        let Some(gone) = self.pods.remove(pod) else { return Ok(()) };
        run_ip(None, &format!("netns del {}\n", namespace_name(gone.number)))?;
        // The link goes with the namespace, once the kernel gets to it; deleting it here makes that now.
        let _ = run_ip(None, &format!("link del v{}\n", gone.number));
        Ok(())
    }

    /// Cuts a pod off from everything but itself, or joins it again.
    pub fn cut(&self, pod: &str, off: bool) -> Result<(), String> {
        let found = self.pods.get(pod).ok_or_else(|| format!("pod {pod} has no network"))?;
        run_ip(None, &format!("link set v{} {}\n", found.number, if off { "down" } else { "up" }))
    }

    /// A pod's place.
    pub fn pod(&self, pod: &str) -> Option<&PodNetwork> {
        self.pods.get(pod)
    }
}

/// Makes a Service's address one of the sandbox's own.
pub fn add_service_address(ip: Ipv4Addr) -> Result<(), String> {
    run_ip(None, &format!("addr replace {ip}/32 dev {BRIDGE}\n"))
}

/// Takes it away again.
pub fn remove_service_address(ip: Ipv4Addr) -> Result<(), String> {
    run_ip(None, &format!("addr del {ip}/32 dev {BRIDGE}\n"))
}

fn namespace_name(host: u32) -> String {
    format!("pod{host}")
}
