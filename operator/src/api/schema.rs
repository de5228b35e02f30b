//! The CustomResourceDefinitions: what kube derives from the types, plus the validation rules (CEL) that the types
//! cannot carry, less what would make them too large for `kubectl apply`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
};
use kube::CustomResourceExt;

use super::{EtcdBackup, EtcdCluster, EtcdRestore, backup, cluster, restore, storage};

/// Fields of Kubernetes' own types, inside which descriptions are left out: they are three quarters of the size, and
/// `kubectl explain pod.spec` has them.
const FOREIGN_FIELDS: &[&str] =
    &["affinity", "resources", "tolerations", "etcdEnv", "persistentVolumeClaimSpec", "securityContext"];

/// What a quantity looks like; the schema that k8s-openapi derives says only int-or-string.
const QUANTITY_PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// A validation rule in CEL, and the field whose value is its `self`.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Path of the field, such as `spec.pod.labels`; empty for the whole object.
    pub at: &'static str,
    /// The expression; true admits.
    pub rule: &'static str,
    /// What the user reads: the field, and what is allowed.
    pub message: &'static str,
}

/// The definitions of the three kinds, as they are to be applied to a Kubernetes cluster.
pub fn custom_resource_definitions() -> Vec<CustomResourceDefinition> {
    vec![
        finish(EtcdCluster::crd(), &[cluster::RULES]),
        finish(EtcdBackup::crd(), &[backup::RULES, storage::RULES]),
        finish(EtcdRestore::crd(), &[restore::RULES, storage::RULES]),
    ]
}

fn finish(mut crd: CustomResourceDefinition, rules: &[&[Rule]]) -> CustomResourceDefinition {
    // Said in so many words: the archived operator's definitions have it true, and an apply without it would keep that.
    crd.spec.preserve_unknown_fields = Some(false);
    for version in &mut crd.spec.versions {
        let schema = version.schema.as_mut().and_then(|validation| validation.open_api_v3_schema.as_mut());
        let root = schema.expect("kube derives a schema for every version");
        tidy(root, false);
        for rule in rules.iter().flat_map(|table| table.iter()) {
            let at = field_mut(root, rule.at);
            at.x_kubernetes_validations.get_or_insert_default().push(ValidationRule {
                rule: rule.rule.to_owned(),
                message: Some(rule.message.to_owned()),
                ..ValidationRule::default()
            });
        }
    }
    crd
}

/// Follows a path of properties; panics on a path that leads nowhere, which the tests would show.
fn field_mut<'a>(root: &'a mut JSONSchemaProps, path: &str) -> &'a mut JSONSchemaProps {
    path.split('.').filter(|name| !name.is_empty()).fold(root, |schema, name| {
        let property = schema.properties.as_mut().and_then(|properties| properties.get_mut(name));
        property.unwrap_or_else(|| panic!("no field `{name}` on the way to `{path}`"))
    })
}

/// Makes one schema and all below it ours:
/// - `nullable` goes, so that the API server drops a `null` as if the field were absent, which is what `has()` in the
///   rules, and the archived operator, take it for;
/// - quantities get their pattern; descriptions below fields of Kubernetes' own types go.
fn tidy(schema: &mut JSONSchemaProps, foreign: bool) {
    schema.nullable = None;
    if foreign {
        schema.description = None;
    }
    if schema.x_kubernetes_int_or_string == Some(true) {
        schema.pattern = Some(QUANTITY_PATTERN.to_owned());
    }
    for (name, property) in schema.properties.iter_mut().flatten() {
        let description = property.description.take();
        let foreign_below = foreign || FOREIGN_FIELDS.contains(&name.as_str());
        tidy(property, foreign_below);
        if !foreign {
            property.description = description;
        }
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => tidy(items, foreign),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(|item| tidy(item, foreign)),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        tidy(values, foreign);
    }
}
