//! Every kind of store against a small server that plays all hosts: what is sent where, and what a silent one costs.

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use bytes::Bytes;
use futures::StreamExt;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::adapters::dial::Stream;
use crate::adapters::http::StoreConnector;
use crate::adapters::tls;
use rustls::RootCertStore;
use rustls::pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// What was asked of it, and what it keeps, by host and path.
#[derive(Clone, Default)]
struct Server {
    requests: Arc<Mutex<Vec<String>>>,
    objects: Arc<Mutex<BTreeMap<String, Bytes>>>,
    /// What it answers to a write with a precondition, if it knows none.
    refuses_preconditions: Option<StatusCode>,
}

async fn answer(
    State(server): State<Server>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, HeaderMap, Bytes) {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let at = format!("{}{}", header(header::HOST), uri.path());
    let signature = header(header::AUTHORIZATION).split(',').next().unwrap_or_default();
    server.requests.lock().expect("whole").push(format!("{method} {at} {signature}"));
    let mut told = HeaderMap::new();
    told.insert(header::ETAG, "\"1\"".parse().expect("a value"));
    told.insert(header::LAST_MODIFIED, "Tue, 01 Dec 2026 00:00:00 GMT".parse().expect("a value"));
    let mut objects = server.objects.lock().expect("whole");
    let conditional = headers.contains_key(header::IF_NONE_MATCH) || headers.contains_key(header::IF_MATCH);
    if let Some(status) = server.refuses_preconditions.filter(|_| method == Method::PUT && conditional) {
        let error = "<Error><Code>NotImplemented</Code><Message>A header you provided implies functionality that is \
                     not implemented.</Message></Error>";
        return (status, told, Bytes::from(error));
    }
    match method {
        Method::PUT => {
            objects.insert(at, body);
            (StatusCode::CREATED, told, Bytes::new())
        }
        Method::DELETE => {
            (objects.remove(&at).map_or(StatusCode::NOT_FOUND, |_| StatusCode::NO_CONTENT), told, Bytes::new())
        }
        _ => match objects.get(&at) {
            Some(object) => (StatusCode::OK, told, object.clone()),
            None => (StatusCode::NOT_FOUND, told, Bytes::new()),
        },
    }
}

/// All hosts are this one.
async fn serve() -> (Server, Dialer) {
    serve_as(Server::default()).await
}

async fn serve_as(server: Server) -> (Server, Dialer) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let router = Router::new().fallback(answer).layer(DefaultBodyLimit::disable()).with_state(server.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (server, to(address))
}

fn to(address: std::net::SocketAddr) -> Dialer {
    Dialer::new(move |_| async move { Ok(Box::new(TcpStream::connect(address).await?) as Box<dyn Stream>) })
}

fn location(storage: StorageKind, endpoint: Option<&str>) -> BucketLocation {
    BucketLocation {
        storage,
        bucket: "bucket".to_owned(),
        endpoint: endpoint.map(str::to_owned),
        force_path_style: false,
        secret: Some("keys".to_owned()),
    }
}

fn secret(data: &[(&str, &str)]) -> Credentials {
    Credentials(Some(data.iter().map(|&(key, value)| (key.to_owned(), value.as_bytes().to_vec())).collect()))
}

fn aws() -> Credentials {
    secret(&[
        ("credentials", "[default]\naws_access_key_id = KEY\naws_secret_access_key = hush\n"),
        ("config", "[default]\nregion = eu-west-1\n"),
    ])
}

fn oss() -> Credentials {
    secret(&[("accessKeyID", "KEY\n"), ("accessKeySecret", "hush")])
}

/// Puts, gets back in a stream, and returns where it went.
async fn round_trip(stores: &ObjectStores, server: &Server, bucket: &BucketLocation, keys: &Credentials) -> String {
    let store = stores.open(bucket, keys).await.unwrap_or_else(|error| panic!("{error}"));
    let content: Bytes = vec![7; 3 << 20].into();
    let path = Path::from("a/etcd.backup_v1_2026-12-01-00:00:00");
    store.put(&path, PutPayload::from(content.clone())).await.expect("put");
    let mut stream = store.get(&path).await.expect("get").into_stream();
    let mut read = Vec::new();
    while let Some(chunk) = stream.next().await {
        read.extend_from_slice(&chunk.expect("a chunk"));
    }
    assert!(read == content, "{} bytes came back", read.len());
    let absent = store.get(&Path::from("absent")).await.expect_err("it is not there");
    assert!(matches!(absent, object_store::Error::NotFound { .. }), "{absent}");
    server.requests.lock().expect("whole")[0].clone()
}

