//! Certificates for a cluster with static TLS, with the names that the archived operator's users put into theirs.

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fake_k8s::server::Request;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use serde_json::{Map, Value, json};

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

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> anyhow::Result<Self> {
        let key = KeyPair::generate().context("no key")?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, format!("{name}-ca"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let pem = params.self_signed(&key).context("cannot sign")?.pem();
        Ok(Self { pem, issuer: Issuer::new(params, key) })
    }

    /// Certificate and key, in PEM.
    fn sign(&self, name: &str, hosts: Vec<String>) -> anyhow::Result<(String, String)> {
        let mut params = CertificateParams::new(hosts).context("a name is no host name")?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        let key = KeyPair::generate().context("no key")?;
        let certificate = params.signed_by(&key, &self.issuer).context("cannot sign")?;
        Ok((certificate.pem(), key.serialize_pem()))
    }
}
