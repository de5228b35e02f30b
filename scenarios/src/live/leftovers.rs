//! What a case may leave on the machine: processes with the ports on which they listen, network links and namespaces,
//! mounts, and the folder of its run. All but the last are in the sandbox and go with it; here is where that is looked at
//! instead of believed.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use fake_k8s::process::network::BRIDGE;

/// The folder of a cluster's run, and where network namespaces have their names. The sandbox has a `/run` of its own.
const RUN: &str = "/run/fake-k8s";
const NAMESPACES: &str = "/run/netns";
/// State of a socket that listens, in /proc/net/tcp.
const LISTENING: &str = "0A";

/// What there is on the machine that could be a case's, by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine(BTreeSet<String>);

impl Machine {
    /// Looks.
    pub fn look() -> Self {
        let names = |directory: &str| -> Vec<String> {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        };
        let links = names("/sys/class/net").into_iter().filter(|link| is_link_of_ours(link));
        let namespaces = names(NAMESPACES).into_iter().filter(|name| numbered(name, "pod"));
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mounts = mounts_of_ours(&mounts).map(|mount| format!("mount {mount}"));
        let run = Path::new(RUN).exists().then(|| format!("folder {RUN}"));
        let links = links.map(|link| format!("link {link}"));
        let namespaces = namespaces.map(|name| format!("network namespace {name}"));
        Self(links.chain(namespaces).chain(mounts).chain(run).collect())
    }

    /// What is there now and was not before.
    pub fn since(&self, before: &Self) -> Vec<String> {
        self.0.difference(&before.0).cloned().collect()
    }
}

fn numbered(name: &str, prefix: &str) -> bool {
    let number = name.strip_prefix(prefix).unwrap_or_default();
    !number.is_empty() && number.chars().all(|digit| digit.is_ascii_digit())
}

fn is_link_of_ours(link: &str) -> bool {
    link == BRIDGE || numbered(link, "v")
}

fn mounts_of_ours(mountinfo: &str) -> impl Iterator<Item = &str> {
    let points = mountinfo.lines().filter_map(|line| line.split(' ').nth(4));
    points.filter(|point| point.starts_with(RUN) || point.starts_with(NAMESPACES))
}

/// Children of this process, those aside that are known: `pid (name)`, and where it listens.
pub fn children(known: &BTreeSet<u32>) -> Vec<String> {
    let own = std::process::id();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let found = processes.filter_map(|entry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let (pid, said, parent, is_alive) = parse_stat(&stat)?;
        let is_left = parent == own && is_alive && !known.contains(&pid);
        let ports = || ports(&entry.path()).iter().map(|port| format!(" listening on {port}")).collect::<String>();
        is_left.then(|| format!("{said}{}", ports()))
    });
    found.collect()
}

/// Process id, `pid (name)`, the parent, and whether it runs, of a line of `/proc/PID/stat`.
fn parse_stat(stat: &str) -> Option<(u32, String, u32, bool)> {
    // `pid (name) state parent ...`; a name may contain anything, so it is read from the end of it.
    let (before, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_whitespace();
    let (state, parent) = (fields.next()?, fields.next()?.parse().ok()?);
    let pid = before.split(' ').next()?.parse().ok()?;
    Some((pid, format!("{before})"), parent, state != "Z"))
}

/// Where a process listens.
fn ports(process: &Path) -> Vec<SocketAddr> {
    let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let links = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
    let sockets: BTreeSet<String> = links.map(|link| link.to_string_lossy().into_owned()).collect();
    let tables = ["net/tcp", "net/tcp6"].map(|table| fs::read_to_string(process.join(table)).unwrap_or_default());
    let listening = tables.iter().flat_map(|table| listening(table));
    listening.filter(|(_, inode)| sockets.contains(&format!("socket:[{inode}]"))).map(|(address, _)| address).collect()
}

/// Addresses on which somebody listens and the socket's inode, of /proc/net/tcp or /proc/net/tcp6.
fn listening(table: &str) -> Vec<(SocketAddr, &str)> {
    let row = |line: &'_ str| -> Option<(SocketAddr, usize)> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (address, port) = fields.get(1)?.split_once(':')?;
        let address = SocketAddr::new(parse_address(address)?, u16::from_str_radix(port, 16).ok()?);
        (*fields.get(3)? == LISTENING).then_some((address, 9))
    };
    let rows = table.lines().filter_map(|line| row(line).map(|(address, field)| (address, line, field)));
    rows.filter_map(|(address, line, field)| Some((address, line.split_whitespace().nth(field)?))).collect()
}

/// Words of 32 bits, each in the machine's order of bytes.
fn parse_address(text: &str) -> Option<IpAddr> {
    let words: Option<Vec<[u8; 4]>> = (0..text.len() / 8)
        .map(|word| u32::from_str_radix(text.get(word * 8..word * 8 + 8)?, 16).ok().map(u32::to_ne_bytes))
        .collect();
    let bytes = words?.concat();
    <[u8; 4]>::try_from(bytes.as_slice()).map(|bytes| IpAddr::V4(Ipv4Addr::from(bytes))).ok().or_else(|| {
        let bytes = <[u8; 16]>::try_from(bytes.as_slice()).ok()?;
        Some(IpAddr::V6(Ipv6Addr::from(bytes)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_listens_is_told_with_its_port_and_a_known_one_is_not() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let own = Path::new("/proc/self");
        assert!(ports(own).contains(&address), "{:?}", ports(own));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a child");
        let is_told = |known: &BTreeSet<u32>| children(known).iter().any(|said| said.contains(&child.id().to_string()));
        let (told, told_when_known) = (is_told(&BTreeSet::new()), is_told(&BTreeSet::from([child.id()])));
        child.kill().and_then(|()| child.wait()).expect("it is ours");
        assert!(told && !told_when_known);
    }

    #[test]
    fn rows_that_do_not_listen_are_left_out() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:0947 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 41 1 0 100 0 0 10 0\n\
            1: 0100007F:0947 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 42 1 0 20 4 30 10 -1\n";
        assert_eq!(listening(table), [(SocketAddr::from(([127, 0, 0, 1], 2375)), "41")]);
        let six = parse_address("00000000000000000000000001000000");
        assert_eq!(six, Some(IpAddr::V6(Ipv6Addr::LOCALHOST)));
    }

    #[test]
    fn what_was_there_before_is_not_left_by_the_case() {
        let machine = |names: &[&str]| Machine(names.iter().map(|name| (*name).to_owned()).collect());
        let (before, after) = (machine(&["link v1"]), machine(&["link v1", "network namespace pod2"]));
        assert_eq!(after.since(&before), ["network namespace pod2"]);
    }

    #[test]
    fn only_names_that_a_case_gives_are_looked_at() {
        assert!(is_link_of_ours(BRIDGE) && is_link_of_ours("v12"));
        assert!(!is_link_of_ours("veth1") && !is_link_of_ours("v") && !is_link_of_ours("lo"));
        let mounts = "1 0 0:1 / / rw - t t rw\n2 1 0:2 / /run/netns/pod1 rw - t t rw\n3 1 0:3 / /run/fake-k8s/pods/x rw - t t rw";
        assert_eq!(mounts_of_ours(mounts).collect::<Vec<_>>(), ["/run/netns/pod1", "/run/fake-k8s/pods/x"]);
    }
}