#[tokio::test]
async fn oss_puts_the_bucket_into_the_host_of_its_default_endpoint() {
    let (server, dialer) = serve().await;
    let stores = ObjectStores::new(dialer, BTreeMap::new());
    let request = round_trip(&stores, &server, &location(StorageKind::Oss, None), &oss()).await;
    assert!(
        request.starts_with("PUT bucket.oss-cn-hangzhou.aliyuncs.com/a/etcd.backup_v1_2026-12-01-00%3A00%3A00 "),
        "{request}"
    );
    assert!(request.contains("Credential=KEY/") && request.contains("/oss-cn-hangzhou/s3/aws4_request"), "{request}");
}

/// OSS answers so to every precondition, and so do old stores that speak S3. Backups get through all the same, and none
/// takes the place of another.
#[tokio::test]
async fn a_store_that_refuses_preconditions_is_written_to_without_them() {
    use crate::backup::bucket::{Bucket, Trouble, WriteMode};
    let kinds = [(StorageKind::Oss, None, oss()), (StorageKind::S3, Some("http://old:9000"), aws())];
    for (storage, endpoint, keys) in kinds {
        for status in [StatusCode::BAD_REQUEST, StatusCode::NOT_IMPLEMENTED] {
            let refuses_preconditions = Some(status);
            let (server, dialer) = serve_as(Server { refuses_preconditions, ..Server::default() }).await;
            let stores = ObjectStores::new(dialer, BTreeMap::new());
            let store = stores.open(&location(storage, endpoint), &keys).await.expect("it opens");
            let clock = Arc::new(crate::adapters::clock::SystemClock::start());
            let bucket = Bucket::new(store, clock, "bucket", jiff::SignedDuration::from_secs(60), &keys);
            let put = async |bytes: &'static [u8], mode| bucket.put("a/b", Bytes::from_static(bytes), &mode).await;
            put(b"one", WriteMode::Create).await.unwrap_or_else(|error| panic!("{storage:?} {status}: {error}"));
            let taken = put(b"two", WriteMode::Create).await.expect_err("its place is taken");
            assert_eq!(taken.trouble, Trouble::Exists, "{storage:?} {status}: {taken}");
            put(b"six", WriteMode::Replace).await.unwrap_or_else(|error| panic!("{storage:?} {status}: {error}"));
            assert_eq!(*server.objects.lock().expect("whole").values().next().expect("one"), "six");
        }
    }
}

/// Credentials come from there, and the region; where a backup goes says its spec alone.
#[tokio::test]
async fn the_environment_does_not_say_where_a_backup_goes() {
    let (server, dialer) = serve().await;
    let environment = [
        ("AWS_ACCESS_KEY_ID", "KEY"),
        ("AWS_SECRET_ACCESS_KEY", "hush"),
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ENDPOINT_URL", "http://elsewhere"),
        ("AWS_ENDPOINT_URL_S3", "http://elsewhere"),
        ("AWS_BUCKET", "another"),
        ("AWS_SKIP_SIGNATURE", "true"),
    ];
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let stores = ObjectStores::new(dialer, environment);
    let bucket = location(StorageKind::S3, Some("http://store:9000"));
    let request = round_trip(&stores, &server, &bucket, &Credentials(None)).await;
    assert!(request.starts_with("PUT bucket.store:9000/a/"), "{request}");
    assert!(request.contains("Credential=KEY/") && request.contains("/eu-west-1/s3/"), "{request}");
}

