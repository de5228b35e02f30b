//! What this process learns from its own pod: the image that it runs, so that members' pods run the same agent.

use k8s_openapi::api::core::v1::Pod;

use crate::ports::{Controller, KubernetesError, ObjectKey, Ports};

/// Why the agent's image is not known.
#[derive(Debug, thiserror::Error)]
pub enum ImageUnknown {
    /// Not told who we are.
    #[error("the agent's image is not known: {HINT}")]
    NoPodName,
    /// The pod could not be read.
    #[error("the agent's image is not known, pod {key} cannot be read: {HINT}")]
    NotRead {
        /// Our pod.
        key: ObjectKey,
        /// What Kubernetes said.
        #[source]
        source: KubernetesError,
    },
    /// It does not exist, or has no container.
    #[error("the agent's image is not known, there is no pod {key}: {HINT}")]
    NoPod {
        /// Our pod.
        key: ObjectKey,
    },
}

const HINT: &str =
    "give --agent-image or AGENT_IMAGE, or let MY_POD_NAMESPACE and MY_POD_NAME name the pod that runs the operator";

/// The image that was given, or that of our own container.
///
/// # Errors
/// When the pod's name is not known, or the pod cannot be read.
pub async fn image(
    given: Option<&str>,
    ports: &Ports,
    namespace: &str,
    pod_name: Option<&str>,
) -> Result<String, ImageUnknown> {
    if let Some(image) = given {
        return Ok(image.to_owned());
    }
    let key = ObjectKey::new(namespace, pod_name.ok_or(ImageUnknown::NoPodName)?);
    match ports.kubernetes.get_typed::<Pod>(&key).await {
        Ok(Some(pod)) => image_of(&pod).ok_or(ImageUnknown::NoPod { key }),
        Ok(None) => Err(ImageUnknown::NoPod { key }),
        Err(source) => Err(ImageUnknown::NotRead { key, source }),
    }
}

/// Of the container that has the name of one of the archived operator's binaries; others may have been put beside it.
fn image_of(pod: &Pod) -> Option<String> {
    let containers = &pod.spec.as_ref()?.containers;
    let ours = containers.iter().find(|container| Controller::ALL.iter().any(|one| one.lock_name() == container.name));
    ours.or(containers.first())?.image.clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_image_is_our_containers_even_beside_others() {
        let pod = |names: &[&str]| -> Pod {
            let containers: Vec<_> =
                names.iter().map(|name| json!({"name": name, "image": format!("{name}:1")})).collect();
            serde_json::from_value(json!({"metadata": {}, "spec": {"containers": containers}})).expect("a pod")
        };
        assert_eq!(image_of(&pod(&["proxy", "etcd-operator"])).as_deref(), Some("etcd-operator:1"));
        assert_eq!(image_of(&pod(&["manager"])).as_deref(), Some("manager:1"));
        assert_eq!(image_of(&Pod::default()), None);
    }
}
