//! What an error says about the request, seen through the operator's own client and a server on the loopback that answers
//! as it is told to, or does not answer.

use futures::FutureExt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::adapters::{connect, tls};

/// How the server treats a request that it has read.
#[derive(Clone)]
enum Manner {
    /// Writes this, and closes the connection.
    Says(String),
    /// Keeps the connection open, for ever.
    Silent,
}

/// Where a server of this manner listens. It lives as long as the test's runtime.
async fn server(manner: Manner) -> SocketAddr {
    counting_server(manner, Arc::default()).await
}

/// As [`server`]; `asked` is how many requests came.
async fn counting_server(manner: Manner, asked: Arc<AtomicUsize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, manner.clone(), asked.clone()));
        }
    });
    address
}

async fn serve(mut stream: TcpStream, manner: Manner, asked: Arc<AtomicUsize>) {
    let mut request = Vec::new();
    while !is_whole(&request) {
        if stream.read_buf(&mut request).await.expect("the client writes") == 0 {
            return;
        }
    }
    asked.fetch_add(1, Ordering::SeqCst);
    match manner {
        Manner::Says(answer) => {
            stream.write_all(answer.as_bytes()).await.expect("the client reads");
            stream.shutdown().await.expect("the client is there");
        }
        Manner::Silent => std::future::pending().await,
    }
}

/// Head, and as much of a body as it says.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.parse().expect("a length"));
    body.len() >= length
}

/// As the operator is connected.
fn adapter(address: SocketAddr) -> KubeAdapter {
    tls::install_crypto_provider();
    let url = format!("http://{address}").parse().expect("a URL");
    KubeAdapter::new(connect::client(kube::Config::new(url)).expect("a client"))
}

/// What a write comes to, and what a read comes to.
async fn errors(kubernetes: &KubeAdapter) -> (KubernetesError, KubernetesError) {
    let preconditions = Preconditions { uid: "u".to_owned(), resource_version: None };
    let written = kubernetes.delete(Kind::Pod, &ObjectKey::new("ns", "a"), &preconditions, None).await;
    let read = kubernetes.list(Kind::Pod, &Scope::Cluster, None).await;
    (written.expect_err("a write must fail"), read.expect_err("a read must fail"))
}

async fn errors_of(manner: Manner) -> (KubernetesError, KubernetesError) {
    errors(&adapter(server(manner).await)).await
}

fn http(code: u16, body: &str) -> String {
    format!(
        "HTTP/1.1 {code} Some Words\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn status(code: u16, reason: &str) -> String {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": format!("the server's words on {reason}"),
    });
    http(code, &status.to_string())
}

