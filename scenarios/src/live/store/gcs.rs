//! Google Cloud Storage: fake-gcs-server, as `gcs.default.svc`. It looks at no credentials, so a case cannot show that
//! wrong ones are refused.

use std::path::Path;

use fake_k8s::process::network::GATEWAY;
use serde_json::json;
use tokio::process::Command;

use super::BUCKETS;

/// Where it listens.
pub const PORT: u16 = 4443;
const HOST: &str = "gcs.default.svc";

/// The key of a service account that leads here, as the operator's client library takes it.
pub fn credentials() -> String {
    let url = format!("http://{HOST}:{PORT}");
    json!({"gcs_base_url": url, "disable_oauth": true, "client_email": "", "private_key": "", "private_key_id": ""})
        .to_string()
}

/// How it is started. It keeps everything in memory.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .args(["-listen", &format!("{GATEWAY}:{PORT}"), "-public-host", &format!("{HOST}:{PORT}")])
        .args(BUCKETS)
        .env_clear()
        .envs([("HOME", "/run"), ("PATH", "/usr/bin:/bin")]);
    command
}
