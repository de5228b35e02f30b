//! The connection to Kubernetes: a kubeconfig that is named, what kubectl would take, or the pod's service account.

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::dial::CONNECT_TIMEOUT;
use super::kube::read_timeout;

/// Why there is no connection to try.
#[derive(Debug, thiserror::Error)]
pub enum NotConfigured {
    /// The file that was named is no kubeconfig.
    #[error("--kubeconfig {}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: KubeconfigError,
    },
    /// Nothing was named, and nothing found.
    #[error("not in a pod, and no kubeconfig; give --kubeconfig, or set KUBECONFIG")]
    Nothing(#[source] kube::config::InferConfigError),
    /// What was found cannot be used.
    #[error("the configuration for Kubernetes cannot be used")]
    Unusable(#[source] kube::Error),
}

/// The client, and the namespace that its configuration names. Sends nothing.
///
/// # Errors
/// When there is no usable configuration.
pub async fn kubernetes(kubeconfig: Option<&Path>) -> Result<(Client, String), NotConfigured> {
    let config = match kubeconfig {
        Some(path) => {
            let wrong = |source| NotConfigured::Kubeconfig { path: path.to_owned(), source };
            let read = Kubeconfig::read_from(path).map_err(wrong)?;
            Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.map_err(wrong)?
        }
        None => Config::infer().await.map_err(NotConfigured::Nothing)?,
    };
    let namespace = config.default_namespace.clone();
    let client = client(config).map_err(NotConfigured::Unusable)?;
    Ok((client, namespace))
}

/// The client of a configuration, with our time-outs, and without what kube does by default: to send a request again when
/// the answer was 429, 503 or 504. A write whose answer does not tell must be followed by a look, and not by itself.
///
/// # Errors
/// When the configuration cannot be used.
pub fn client(mut config: Config) -> Result<Client, kube::Error> {
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // A watch is silent for as long as nothing happens; every other call has its own, shorter deadline.
    config.read_timeout = Some(read_timeout());
    config.write_timeout = Some(Duration::from_secs(30));
    config.default_retry = false;
    Client::try_from(config)
}
