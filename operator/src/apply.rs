//! [`Step`] -> port calls: one arm per step, no policy.
//!
//! A step either carries everything that makes it safe (uid, resourceVersion), or is fenced here: an etcd membership
//! call is sent only if the member list, read once more through a quorum, still is the one that was planned against.
//! What race remains: a list that changes between that read and the call. Only the lease holder changes lists, etcd
//! itself refuses a second change in flight, and what a person does with etcdctl at that moment is etcd's rules again.

pub mod event;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Service;
use serde_json::json;

use crate::api::labels::{
    ANNOTATION_AGENT_IMAGE, ANNOTATION_ETCD_VERSION, ANNOTATION_IMAGE, ANNOTATION_REPLACED_CONTAINER,
    ANNOTATION_REPLACED_IMAGE, LABEL_ROLE, Role,
};
use crate::build;
use crate::model::{Desired, MemberId};
use crate::plan::{Fence, Step};
use crate::ports::{EtcdAccess, EtcdError, EtcdTls, Kind, KubernetesError, ObjectKey, Ports, Preconditions, Typed};

/// Calls that advance a raft log at the same time: etcd writes several entries at once.
const LOG_CALLS_AT_ONCE: usize = 16;

/// Containers of a member's pod that run etcd's image.
const OF_ETCD: &[&str] = &["etcd", "restore"];
/// Containers of a member's pod that run ours.
const OF_AGENT: &[&str] = &["agent", "fetch"];

/// Why a step was not carried out, or is not known to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The Kubernetes API did not take it.
    #[error("{what}")]
    Kubernetes {
        /// Which step, in words.
        what: String,
        /// Why.
        #[source]
        source: KubernetesError,
    },
    /// etcd did not carry it out.
    #[error("{what}")]
    Etcd {
        /// Which step, in words.
        what: String,
        /// Why.
        #[source]
        source: EtcdError,
    },
    /// The member list is not the one that the step was planned against. Nothing was sent.
    #[error("{what}: the member list changed meanwhile")]
    Fenced {
        /// Which step, in words.
        what: String,
    },
}

/// What the steps of a pass have in common.
pub struct Applier<'a> {
    /// The ports, behind the fence.
    pub ports: &'a Ports,
    /// The cluster that they are about.
    pub desired: &'a Desired,
    /// Our client's material.
    pub tls: Option<&'a EtcdTls>,
}

