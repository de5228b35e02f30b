//! A member's volume claim. It has the member's name and outlives its pods.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec};

use super::metadata;
use crate::api::labels::volume_labels;
use crate::api::names::volume_name;
use crate::model::{Desired, Storage};

/// The claim of a member. With emptyDir there is none to make; the plan does not ask for one then.
pub fn member_volume(desired: &Desired, name: &str, lineage: &str) -> PersistentVolumeClaim {
    let spec = match &desired.storage {
        Storage::Volume(spec) => spec.as_ref().clone(),
        Storage::EmptyDir => PersistentVolumeClaimSpec::default(),
    };
    PersistentVolumeClaim {
        metadata: metadata(&desired.identity, &volume_name(name), volume_labels(&desired.identity.name, lineage)),
        spec: Some(spec),
        status: None,
    }
}