/// The variant's name.
fn name(error: &KubernetesError) -> String {
    format!("{error:?}").split(' ').next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_refused_connection_was_certainly_not_carried_out() {
    // Bound and not listening: connections are refused, and nobody else gets the port.
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let (written, read) = errors(&adapter(socket.local_addr().expect("bound"))).await;
    for error in [written, read] {
        assert!(
            matches!(&error, KubernetesError::Unavailable { message, .. } if message.contains("refused")),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_write_that_is_sent_and_not_answered_is_ambiguous() {
    let half = http(200, &"x".repeat(100)).replace("xx", "");
    for (what, manner) in [
        ("the connection is closed", Manner::Says(String::new())),
        ("the head breaks off", Manner::Says("HTTP/1.1 200 OK\r\ncontent-le".to_owned())),
        ("the body breaks off", Manner::Says(half)),
        ("the answer is not HTTP", Manner::Says("what?\r\n\r\n".to_owned())),
        ("the answer is not JSON", Manner::Says(http(200, "what?"))),
    ] {
        let (written, read) = errors_of(manner).await;
        assert!(matches!(written, KubernetesError::Ambiguous { .. }), "{what}: {written}");
        assert!(matches!(read, KubernetesError::Unavailable { .. }), "{what}: {read}");
    }
}

#[tokio::test]
async fn a_call_ends_at_its_deadline_and_a_write_is_then_ambiguous() {
    let mut kubernetes = adapter(server(Manner::Silent).await);
    assert_eq!(kubernetes.deadline, Duration::try_from(CALL_DEADLINE).expect("a positive constant"));
    kubernetes.deadline = Duration::from_millis(100);
    let (written, read) = errors(&kubernetes).await;
    assert!(matches!(&written, KubernetesError::Ambiguous { message } if message.contains("100ms")), "{written}");
    assert!(matches!(&read, KubernetesError::Unavailable { message, .. } if message.contains("100ms")), "{read}");
}

#[tokio::test]
async fn each_status_says_what_became_of_the_request() {
    for (code, reason, of_a_write, of_a_read) in [
        (400, "BadRequest", "Invalid", "Invalid"),
        (401, "Unauthorized", "Forbidden", "Forbidden"),
        (403, "Forbidden", "Forbidden", "Forbidden"),
        (404, "NotFound", "NotFound", "NotFound"),
        (409, "AlreadyExists", "AlreadyExists", "AlreadyExists"),
        (409, "Conflict", "Conflict", "Conflict"),
        (410, "Expired", "Expired", "Expired"),
        (422, "Invalid", "Invalid", "Invalid"),
        (429, "TooManyRequests", "Unavailable", "Unavailable"),
        (500, "InternalError", "Ambiguous", "Unavailable"),
        (502, "", "Ambiguous", "Unavailable"),
        (503, "ServiceUnavailable", "Ambiguous", "Unavailable"),
        (504, "Timeout", "Ambiguous", "Unavailable"),
    ] {
        let (written, read) = errors_of(Manner::Says(status(code, reason))).await;
        assert_eq!((name(&written).as_str(), name(&read).as_str()), (of_a_write, of_a_read), "{code} {reason}");
        let words = format!("the server's words on {reason}");
        assert!(written.to_string().ends_with(&words) && read.to_string().ends_with(&words), "{written}; {read}");
    }
}

/// What stands between us and the server has words of its own.
#[tokio::test]
async fn a_proxys_error_counts_by_its_code() {
    for (code, of_a_write, of_a_read) in [
        (403, "Forbidden", "Forbidden"),
        (404, "NotFound", "NotFound"),
        (502, "Ambiguous", "Unavailable"),
        (504, "Ambiguous", "Unavailable"),
    ] {
        for body in ["<html>Sorry</html>", ""] {
            let (written, read) = errors_of(Manner::Says(http(code, body))).await;
            assert_eq!((name(&written).as_str(), name(&read).as_str()), (of_a_write, of_a_read), "{code} {body}");
        }
        // The client takes any JSON for a Status, in which there is then no code: it does not tell.
        let (written, read) = errors_of(Manner::Says(http(code, r#"{"error": "sorry"}"#))).await;
        assert_eq!((name(&written).as_str(), name(&read).as_str()), ("Ambiguous", "Unavailable"), "{code}");
    }
}

#[tokio::test]
async fn what_the_server_asks_to_wait_is_kept() {
    let mut asked =
        json!({"kind": "Status", "status": "Failure", "code": 429, "reason": "TooManyRequests", "message": "m"});
    asked["details"] = json!({"retryAfterSeconds": 7});
    let (written, _) = errors_of(Manner::Says(http(429, &asked.to_string()))).await;
    let retry_after = Some(SignedDuration::from_secs(7));
    assert_eq!(written, KubernetesError::Unavailable { message: "m".to_owned(), retry_after });
}

/// Nobody but the operator decides that a request is sent again.
#[tokio::test]
async fn a_request_is_sent_once() {
    for code in [429, 500, 502, 503, 504] {
        let asked = Arc::new(AtomicUsize::new(0));
        let kubernetes = adapter(counting_server(Manner::Says(status(code, "SomeReason")), asked.clone()).await);
        errors(&kubernetes).await;
        assert_eq!(asked.load(Ordering::SeqCst), 2, "{code}: one write and one read");
    }
}

#[tokio::test]
async fn what_is_not_there_is_none_to_who_reads_it() {
    let kubernetes = adapter(server(Manner::Says(status(404, "NotFound"))).await);
    assert!(kubernetes.get(Kind::Pod, &ObjectKey::new("ns", "a")).await.expect("an answer").is_none());
}

#[test]
fn paths_are_those_of_the_api() {
    let key = ObjectKey::new("ns", "a");
    assert_eq!(object_path(Kind::Pod, &key), "/api/v1/namespaces/ns/pods/a");
    let clusters = "/apis/etcd.database.coreos.com/v1beta2/etcdclusters";
    assert_eq!(collection_path(Kind::EtcdCluster, &Scope::Cluster), clusters);
    assert_eq!(escaped("etcd_cluster=a b"), "etcd_cluster%3Da%20b");
}

#[test]
fn an_object_that_does_not_decode_is_told_and_the_others_of_its_kind_come() {
    let object = |name: &str, spec: Value| -> DynamicObject {
        let meta = json!({ "name": name, "namespace": "ns", "uid": name, "resourceVersion": "1" });
        serde_json::from_value(json!({ "metadata": meta, "spec": spec })).expect("an object")
    };
    let good = |name| object(name, json!({ "size": 3 }));
    let bad = |name| object(name, json!({ "size": "three" }));
    let events = [
        Event::Init,
        Event::InitApply(bad("a")),
        Event::InitApply(good("b")),
        Event::InitApply(good("c")),
        Event::InitDone,
        Event::Apply(bad("b")),
        Event::Delete(bad("b")),
        Event::Apply(good("b")),
        Event::Delete(good("c")),
    ];
    let events = futures::stream::iter(events.map(Ok));
    let told: Vec<_> = told(Kind::EtcdCluster, events).collect::<Vec<_>>().now_or_never().expect("all is there");
    let names = |objects: &[Object]| objects.iter().map(|object| object.key().name).collect::<Vec<_>>().join(" ");
    let said = |event: &WatchEvent| match event {
        WatchEvent::Relisted(objects) => format!("listed {}", names(objects)),
        WatchEvent::Applied(object) => format!("applied {}", object.key().name),
        WatchEvent::Deleted(object) => format!("deleted {}", object.key().name),
        WatchEvent::Unreadable { meta, why } => format!("{}: {why}", ObjectKey::of(meta)),
        WatchEvent::Interrupted(error) => error.to_string(),
    };
    let why = "invalid type: string \"three\", expected i32";
    assert_eq!(
        told.iter().map(said).collect::<Vec<_>>(),
        [
            format!("ns/a: {why}"),
            "listed b c".to_owned(),
            format!("ns/b: {why}"),
            "applied b".to_owned(),
            "deleted c".to_owned(),
        ]
    );
}