#[tokio::test]
async fn s3_is_addressed_by_host_by_path_or_by_address() {
    for (endpoint, path_style, expected) in [
        ("http://minio.ns.svc:9000", false, "PUT bucket.minio.ns.svc:9000/a/"),
        ("http://minio.ns.svc:9000/", true, "PUT minio.ns.svc:9000/bucket/a/"),
        ("http://127.0.0.1:9000", false, "PUT 127.0.0.1:9000/bucket/a/"),
    ] {
        let (server, dialer) = serve().await;
        let stores = ObjectStores::new(dialer, BTreeMap::new());
        let mut bucket = location(StorageKind::S3, Some(endpoint));
        bucket.force_path_style = path_style;
        let request = round_trip(&stores, &server, &bucket, &aws()).await;
        assert!(request.starts_with(expected), "{request}");
        assert!(request.contains("/eu-west-1/s3/aws4_request"), "{request}");
    }
}

#[tokio::test]
async fn abs_and_gcs_go_to_the_emulator_that_is_given() {
    let (server, dialer) = serve().await;
    let stores = ObjectStores::new(dialer.clone(), BTreeMap::new())
        .with_base_url(StorageKind::Abs, "http://127.0.0.1:10000/account");
    let keys = secret(&[("storage-account", "account"), ("storage-key", "aHVzaA=="), ("cloud", "AzurePublicCloud")]);
    let request = round_trip(&stores, &server, &location(StorageKind::Abs, None), &keys).await;
    assert!(request.starts_with("PUT 127.0.0.1:10000/account/bucket/a/"), "{request}");
    assert!(request.contains("SharedKey account:"), "{request}");

    let stores = ObjectStores::new(dialer, BTreeMap::new()).with_base_url(StorageKind::Gcs, "http://127.0.0.1:4443");
    let store =
        stores.open(&location(StorageKind::Gcs, None), &secret(&[("access-token", "T")])).await.expect("opened");
    store.put(&Path::from("key"), PutPayload::from_static(b"x")).await.expect("put");
    let request = server.requests.lock().expect("whole").last().cloned().unwrap_or_default();
    assert_eq!(request, "PUT 127.0.0.1:4443/bucket/key Bearer T");
}

#[tokio::test]
async fn the_secret_may_say_where_abs_and_gcs_are() {
    let (server, dialer) = serve().await;
    let stores = ObjectStores::new(dialer, BTreeMap::new());
    let abs = ("storage-endpoint", "http://abs.ns.svc:10000/account/\n");
    let keys = secret(&[("storage-account", "account"), ("storage-key", "aHVzaA=="), abs]);
    let request = round_trip(&stores, &server, &location(StorageKind::Abs, None), &keys).await;
    assert!(request.starts_with("PUT abs.ns.svc:10000/account/bucket/a/"), "{request}");

    let key = r#"{"gcs_base_url": "http://gcs.ns.svc:4443", "disable_oauth": true, "client_email": "", "private_key": "",
        "private_key_id": ""}"#;
    let store = stores.open(&location(StorageKind::Gcs, None), &secret(&[("credentials.json", key)])).await;
    store.expect("opened").put(&Path::from("key"), PutPayload::from_static(b"x")).await.expect("put");
    let request = server.requests.lock().expect("whole").last().cloned().unwrap_or_default();
    assert!(request.starts_with("PUT gcs.ns.svc:4443/bucket/key"), "{request}");

    let keys = secret(&[("storage-account", "a"), ("storage-key", "aHVzaA=="), ("storage-endpoint", "ftp://hush")]);
    let error = stores.open(&location(StorageKind::Abs, None), &keys).await.expect_err("no URL").to_string();
    assert!(error.contains("`storage-endpoint` must be a URL") && !error.contains("hush"), "{error}");
}

/// Nobody answers; who was to be connected to is noted.
fn nowhere() -> (Arc<Mutex<Vec<String>>>, Dialer) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    let dialer = Dialer::new(move |uri| {
        seen.lock().expect("whole").push(uri.to_string());
        async move { Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)) }
    });
    (asked, dialer)
}

#[tokio::test]
async fn the_cloud_of_abs_decides_the_host() {
    for (cloud, host) in [
        ("", "account.blob.core.windows.net"),
        ("AzurePublicCloud", "account.blob.core.windows.net"),
        ("AzureChinaCloud", "account.blob.core.chinacloudapi.cn"),
        ("AzureUSGovernmentCloud", "account.blob.core.usgovcloudapi.net"),
        ("azuregermancloud", "account.blob.core.cloudapi.de"),
    ] {
        let (asked, dialer) = nowhere();
        let stores = ObjectStores::new(dialer, BTreeMap::new());
        let keys = secret(&[("storage-account", "account"), ("storage-key", "aHVzaA=="), ("cloud", cloud)]);
        let store = stores.open(&location(StorageKind::Abs, None), &keys).await.expect("opened");
        store.get(&Path::from("key")).await.expect_err("nobody answers");
        let asked = asked.lock().expect("whole");
        assert!(asked[0].contains(&format!("//{host}")), "{cloud}: {asked:?}");
    }
}

