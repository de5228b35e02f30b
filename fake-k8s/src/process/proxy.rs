//! Cluster addresses: each Service with one is listened for in the sandbox, and each connection goes to a ready endpoint in
//! turn. Without an endpoint a connection is closed at once.
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::network;
use crate::controllers::informer::Informer;
use crate::controllers::object::{self, Key};
use crate::http::Shared;
use crate::server::{ResourceName, Server};

/// How long an endpoint may take to accept.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);

/// The listeners of all Services.
#[derive(Debug)]
pub(super) struct Proxy {
    services: Informer,
    listening: BTreeMap<(Ipv4Addr, u16), (Key, String, JoinHandle<()>)>,
}

impl Proxy {
    pub fn new() -> Self {
        Self { services: Informer::new(ResourceName::core("services")), listening: BTreeMap::new() }
    }

    /// Opens and closes what changed.
    pub fn step(&mut self, server: &Server, shared: &Shared) {
        if self.services.sync(server).is_empty() {
            return;
        }
        let mut wanted = BTreeMap::new();
        for (key, service) in self.services.iter() {
            let Ok(ip) = object::text(service, "/spec/clusterIP").parse::<Ipv4Addr>() else { continue };
            for port in object::items(service, "/spec/ports") {
                let tcp = matches!(object::text(port, "/protocol"), "" | "TCP");
                if let Some(number) =
                    object::number(port, "/port").and_then(|port| u16::try_from(port).ok()).filter(|_| tcp)
                {
                    wanted.insert((ip, number), (key.clone(), object::text(port, "/name").to_owned()));
                }
            }
        }
        let addresses =
            |keys: &mut dyn Iterator<Item = (Ipv4Addr, u16)>| keys.map(|(ip, _)| ip).collect::<BTreeSet<_>>();
        let before = addresses(&mut self.listening.keys().copied());
        self.listening.retain(|at, (key, name, task)| {
            let stays = wanted.get(at) == Some(&(key.clone(), name.clone()));
            if !stays {
                task.abort();
            }
            stays
        });
        let after = addresses(&mut wanted.keys().copied());
        for ip in after.difference(&before) {
            warn_if_failed(network::add_service_address(*ip));
        }
        for ip in before.difference(&after) {
            warn_if_failed(network::remove_service_address(*ip));
        }
        for (at, (key, name)) in wanted {
            self.listening.entry(at).or_insert_with(|| {
                let task = tokio::spawn(listen(at, key.clone(), name.clone(), shared.clone()));
                (key, name, task)
            });
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.values().for_each(|(_, _, task)| task.abort());
    }
}

fn warn_if_failed(result: Result<(), String>) {
    if let Err(why) = result {
        tracing::warn!(why, "a Service's address");
    }
}

async fn listen(at: (Ipv4Addr, u16), key: Key, port: String, shared: Shared) {
    let listener = match TcpListener::bind(at).await {
        Ok(listener) => listener,
        Err(cause) => return tracing::warn!(service = ?key, %cause, "cannot listen for a Service"),
    };
    let turn = Arc::new(AtomicUsize::new(0));
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (shared, key, port, turn) = (shared.clone(), key.clone(), port.clone(), turn.clone());
        tokio::spawn(async move {
            let backends = shared.run(|_, server| backends(server, &key, &port));
            if let Some(address) = backends.get(turn.fetch_add(1, Ordering::Relaxed) % backends.len().max(1)) {
                forward(stream, *address).await;
            }
        });
    }
}

async fn forward(mut stream: TcpStream, to: SocketAddr) {
    let Ok(Ok(mut backend)) = tokio::time::timeout(CONNECT_PATIENCE, TcpStream::connect(to)).await else { return };
    // Small answers must not wait for full packets on either side; without it they still arrive.
    let _ = (stream.set_nodelay(true), backend.set_nodelay(true));
    // Either side may end a connection as it likes.
    let _ = tokio::io::copy_bidirectional(&mut stream, &mut backend).await;
}

/// The ready endpoints of one port of a Service.
fn backends(server: &Server, key: &Key, port: &str) -> Vec<SocketAddr> {
    let Some(endpoints) = server.peek(&ResourceName::core("endpoints"), &key.0, &key.1) else { return Vec::new() };
    let mut found = Vec::new();
    for subset in object::items(&endpoints, "/subsets") {
        let named = |candidate: &&Value| object::text(candidate, "/name") == port;
        let number = object::items(subset, "/ports").iter().find(named).and_then(|port| object::number(port, "/port"));
        let Some(number) = number.and_then(|number| u16::try_from(number).ok()) else { continue };
        let ips =
            object::items(subset, "/addresses").iter().filter_map(|address| object::text(address, "/ip").parse().ok());
        found.extend(ips.map(|ip: Ipv4Addr| SocketAddr::from((ip, number))));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Request;
    use serde_json::json;

    #[test]
    fn only_ready_addresses_of_the_named_port_are_backends() {
        let mut server = Server::new(1);
        let body = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "s"}, "subsets": [{
            "addresses": [{"ip": "10.244.0.2"}], "notReadyAddresses": [{"ip": "10.244.0.3"}],
            "ports": [{"name": "peer", "port": 2380}, {"name": "client", "port": 2379}]}]});
        let create = Request::create(ResourceName::core("endpoints"), "default", body);
        server.handle(jiff::Timestamp::UNIX_EPOCH, &create).expect("a valid object");
        let key = ("default".to_owned(), "s".to_owned());
        assert_eq!(backends(&server, &key, "client"), ["10.244.0.2:2379".parse().expect("an address")]);
        assert!(backends(&server, &key, "metrics").is_empty());
    }
}
