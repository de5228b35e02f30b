//! Azure Blob Storage: Azurite, as `abs.default.svc`. It checks the account's key.

use std::path::Path;

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fake_k8s::process::network::GATEWAY;
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;

use super::{BUCKETS, Keys};

/// Where it listens.
pub const PORT: u16 = 10000;
/// The one account that it knows.
pub const ACCOUNT: &str = "testbed";
const HOST: &str = "abs.default.svc";
/// Of the protocol.
const VERSION: &str = "2021-08-06";

/// What pods call it, and in it the account, as `BlobEndpoint` of a connection string has it.
pub fn endpoint() -> String {
    format!("http://{HOST}:{PORT}/{ACCOUNT}")
}

/// A key in the form that accounts have.
pub fn key(word: &str) -> String {
    STANDARD.encode(word)
}

/// How it is started.
///
/// # Errors
/// When its directory cannot be made.
#[allow(clippy::disallowed_methods, reason = "what its script needs is where the user has it")]
pub fn command(program: &Path, data: &Path, keys: &Keys) -> anyhow::Result<Command> {
    std::fs::create_dir_all(data).context("cannot make a directory for the store")?;
    let mut command = Command::new(program);
    command
        .args(["--blobHost", &GATEWAY.to_string(), "--blobPort", &PORT.to_string(), "--location"])
        .arg(data)
        .args(["--disableProductStyleUrl", "--skipApiVersionCheck", "--disableTelemetry", "--silent"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("AZURITE_ACCOUNTS", format!("{ACCOUNT}:{}", keys.abs_key))
        .env("HOME", "/run");
    Ok(command)
}

/// Makes the buckets: the operator never makes one, so its adapter cannot.
///
/// # Errors
/// When the server does not answer, or says no.
pub async fn make_containers(keys: &Keys) -> anyhow::Result<()> {
    for bucket in BUCKETS {
        let date = Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let path = format!("/{ACCOUNT}/{bucket}");
        // The headers of the request that count, most of them absent; then ours; then what is asked for.
        let signed = format!(
            "PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:{date}\nx-ms-version:{VERSION}\n/{ACCOUNT}{path}\nrestype:container"
        );
        let signature = STANDARD.encode(hmac(&STANDARD.decode(&keys.abs_key)?, signed.as_bytes()));
        let request = format!(
            "PUT {path}?restype=container HTTP/1.1\r\nHost: {HOST}:{PORT}\r\nConnection: close\r\nContent-Length: 0\r\n\
             x-ms-date: {date}\r\nx-ms-version: {VERSION}\r\nAuthorization: SharedKey {ACCOUNT}:{signature}\r\n\r\n"
        );
        let mut stream = TcpStream::connect((GATEWAY, PORT)).await.context("it does not listen")?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let status = answer.split(' ').nth(1).unwrap_or_default();
        if !["201", "409"].contains(&status) {
            bail!("container {bucket} cannot be made: {answer}");
        }
    }
    Ok(())
}

/// HMAC with SHA-256, of a key that is no longer than a block.
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = [0_u8; 64];
    block[..key.len()].copy_from_slice(key);
    let inner = Sha256::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c)).chain_update(inner).finalize().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_rfc_4231() {
        let hex: String = hmac(b"Jefe", b"what do ya want for nothing?").iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }
}