impl Applier<'_> {
    /// Carries one step out. Repeating a step that was carried out already does no harm and fails.
    ///
    /// # Errors
    /// See [`ApplyError`]; the pass ends there, and the next one observes anew.
    pub async fn apply(&self, step: &Step) -> Result<(), ApplyError> {
        match step {
            Step::CreateService(service) => self.create(step, service.as_ref().clone()).await,
            Step::CreateVolume(volume) => self.create(step, volume.as_ref().clone()).await,
            Step::CreatePod(pod) => self.create(step, pod.as_ref().clone()).await,
            Step::UpdateService(service) => {
                let updated = self.update_service(service).await;
                updated.map_err(|source| kubernetes_error(step, source))
            }
            Step::DeletePod { name, uid, resource_version, .. } => {
                self.delete(step, Kind::Pod, name, uid, resource_version).await
            }
            Step::DeleteVolume { name, uid, resource_version, .. } => {
                self.delete(step, Kind::PersistentVolumeClaim, name, uid, resource_version).await
            }
            Step::PatchImage { name, uid, resource_version, image, container, version, .. } => {
                let (spec, before) = self.with_images(step, name, image, OF_ETCD).await?;
                // (A null takes an annotation away.)
                let annotations = json!({
                    ANNOTATION_ETCD_VERSION: version.to_string(),
                    ANNOTATION_IMAGE: image,
                    ANNOTATION_REPLACED_CONTAINER: container,
                    ANNOTATION_REPLACED_IMAGE: before.filter(|_| container.is_some()),
                });
                let patch = json!({ "metadata": { "annotations": annotations }, "spec": spec });
                self.patch_pod(step, name, uid, resource_version, patch).await
            }
            Step::PatchAgent { name, uid, resource_version, image } => {
                let (spec, _) = self.with_images(step, name, image, OF_AGENT).await?;
                let patch = json!({ "metadata": { "annotations": { ANNOTATION_AGENT_IMAGE: image } }, "spec": spec });
                self.patch_pod(step, name, uid, resource_version, patch).await
            }
            Step::LabelVoter { name, uid, resource_version } => {
                let patch = json!({ "metadata": { "labels": { LABEL_ROLE: Role::Voter.as_str() } } });
                self.patch_pod(step, name, uid, resource_version, patch).await
            }
            Step::AddMember { peer_url, learner, endpoints, fence, .. } => {
                let access = self.fenced(step, endpoints, fence).await?;
                let added = self.ports.etcd.member_add(&access, peer_url, *learner).await;
                added.map(|_: MemberId| ()).map_err(|source| etcd_error(step, source))
            }
            Step::PromoteMember { id, endpoints, fence, .. } => {
                let access = self.fenced(step, endpoints, fence).await?;
                self.ports.etcd.member_promote(&access, *id).await.map_err(|source| etcd_error(step, source))
            }
            Step::RemoveMember { id, endpoints, fence, .. } => {
                let access = self.fenced(step, endpoints, fence).await?;
                self.ports.etcd.member_remove(&access, *id).await.map_err(|source| etcd_error(step, source))
            }
            Step::Disarm { member, alarm, endpoints, .. } => {
                let access = self.access(endpoints);
                self.ports.etcd.disarm(&access, *member, *alarm).await.map_err(|source| etcd_error(step, source))
            }
            Step::AdvanceLog { entries, endpoints } => self.advance_log(step, *entries, endpoints).await,
            Step::MoveLeader { endpoint, to, .. } => {
                let access = self.access(std::slice::from_ref(endpoint));
                self.ports.etcd.move_leader(&access, *to).await.map_err(|source| etcd_error(step, source))
            }
        }
    }

    /// etcd answers a question for its alarms through the raft log: one entry each, which changes nothing.
    async fn advance_log(&self, step: &Step, entries: u64, endpoints: &[String]) -> Result<(), ApplyError> {
        let access = self.access(endpoints);
        let asking = futures::stream::iter(0..entries).map(|_| self.ports.etcd.alarms(&access));
        let asked = asking.buffer_unordered(LOG_CALLS_AT_ONCE).try_for_each(|_| async { Ok(()) }).await;
        asked.map_err(|source| etcd_error(step, source))
    }

    fn access(&self, endpoints: &[String]) -> EtcdAccess {
        EtcdAccess { endpoints: endpoints.to_vec(), tls: self.tls.cloned() }
    }

    fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::new(&self.desired.identity.namespace, name)
    }

    async fn create(&self, step: &Step, object: impl Typed) -> Result<(), ApplyError> {
        match self.ports.kubernetes.create(&object.into_object()).await {
            Ok(_) => Ok(()),
            Err(source) => Err(kubernetes_error(step, source)),
        }
    }

    /// Writes over what was planned against, and only over our part of it.
    async fn update_service(&self, wanted: &Service) -> Result<(), KubernetesError> {
        let key = self.key(wanted.metadata.name.as_deref().unwrap_or_default());
        let actual = self.ports.kubernetes.get_typed::<Service>(&key).await?;
        let actual = actual.ok_or_else(|| KubernetesError::NotFound { message: format!("Service {key} is gone") })?;
        let version = |service: &Service| (service.metadata.uid.clone(), service.metadata.resource_version.clone());
        if version(&actual) != version(wanted) {
            let message = format!("Service {key} was changed since it was looked at");
            return Err(KubernetesError::Conflict { message });
        }
        let changed = build::service_changed(&actual, wanted);
        self.ports.kubernetes.replace(&changed.into_object()).await.map(drop)
    }

    async fn delete(
        &self,
        step: &Step,
        kind: Kind,
        name: &str,
        uid: &str,
        resource_version: &str,
    ) -> Result<(), ApplyError> {
        let preconditions = Preconditions { uid: uid.to_owned(), resource_version: Some(resource_version.to_owned()) };
        match self.ports.kubernetes.delete(kind, &self.key(name), &preconditions, None).await {
            // Gone already, by somebody else or by our own request whose answer was lost.
            Ok(()) | Err(KubernetesError::NotFound { .. }) => Ok(()),
            Err(source) => Err(kubernetes_error(step, source)),
        }
    }

    async fn patch_pod(
        &self,
        step: &Step,
        name: &str,
        uid: &str,
        resource_version: &str,
        mut patch: serde_json::Value,
    ) -> Result<(), ApplyError> {
        patch["metadata"]["uid"] = uid.into();
        patch["metadata"]["resourceVersion"] = resource_version.into();
        let patched = self.ports.kubernetes.merge_patch(Kind::Pod, &self.key(name), &patch).await;
        patched.map(drop).map_err(|source| kubernetes_error(step, source))
    }

    /// A JSON merge patch replaces lists whole, so the patch carries all containers as they are, with the image of some
    /// changed. The resourceVersion of the step makes sure that they still are so. An init container that is done keeps
    /// no old image either: on a node that restarts it is needed again. The second is the image that the first of them in
    /// the pod has.
    async fn with_images(
        &self,
        step: &Step,
        name: &str,
        image: &str,
        changed: &[&str],
    ) -> Result<(serde_json::Value, Option<serde_json::Value>), ApplyError> {
        let pod = self.ports.kubernetes.get(Kind::Pod, &self.key(name)).await;
        let pod = pod.map_err(|source| kubernetes_error(step, source))?.ok_or_else(|| {
            kubernetes_error(step, KubernetesError::NotFound { message: format!("pod {name} is gone") })
        })?;
        let (mut pod, mut spec, mut before) = (pod.to_json(), json!({}), None);
        for list in ["containers", "initContainers"] {
            let mut containers = pod["spec"][list].take();
            let Some(all) = containers.as_array_mut() else { continue };
            let is_changed = |container: &serde_json::Value| changed.iter().any(|name| container["name"] == **name);
            for container in all.iter_mut().filter(|container| is_changed(container)) {
                let replaced = std::mem::replace(&mut container["image"], image.into());
                before.get_or_insert(replaced);
            }
            spec[list] = containers;
        }
        Ok((spec, before))
    }

    /// Access to the endpoints, once their member list has been seen to be the one that was planned against.
    async fn fenced(&self, step: &Step, endpoints: &[String], fence: &Fence) -> Result<EtcdAccess, ApplyError> {
        let access = self.access(endpoints);
        let membership = self.ports.etcd.members(&access, true).await.map_err(|source| etcd_error(step, source))?;
        if membership.fence() == *fence { Ok(access) } else { Err(ApplyError::Fenced { what: event::describe(step) }) }
    }
}

fn kubernetes_error(step: &Step, source: KubernetesError) -> ApplyError {
    ApplyError::Kubernetes { what: event::describe(step), source }
}

fn etcd_error(step: &Step, source: EtcdError) -> ApplyError {
    ApplyError::Etcd { what: event::describe(step), source }
}
