//! The cluster's names: Services, and pods with a hostname under a headless Service, answered from the API as it is at that
//! moment. Nothing may be kept (TTL 0): a scenario that moves a pod must not wait for caches.
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde_json::Value;
use simple_dns::rdata::{A, PTR, RData};
use simple_dns::{CLASS, Name, Packet, PacketFlag, QTYPE, RCODE, ResourceRecord, TYPE};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};

use crate::controllers::object;
use crate::http::Shared;
use crate::server::{ResourceName, Server};

/// The largest question that is read over UDP.
const QUESTION_MAX: usize = 1500;
/// A TCP client that says nothing for so long is left.
const TCP_PATIENCE: Duration = Duration::from_secs(10);

/// Answers on `address`, UDP and TCP, until the task is dropped.
pub(super) async fn serve(shared: Shared, domains: Vec<String>, address: SocketAddr) -> std::io::Result<()> {
    let (udp, tcp) = (UdpSocket::bind(address).await?, TcpListener::bind(address).await?);
    let over_udp = async {
        let mut buffer = [0; QUESTION_MAX];
        loop {
            let Ok((length, from)) = udp.recv_from(&mut buffer).await else { continue };
            if let Some(answer) = shared.run(|_, server| answer(server, &domains, &buffer[..length])) {
                // A client that is gone needs no answer.
                let _ = udp.send_to(&answer, from).await;
            }
        }
    };
    let over_tcp = async {
        loop {
            let Ok((mut stream, _)) = tcp.accept().await else { continue };
            let (shared, domains) = (shared.clone(), domains.clone());
            tokio::spawn(async move {
                while let Ok(Ok(length)) = tokio::time::timeout(TCP_PATIENCE, stream.read_u16()).await {
                    let mut question = vec![0; usize::from(length)];
                    stream.read_exact(&mut question).await?;
                    let found = shared.run(|_, server| answer(server, &domains, &question));
                    let Some(found) = found else { break };
                    stream.write_u16(u16::try_from(found.len()).unwrap_or(u16::MAX)).await?;
                    stream.write_all(&found).await?;
                }
                std::io::Result::Ok(())
            });
        }
    };
    tokio::join!(over_udp, over_tcp);
    Ok(())
}

/// The answer to a packet; `None` for what is no question.
fn answer(server: &Server, domains: &[String], packet: &[u8]) -> Option<Vec<u8>> {
    let question = Packet::parse(packet).ok()?;
    let asked = question.questions.first()?.clone();
    let mut reply = Packet::new_reply(question.id());
    reply.set_flags(PacketFlag::AUTHORITATIVE_ANSWER | PacketFlag::RECURSION_AVAILABLE);
    if question.has_flags(PacketFlag::RECURSION_DESIRED) {
        reply.set_flags(PacketFlag::RECURSION_DESIRED);
    }
    let name = asked.qname.to_string();
    let record = |data| ResourceRecord::new(asked.qname.clone(), CLASS::IN, 0, data);
    match lookup(server, domains, &name) {
        Answer::Unknown => *reply.rcode_mut() = RCODE::NameError,
        Answer::Addresses(found) if matches!(asked.qtype, QTYPE::TYPE(TYPE::A) | QTYPE::ANY) => {
            reply.answers.extend(found.into_iter().map(|ip| record(RData::A(A { address: ip.into() }))));
        }
        Answer::Name(found) if matches!(asked.qtype, QTYPE::TYPE(TYPE::PTR) | QTYPE::ANY) => {
            let target = Name::new(&found).ok()?.into_owned();
            reply.answers.push(record(RData::PTR(PTR(target))));
        }
        // The name is there, but not with this type (AAAA): no error, no data.
        Answer::Addresses(_) | Answer::Name(_) => {}
    }
    reply.questions.push(asked);
    reply.build_bytes_vec().ok()
}

/// What a name stands for.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Unknown,
    Addresses(Vec<Ipv4Addr>),
    Name(String),
}

fn lookup(server: &Server, domains: &[String], name: &str) -> Answer {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    if let Some(reversed) = name.strip_suffix(".in-addr.arpa") {
        return reverse(server, domains, reversed);
    }
    let in_domain = domains.iter().find_map(|domain| name.strip_suffix(&format!(".svc.{domain}")));
    let Some(rest) = in_domain.or_else(|| name.strip_suffix(".svc")) else { return Answer::Unknown };
    let parts: Vec<&str> = rest.split('.').collect();
    match parts.as_slice() {
        [service, namespace] => service_addresses(server, namespace, service),
        [host, service, namespace] => {
            let all = endpoints(server, namespace, service);
            let own = all.iter().filter(|address| object::text(address, "/hostname") == *host);
            let found: Vec<_> = own.filter_map(address_of).collect();
            if found.is_empty() { Answer::Unknown } else { Answer::Addresses(found) }
        }
        _ => Answer::Unknown,
    }
}