#[tokio::test]
async fn without_a_secret_gcs_takes_the_applications_default_credentials() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/credentials/google-application-default.json");
    let environment = [("GOOGLE_APPLICATION_CREDENTIALS".to_owned(), file.to_owned())].into();
    let (asked, dialer) = nowhere();
    let stores = ObjectStores::new(dialer, environment);
    let store = stores.open(&location(StorageKind::Gcs, None), &Credentials(None)).await.expect("opened");
    store.get(&Path::from("key")).await.expect_err("nobody answers");
    let asked = asked.lock().expect("whole");
    // The file is of a person's login: its token is asked for before anything else.
    assert!(asked.iter().all(|uri| uri.starts_with("https://accounts.google.com")), "{asked:?}");
}

#[tokio::test]
async fn the_platforms_credentials_come_from_the_environment_that_is_given() {
    let (server, dialer) = serve().await;
    let environment = [("AWS_ACCESS_KEY_ID", "ENV"), ("AWS_SECRET_ACCESS_KEY", "hush"), ("AWS_REGION", "eu-north-1")];
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let stores = ObjectStores::new(dialer, environment);
    let bucket = location(StorageKind::S3, Some("http://minio:9000"));
    let request = round_trip(&stores, &server, &bucket, &Credentials(None)).await;
    assert!(request.contains("Credential=ENV/") && request.contains("/eu-north-1/"), "{request}");
}

#[tokio::test]
async fn what_is_wrong_with_a_secret_or_location_is_named_without_its_value() {
    let stores = ObjectStores::new(Dialer::tcp(), BTreeMap::new());
    let s3 = StorageKind::S3;
    for (bucket, keys, expected) in [
        (
            location(StorageKind::Oss, None),
            secret(&[("accessKeyID", "hush")]),
            "secret `keys`: must have the key `accessKeySecret`",
        ),
        (location(StorageKind::Oss, None), Credentials(None), "oss.ossSecret: must name a Secret"),
        (location(s3, None), secret(&[("credentials", "[default]\nhush")]), "`credentials` line 2"),
        (location(s3, Some("ftp://hush:1")), aws(), "s3.endpoint: `ftp://hush:1` must be a URL"),
        (
            location(StorageKind::Abs, None),
            secret(&[("storage-account", "a"), ("storage-key", "hush!")]),
            "`storage-key` must",
        ),
        (location(StorageKind::Abs, None), secret(&[("cloud", "hush")]), "`cloud` must be one of AzurePublicCloud"),
        (location(StorageKind::Abs, None), Credentials(None), "abs.absSecret: must name"),
        (
            location(StorageKind::Gcs, None),
            secret(&[("token", "hush")]),
            "`access-token` or the key `credentials.json`",
        ),
        (
            location(StorageKind::Gcs, None),
            secret(&[("credentials.json", "hush")]),
            "`credentials.json` must be the JSON",
        ),
    ] {
        let error = stores.open(&bucket, &keys).await.expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!error.replace("ftp://hush", "").contains("hush"), "{error}");
    }
}

#[tokio::test]
async fn a_store_that_is_not_there_fails_soon_and_says_where_it_was_looked_for() {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let stores = ObjectStores::new(to(socket.local_addr().expect("bound")), BTreeMap::new());
    let store = stores.open(&location(StorageKind::S3, Some("http://minio:9000")), &aws()).await.expect("opened");
    let error = store.get(&Path::from("key")).await.expect_err("nobody listens");
    let text = format!("{error:?}");
    assert!(text.contains("minio:9000"), "{text}");
}

