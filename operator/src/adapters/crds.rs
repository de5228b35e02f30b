//! The definitions of our kinds, put into Kubernetes at start: created, or replaced where they differ from ours.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

/// How often a definition is written anew when somebody else writes it at the same moment.
const ATTEMPTS_MAX: usize = 5;

/// How one definition was found or left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Applied {
    /// It was not there.
    Created,
    /// It was another one.
    Replaced,
    /// It says what ours says.
    AsItIs,
    /// We may not look at it or write it: somebody else must have installed it.
    Forbidden,
}

/// Why the definitions could not be applied.
#[derive(Debug, thiserror::Error)]
#[error("the definition of {name} could not be applied")]
pub struct NotApplied {
    name: String,
    #[source]
    source: kube::Error,
}

/// The definitions as one object for `kubectl apply -f -`.
pub fn list(definitions: &[CustomResourceDefinition]) -> String {
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": definitions});
    format!("{list:#}")
}

/// Applies the definitions one after another. Not being allowed to is no error: then somebody else installs them.
///
/// # Errors
/// When the API server cannot be reached or does not take one of them.
pub async fn apply(client: &Client, definitions: &[CustomResourceDefinition]) -> Result<(), NotApplied> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in definitions {
        let name = definition.name_any();
        match apply_one(&api, definition).await {
            Ok(Applied::Created) => tracing::info!(name, "definition created"),
            Ok(Applied::Replaced) => tracing::info!(name, "definition replaced by ours"),
            Ok(Applied::AsItIs) => tracing::debug!(name, "definition is as ours"),
            Ok(Applied::Forbidden) => tracing::warn!(
                name,
                "not allowed to apply this definition; going on, it must be installed otherwise (--create-crd=false)"
            ),
            Err(source) => return Err(NotApplied { name, source }),
        }
    }
    Ok(())
}

async fn apply_one(
    api: &Api<CustomResourceDefinition>,
    wanted: &CustomResourceDefinition,
) -> Result<Applied, kube::Error> {
    let mut attempt = 1;
    loop {
        let written = match api.get_opt(&wanted.name_any()).await {
            Ok(None) => api.create(&PostParams::default(), wanted).await.map(|_| Applied::Created),
            Ok(Some(found)) if says_the_same(&found, wanted) => return Ok(Applied::AsItIs),
            Ok(Some(mut found)) => {
                // Labels, status and stored versions stay; resourceVersion is the precondition.
                found.spec = wanted.spec.clone();
                api.replace(&wanted.name_any(), &PostParams::default(), &found).await.map(|_| Applied::Replaced)
            }
            Err(error) => Err(error),
        };
        match written {
            Err(kube::Error::Api(status)) if status.code == 403 => return Ok(Applied::Forbidden),
            Err(kube::Error::Api(status)) if status.code == 409 && attempt < ATTEMPTS_MAX => attempt += 1,
            written => return written,
        }
    }
}

/// Whether everything that ours says is so in the one that was found. What the server adds as defaults is no difference.
fn says_the_same(found: &CustomResourceDefinition, wanted: &CustomResourceDefinition) -> bool {
    let json = |definition: &CustomResourceDefinition| serde_json::to_value(&definition.spec).unwrap_or_default();
    covers(&json(found), &json(wanted))
}

fn covers(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => wanted.iter().all(|(name, wanted)| match found.get(name) {
            Some(found) => covers(found, wanted),
            // The server leaves out what has no value.
            None => matches!(wanted, Value::Null | Value::Bool(false)),
        }),
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len() && found.iter().zip(wanted).all(|(found, wanted)| covers(found, wanted))
        }
        _ => found == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_of_the_server_are_no_difference_and_anything_else_is() {
        let wanted = json!({"a": 1, "preserve": false, "rules": [{"rule": "x"}]});
        assert!(covers(
            &json!({"a": 1, "conversion": {"strategy": "None"}, "rules": [{"rule": "x", "m": 1}]}),
            &wanted
        ));
        assert!(!covers(&json!({"a": 1, "preserve": true, "rules": [{"rule": "x"}]}), &wanted));
        assert!(!covers(&json!({"a": 1, "rules": [{"rule": "y"}]}), &wanted));
        assert!(!covers(&json!({"a": 1, "rules": []}), &wanted));
        assert!(!covers(&json!({"rules": [{"rule": "x"}]}), &wanted));
    }
}