fn service_addresses(server: &Server, namespace: &str, name: &str) -> Answer {
    let Some(service) = server.peek(&ResourceName::core("services"), namespace, name) else { return Answer::Unknown };
    match object::text(&service, "/spec/clusterIP") {
        "None" => Answer::Addresses(endpoints(server, namespace, name).iter().filter_map(address_of).collect()),
        ip => ip.parse().map_or(Answer::Unknown, |ip| Answer::Addresses(vec![ip])),
    }
}

/// The ready addresses of a Service: all of them where it publishes the others too.
fn endpoints(server: &Server, namespace: &str, service: &str) -> Vec<Value> {
    let found = server.peek(&ResourceName::core("endpoints"), namespace, service);
    let subsets = found.iter().flat_map(|endpoints| object::items(endpoints, "/subsets"));
    subsets.flat_map(|subset| object::items(subset, "/addresses")).cloned().collect()
}

fn address_of(address: &Value) -> Option<Ipv4Addr> {
    object::text(address, "/ip").parse().ok()
}

fn reverse(server: &Server, domains: &[String], reversed: &str) -> Answer {
    let mut parts: Vec<&str> = reversed.split('.').collect();
    parts.reverse();
    let ip = parts.join(".");
    let domain = domains.first().map_or("cluster.local", String::as_str);
    let pods = server.peek_all(&ResourceName::core("pods"), None);
    let own = pods.iter().find(|pod| object::text(pod, "/status/podIP") == ip && !object::is_finished_pod(pod));
    let named = own.and_then(|pod| {
        let (host, subdomain) = (object::text(pod, "/spec/hostname"), object::text(pod, "/spec/subdomain"));
        let namespace = object::namespace(pod);
        (!host.is_empty() && !subdomain.is_empty()).then(|| format!("{host}.{subdomain}.{namespace}.svc.{domain}"))
    });
    named.map_or(Answer::Unknown, Answer::Name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Request;
    use jiff::Timestamp;
    use serde_json::json;
    use simple_dns::Question;

    fn world() -> Server {
        let mut server = Server::new(1);
        let mut create = |plural: &str, body: Value| {
            server
                .handle(Timestamp::UNIX_EPOCH, &Request::create(ResourceName::core(plural), "default", body))
                .expect("a valid object");
        };
        create(
            "services",
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "etcd"},
            "spec": {"clusterIP": "None", "ports": [{"port": 2380}]}}),
        );
        create(
            "services",
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "etcd-client"},
            "spec": {"clusterIP": "10.96.7.7", "ports": [{"port": 2379}]}}),
        );
        create(
            "endpoints",
            json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "etcd"}, "subsets": [
            {"addresses": [{"ip": "10.244.0.2", "hostname": "a"}, {"ip": "10.244.0.3", "hostname": "b"}],
                "ports": [{"port": 2380}]}]}),
        );
        server
    }

    fn found(name: &str) -> Answer {
        lookup(&world(), &["cluster.local".to_owned(), "my.domain".to_owned()], name)
    }

    #[test]
    fn services_and_hosts_are_found_under_every_domain_and_without_one() {
        let ip = |last| Ipv4Addr::new(10, 244, 0, last);
        for suffix in [".svc", ".svc.cluster.local", ".svc.my.domain", ".SVC.Cluster.Local."] {
            assert_eq!(found(&format!("etcd.default{suffix}")), Answer::Addresses(vec![ip(2), ip(3)]), "{suffix}");
            assert_eq!(found(&format!("b.etcd.default{suffix}")), Answer::Addresses(vec![ip(3)]), "{suffix}");
            let client = Answer::Addresses(vec![Ipv4Addr::new(10, 96, 7, 7)]);
            assert_eq!(found(&format!("etcd-client.default{suffix}")), client, "{suffix}");
        }
    }

    #[test]
    fn what_is_not_there_is_unknown() {
        for name in ["c.etcd.default.svc", "etcd.other.svc", "x.default.svc", "etcd.default", "example.com", "svc"] {
            assert_eq!(found(name), Answer::Unknown, "{name}");
        }
    }

    #[test]
    fn a_packet_is_answered_with_nothing_to_keep() {
        let mut query = Packet::new_query(7);
        let question = |kind| {
            Question::new(Name::new_unchecked("a.etcd.default.svc.cluster.local"), kind, CLASS::IN.into(), false)
        };
        query.questions.push(question(TYPE::A.into()));
        let domains = ["cluster.local".to_owned()];
        let bytes = answer(&world(), &domains, &query.build_bytes_vec().expect("a packet")).expect("an answer");
        let reply = Packet::parse(&bytes).expect("a packet");
        assert_eq!((reply.id(), reply.answers.len(), reply.answers[0].ttl), (7, 1, 0));
        let mut query = Packet::new_query(8);
        query.questions.push(question(TYPE::AAAA.into()));
        let bytes = answer(&world(), &domains, &query.build_bytes_vec().expect("a packet")).expect("an answer");
        let reply = Packet::parse(&bytes).expect("a packet");
        assert_eq!((reply.rcode(), reply.answers.len()), (RCODE::NoError, 0));
    }
}