#[test]
fn what_of_the_environment_opens_a_bucket_is_told_by_name() {
    let names = ["AWS_REGION", "AWS_SECRET_ACCESS_KEY", "AZURE_CLIENT_ID", "GOOGLE_APPLICATION_CREDENTIALS"];
    let environment = names.map(|name| (name.to_owned(), "hush".to_owned())).into();
    let stores = ObjectStores::new(Dialer::tcp(), environment);
    assert_eq!(stores.own_settings(StorageKind::S3), ["AWS_REGION", "AWS_SECRET_ACCESS_KEY"]);
    assert_eq!(stores.own_settings(StorageKind::Gcs), ["GOOGLE_APPLICATION_CREDENTIALS"]);
    assert!(stores.own_settings(StorageKind::Oss).is_empty());
    let given_by_the_platform = ObjectStores::new(Dialer::tcp(), BTreeMap::new());
    assert!(given_by_the_platform.own_settings(StorageKind::S3).is_empty());
}

/// A certificate authority, and a server of all hosts that speaks TLS only, with a certificate of it for these.
async fn serve_https(hosts: &[&str]) -> (Server, Dialer, RootCertStore) {
    let key = rcgen::KeyPair::generate().expect("a key");
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).expect("a certificate");
    let issuer = rcgen::Issuer::new(params, key);
    let own = rcgen::KeyPair::generate().expect("a key");
    let hosts: Vec<_> = hosts.iter().map(|&host| host.to_owned()).collect();
    let params = rcgen::CertificateParams::new(hosts).expect("names");
    let certificate = params.signed_by(&own, &issuer).expect("a certificate");
    let key = PrivateKeyDer::try_from(own.serialize_der()).expect("a key");
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring speaks TLS")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .expect("they belong together");
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).expect("an authority");

    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let server = Server::default();
    let router = Router::new().fallback(answer).layer(DefaultBodyLimit::disable()).with_state(server.clone());
    let listener = Encrypted { listener, acceptor: TlsAcceptor::from(Arc::new(config)) };
    tokio::spawn(async move { axum::serve(listener, router).await });
    (server, to(address), roots)
}

struct Encrypted {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl axum::serve::Listener for Encrypted {
    type Io = TlsStream<TcpStream>;
    type Addr = std::net::SocketAddr;

    /// Who does not like our certificate is not let in.
    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = self.listener.accept().await.expect("it listens");
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

fn stores_that_trust(dialer: Dialer, roots: RootCertStore) -> ObjectStores {
    let connector = StoreConnector::with_tls(dialer, tls::store_client_config_of(roots));
    ObjectStores { connector, environment: BTreeMap::new(), base_urls: BTreeMap::new() }
}

/// What every store is on the internet.
#[tokio::test]
async fn stores_are_spoken_to_over_https_at_their_own_hosts() {
    let hosts = ["bucket.s3.eu-west-1.amazonaws.com", "bucket.minio.example"];
    let (server, dialer, roots) = serve_https(&hosts).await;
    let stores = stores_that_trust(dialer, roots);
    for endpoint in [None, Some("https://minio.example:9000")] {
        server.requests.lock().expect("whole").clear();
        let request = round_trip(&stores, &server, &location(StorageKind::S3, endpoint), &aws()).await;
        assert!(request.starts_with("PUT ") && request.contains("Credential=KEY/"), "{request}");
        let host = if endpoint.is_some() { "bucket.minio.example" } else { "bucket.s3.eu-west-1.amazonaws.com" };
        assert!(request.contains(host), "{request}");
    }
}

#[tokio::test]
async fn a_store_whose_certificate_is_not_trusted_or_not_its_own_is_refused_with_words() {
    let (_, dialer, roots) = serve_https(&["another.example"]).await;
    for (roots, words) in [(RootCertStore::empty(), "UnknownIssuer"), (roots, "not valid for name")] {
        let stores = stores_that_trust(dialer.clone(), roots);
        let location = location(StorageKind::S3, Some("https://minio.example:9000"));
        let store = stores.open(&location, &aws()).await.expect("it opens");
        let refused = store.get(&Path::from("a")).await.expect_err("it is not trusted");
        let mut said = refused.to_string();
        let mut cause = std::error::Error::source(&refused);
        while let Some(error) = cause {
            said.push_str(&format!(": {error}"));
            cause = error.source();
        }
        assert!(said.contains(words), "{said}");
    }
}
