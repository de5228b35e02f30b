//! The CustomResourceDefinitions in the chart are the ones that the types give, and Kubernetes can take them.
//!
//! `UPDATE_CRDS=1 cargo test -p etcd-operator --test api_crds` writes them anew.

use std::path::{Path, PathBuf};

use etcd_operator::api::schema::custom_resource_definitions;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

/// `kubectl apply` keeps the object in an annotation, and all annotations together may have 262144 bytes.
const BYTES_MAX: usize = 200_000;

const HEADER: &str = "# Generated from operator/src/api; do not edit. To write it anew:\n\
                      #   UPDATE_CRDS=1 cargo test -p etcd-operator --test api_crds\n";

fn path(crd: &CustomResourceDefinition) -> PathBuf {
    let file = format!("{}.yaml", crd.spec.names.plural);
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/etcd-operator/crds").join(file)
}

fn text(crd: &CustomResourceDefinition) -> String {
    // Through Value, whose keys are sorted: the text depends on the types and on nothing else.
    let value = serde_json::to_value(crd).expect("a CRD serialises");
    format!("{HEADER}{}", serde_saphyr::to_string(&value).expect("a CRD is YAML"))
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the switch of a generator, read by a test only")]
fn files_in_the_chart_are_fresh() {
    let update = std::env::var("UPDATE_CRDS").is_ok();
    for crd in custom_resource_definitions() {
        let (path, text) = (path(&crd), text(&crd));
        if update {
            std::fs::create_dir_all(path.parent().expect("it is in a directory")).expect("the directory can be made");
            std::fs::write(&path, &text).expect("the file can be written");
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == text,
            "{} is stale: UPDATE_CRDS=1 cargo test -p etcd-operator --test api_crds",
            path.display()
        );
        let parsed: Value = serde_saphyr::from_str(&found).expect("the file is YAML");
        assert_eq!(parsed, serde_json::to_value(&crd).expect("a CRD serialises"), "{}", path.display());
    }
}

#[test]
fn each_fits_into_the_annotation_of_kubectl_apply() {
    for crd in custom_resource_definitions() {
        let size = serde_json::to_vec(&crd).expect("a CRD serialises").len();
        assert!(size < BYTES_MAX, "{}: {size} bytes", crd.spec.names.plural);
    }
}
