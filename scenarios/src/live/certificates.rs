//! Certificates: for a cluster with static TLS, with the names that the archived operator's users put into theirs; and for
//! the Kubernetes API.

use std::net::Ipv4Addr;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fake_k8s::http::access::Access;
use fake_k8s::server::Request;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use serde_json::{Map, Value, json};

use super::store::random_word;
use super::world::{NAMESPACE, World, resource};

/// Makes an authority, and from it the Secrets `<cluster>-peer-tls`, `<cluster>-server-tls` and `<cluster>-client-tls`.
///
/// # Errors
/// When a Secret is there already.
pub fn create(world: &World, cluster: &str) -> anyhow::Result<()> {
    let authority = Authority::new(cluster)?;
    let members = format!("*.{cluster}.{NAMESPACE}.svc");
    let service = format!("{cluster}-client.{NAMESPACE}.svc");
    let with_domain = |name: &str| [name.to_owned(), format!("{name}.cluster.local")];
    let peers = with_domain(&members).to_vec();
    let servers = [with_domain(&members), with_domain(&service)].concat().into_iter().chain(["localhost".to_owned()]);
    // etcd compares names in a client's certificate with where the client is: one without names may be anywhere.
    for (suffix, files, names) in
        [("peer", "peer", peers), ("server", "server", servers.collect()), ("client", "etcd-client", Vec::new())]
    {
        let (certificate, key) = authority.sign(suffix, names)?;
        let data: Map<String, Value> = [("crt", &certificate), ("key", &key)]
            .into_iter()
            .map(|(ending, content)| (format!("{files}.{ending}"), content))
            .chain([(format!("{files}-ca.crt"), &authority.pem)])
            .map(|(file, content)| (file, Value::String(STANDARD.encode(content))))
            .collect();
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "data": data,
            "metadata": {"name": format!("{cluster}-{suffix}-tls")}});
        world.handle(&Request::create(resource("Secret"), NAMESPACE, secret))?;
    }
    Ok(())
}

/// What lets the operator and kubectl into a Kubernetes API at this address, and nobody else.
///
/// # Errors
/// When there are no random bytes.
pub fn access(address: Ipv4Addr) -> anyhow::Result<Access> {
    let authority = Authority::new("kubernetes")?;
    let (certificate, key) = authority.sign("kube-apiserver", vec![address.to_string()])?;
    Access::new(&certificate, &key, &authority.pem, &random_word()?).map_err(anyhow::Error::msg)
}

/// Who signs certificates.
pub(crate) struct Authority {
    /// Its own certificate.
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A fresh one.
    ///
    /// # Errors
    /// When there are no random bytes.
    pub fn new(name: &str) -> anyhow::Result<Self> {
        let key = KeyPair::generate().context("no key")?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, format!("{name}-ca"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let pem = params.self_signed(&key).context("cannot sign")?.pem();
        Ok(Self { pem, issuer: Issuer::new(params, key) })
    }

    /// Certificate and key, in PEM.
    ///
    /// # Errors
    /// When a name is none.
    pub fn sign(&self, name: &str, hosts: Vec<String>) -> anyhow::Result<(String, String)> {
        let mut params = CertificateParams::new(hosts).context("a name is no host name")?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        let key = KeyPair::generate().context("no key")?;
        let certificate = params.signed_by(&key, &self.issuer).context("cannot sign")?;
        Ok((certificate.pem(), key.serialize_pem()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etcd_operator::adapters::etcd::error::chain;
    use etcd_operator::adapters::{connect, tls};
    use fake_k8s::http::{Shared, serve};
    use fake_k8s::server::Server;
    use std::net::TcpListener;
    use std::sync::Arc;

    /// What the operator's client says of a server, by this kubeconfig: nothing, or all that is wrong.
    #[expect(clippy::disallowed_methods, reason = "a test's own file lies among temporary ones")]
    async fn complaint(kubeconfig: &str, name: &str) -> Option<String> {
        let path = std::env::temp_dir().join(format!("access-{name}-{}", std::process::id()));
        std::fs::write(&path, kubeconfig).expect("a temporary file");
        let client = connect::kubernetes(Some(&path)).await;
        std::fs::remove_file(&path).expect("ours");
        let answer = client.expect("a kubeconfig").0.apiserver_version().await;
        answer.err().map(|error| chain(&error))
    }

    #[test]
    fn the_api_is_open_to_who_trusts_it_and_has_the_token() {
        tls::install_crypto_provider();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let (ours, others) = [access(Ipv4Addr::LOCALHOST), access(Ipv4Addr::LOCALHOST)].map(Result::unwrap).into();
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let address = listener.local_addr().expect("bound");
            let kubeconfig = ours.kubeconfig(address);
            tokio::spawn(serve(Shared::new(Server::new(1)), listener, Some(Arc::new(ours)), std::future::pending()));
            assert_eq!(complaint(&kubeconfig, "right").await, None);
            let said = complaint(&kubeconfig.replace("token: ", "token: x"), "token").await.unwrap_or_default();
            assert!(said.contains("Unauthorized"), "{said}");
            let said = complaint(&others.kubeconfig(address), "authority").await.unwrap_or_default();
            assert!(said.contains("certificate"), "{said}");
            let said = complaint(&fake_k8s::http::kubeconfig(address), "plain").await.unwrap_or_default();
            assert!(!said.is_empty(), "it is served without TLS");
        });
    }
}
