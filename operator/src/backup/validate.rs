//! EtcdBackup -> [`Desired`]; the last reader of its spec. Admission refuses most of what is refused here; objects
//! of the archived operator's time were never asked.

use jiff::SignedDuration;
use object_store::path::Path;
use std::fmt;

use super::names::{manifest_key, periodic_key};
use super::schedule::Schedule;
use crate::api::backup::TIMEOUT_SECONDS_DEFAULT;

use crate::api::{EtcdBackup, StorageSource, StorageType};
use crate::model::location::endpoint;
use crate::model::{BucketLocation, ObjectLocation, Revision, StorageKind};
use crate::ports::ObjectKey;

/// Longest key that all four stores take.
const KEY_BYTES_MAX: usize = 1024;

/// What is wanted of one EtcdBackup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    /// Which one.
    pub key: ObjectKey,
    /// Its uid.
    pub uid: String,
    /// `metadata.generation` that this was made from.
    pub generation: Option<i64>,
    /// Being deleted: nothing is begun.
    pub deleting: bool,
    /// Client endpoints, as the spec has them.
    pub endpoints: Vec<String>,
    /// Secret with the client certificate.
    pub tls_secret: Option<String>,
    /// Where to: the key itself, or what periodic names begin with.
    pub location: ObjectLocation,
    /// When.
    pub schedule: Schedule,
    /// How many to keep; 0 is all.
    pub keep: usize,
    /// How long nothing may move before an attempt is given up: `timeoutInSecond`. Not a bound on the whole backup,
    /// which a large database would never meet.
    pub stall: SignedDuration,
}

impl Desired {
    /// Whether a run that was begun for `other` is what is wanted here, too: when and how many to keep do not matter to it.
    pub fn is_same_run(&self, other: &Self) -> bool {
        let is_once = |desired: &Self| desired.schedule == Schedule::Once;
        self.endpoints == other.endpoints
            && self.tls_secret == other.tls_secret
            && self.location == other.location
            && self.stall == other.stall
            && is_once(self) == is_once(other)
    }
}

/// A field that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// Its path.
    pub field: String,
    /// What is allowed.
    pub message: String,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.field, self.message)
    }
}

fn invalid(field: impl Into<String>, message: impl Into<String>) -> Invalid {
    Invalid { field: field.into(), message: message.into() }
}

/// All that is wrong with a spec, as one sentence.
pub fn sentence(faults: &[Invalid]) -> String {
    faults.iter().map(Invalid::to_string).collect::<Vec<_>>().join("; ")
}

/// What an EtcdBackup asks for.
///
/// # Errors
/// Every field that cannot be used, with what is allowed.
pub fn validate(backup: &EtcdBackup) -> Result<Desired, Vec<Invalid>> {
    let (meta, spec) = (&backup.metadata, &backup.spec);
    let policy = spec.backup_policy.clone().unwrap_or_default();
    let mut faults = Vec::new();
    if spec.etcd_endpoints.is_empty() {
        faults
            .push(invalid("spec.etcdEndpoints", "must name at least one endpoint, such as http://my-etcd-client:2379"));
    }
    for (index, endpoint) in spec.etcd_endpoints.iter().enumerate() {
        let scheme = endpoint.split_once("://").map(|(scheme, _)| scheme);
        if endpoint.is_empty() || !matches!(scheme, None | Some("http" | "https")) {
            let field = format!("spec.etcdEndpoints[{index}]");
            faults.push(invalid(field, "must be an http:// or https:// URL, or host:port"));
        }
    }
    if policy.backup_interval_in_second < 0 {
        faults.push(invalid("spec.backupPolicy.backupIntervalInSecond", "must be 0 (one backup) or above"));
    }
    if policy.max_backups < 0 {
        faults.push(invalid("spec.backupPolicy.maxBackups", "must be 0 (keep all) or above"));
    }
    let schedule = match policy.backup_interval_in_second {
        0 => Schedule::Once,
        seconds => Schedule::Every(SignedDuration::from_secs(seconds)),
    };
    let periodic = schedule != Schedule::Once;
    let storage = ("spec.storageType", spec.storage_type);
    let location = location(storage, &spec.source, periodic).inspect_err(|more| faults.extend(more.clone()));
    let Ok(location) = location else { return Err(faults) };
    if !faults.is_empty() {
        return Err(faults);
    }
    let seconds = if policy.timeout_in_second > 0 { policy.timeout_in_second } else { TIMEOUT_SECONDS_DEFAULT };
    Ok(Desired {
        key: ObjectKey::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default()),
        uid: meta.uid.clone().unwrap_or_default(),
        generation: meta.generation,
        deleting: meta.deletion_timestamp.is_some(),
        endpoints: spec.etcd_endpoints.clone(),
        tls_secret: some(&spec.client_tls_secret),
        location,
        schedule,
        keep: usize::try_from(policy.max_backups).unwrap_or_default(),
        stall: SignedDuration::from_secs(seconds),
    })
}

/// Where the storage block of an EtcdBackup or EtcdRestore points, by the field of its type; `periodic` when names are
/// derived from the path.
///
/// # Errors
/// The fields that cannot be used.
pub fn location(
    (field, storage): (&str, Option<StorageType>),
    source: &StorageSource,
    periodic: bool,
) -> Result<ObjectLocation, Vec<Invalid>> {
    let Some(storage) = storage else { return Err(vec![invalid(field, "must be S3, ABS, GCS or OSS")]) };
    let mut faults = Vec::new();
    let given = [
        (StorageType::S3, "s3", source.s3.is_some()),
        (StorageType::Abs, "abs", source.abs.is_some()),
        (StorageType::Gcs, "gcs", source.gcs.is_some()),
        (StorageType::Oss, "oss", source.oss.is_some()),
    ];
    for (kind, block, present) in given {
        if present && kind != storage {
            faults.push(invalid(
                format!("spec.{block}"),
                format!("must not be given with storage type {}", storage.as_str()),
            ));
        }
        if !present && kind == storage {
            faults.push(invalid(
                format!("spec.{block}"),
                format!("must be given with storage type {}", storage.as_str()),
            ));
        }
    }
    let block = given.iter().find(|(kind, ..)| *kind == storage).map_or("", |(_, block, _)| *block);
    let (kind, endpoint, force_path_style, secret) = match storage {
        StorageType::S3 => {
            let s3 = source.s3.clone().unwrap_or_default();
            (StorageKind::S3, endpoint(StorageKind::S3, &s3.endpoint), s3.force_path_style, some(&s3.aws_secret))
        }
        StorageType::Abs => (StorageKind::Abs, None, false, source.abs.as_ref().and_then(|abs| some(&abs.abs_secret))),
        StorageType::Gcs => (StorageKind::Gcs, None, false, source.gcs.as_ref().and_then(|gcs| some(&gcs.gcp_secret))),
        StorageType::Oss => {
            let oss = source.oss.clone().unwrap_or_default();
            (StorageKind::Oss, endpoint(StorageKind::Oss, &oss.endpoint), false, some(&oss.oss_secret))
        }
    };
    if matches!(kind, StorageKind::Abs | StorageKind::Oss) && secret.is_none() && source.path(storage).is_some() {
        let field = if kind == StorageKind::Abs { "spec.abs.absSecret" } else { "spec.oss.ossSecret" };
        faults.push(invalid(field, "must name the Secret with the credentials: this store has no ambient ones"));
    }
    if let Some(url) = &endpoint
        && !url.starts_with("http://")
        && !url.starts_with("https://")
    {
        faults.push(invalid(format!("spec.{block}.endpoint"), "must be an http:// or https:// URL"));
    }
    let split = source.path(storage).map(|path| split_path(path, periodic));
    match split {
        Some(Ok((bucket, key))) if faults.is_empty() => Ok(ObjectLocation {
            bucket: BucketLocation { storage: kind, bucket, endpoint, force_path_style, secret },
            key,
        }),
        Some(Err(message)) => {
            faults.push(invalid(format!("spec.{block}.path"), message));
            Err(faults)
        }
        _ => Err(faults),
    }
}

/// `<bucket>/<key>`.
fn split_path(path: &str, periodic: bool) -> Result<(String, String), String> {
    let Some((bucket, key)) = path.split_once('/').filter(|(bucket, key)| !bucket.is_empty() && !key.is_empty()) else {
        return Err("must be `<bucket>/<key>`, neither of them empty".to_owned());
    };
    // The name with the longest revision stands for all that will be made of it.
    let example = match periodic {
        true => periodic_key(key, Revision(i64::MAX), jiff::Timestamp::UNIX_EPOCH),
        false => key.to_owned(),
    };
    // `parse` drops slashes at either end without a word; a key with them would be another object.
    let usable = Path::parse(&example).is_ok_and(|parsed| parsed.as_ref() == example);
    if !usable {
        return Err(
            "must be `<bucket>/<key>` with a key that has no empty, `.` or `..` segment, no slash at its ends \
                    and no control characters"
                .to_owned(),
        );
    }
    if manifest_key(&example).len() > KEY_BYTES_MAX {
        return Err(format!("must be short enough for keys of at most {KEY_BYTES_MAX} bytes, suffixes included"));
    }
    Ok((bucket.to_owned(), key.to_owned()))
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backup(spec: &str) -> EtcdBackup {
        let text = format!(
            "{{apiVersion: etcd.database.coreos.com/v1beta2, kind: EtcdBackup, \
             metadata: {{name: b, namespace: ns, uid: u}}, spec: {spec}}}"
        );
        serde_saphyr::from_str(&text).expect("a manifest")
    }

    fn faults(spec: &str) -> String {
        sentence(&validate(&backup(spec)).expect_err("it must be refused"))
    }

    #[test]
    fn the_manifest_of_the_contract_is_understood() {
        let desired = validate(&backup(
            "{etcdEndpoints: ['http://etcd-cluster-client:2379'], storageType: OSS, \
             backupPolicy: {backupIntervalInSecond: 125, maxBackups: 4}, oss: {path: bucket/dir/key, ossSecret: name}}",
        ))
        .unwrap();
        assert_eq!(desired.location.to_string(), "bucket/dir/key");
        assert_eq!(desired.location.bucket.endpoint.as_deref(), Some("http://oss-cn-hangzhou.aliyuncs.com"));
        assert_eq!(desired.schedule, Schedule::Every(SignedDuration::from_secs(125)));
        assert_eq!((desired.keep, desired.stall), (4, SignedDuration::from_secs(60)));
    }

    #[test]
    fn a_timeout_of_zero_or_less_is_the_default_and_any_other_is_taken() {
        for (seconds, stall) in [(-1, 60), (0, 60), (1, 1), (7200, 7200)] {
            let spec = format!(
                "{{etcdEndpoints: [a], storageType: S3, s3: {{path: b/k}}, backupPolicy: {{timeoutInSecond: {seconds}}}}}"
            );
            assert_eq!(validate(&backup(&spec)).unwrap().stall, SignedDuration::from_secs(stall), "{seconds}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_named_with_what_is_allowed() {
        assert_eq!(
            faults("{etcdEndpoints: [], storageType: S3, s3: {path: bucket}}"),
            "`spec.etcdEndpoints` must name at least one endpoint, such as http://my-etcd-client:2379; \
             `spec.s3.path` must be `<bucket>/<key>`, neither of them empty"
        );
        assert_eq!(
            faults("{etcdEndpoints: [a], storageType: S3, oss: {path: b/k, ossSecret: s}}"),
            "`spec.s3` must be given with storage type S3; `spec.oss` must not be given with storage type S3"
        );
        assert!(faults("{etcdEndpoints: ['ftp://a'], storageType: S3, s3: {path: b/k}}").contains("etcdEndpoints[0]"));
        assert!(faults("{etcdEndpoints: [a], storageType: ABS, abs: {path: b/k}}").contains("absSecret"));
        for path in ["b/", "/k", "b/../k", "b/a//k", "b/k/"] {
            let spec = format!("{{etcdEndpoints: [a], storageType: S3, s3: {{path: '{path}'}}}}");
            assert!(faults(&spec).starts_with("`spec.s3.path` must be `<bucket>/<key>`"), "{path}");
        }
        let policy = "{etcdEndpoints: [a], storageType: S3, s3: {path: b/k}, \
                       backupPolicy: {backupIntervalInSecond: -1, maxBackups: -1}}";
        assert!(
            faults(policy).contains("backupIntervalInSecond` must be 0") && faults(policy).contains("maxBackups` must")
        );
    }

    /// The archived operator's definitions had no schema, and its chart made some of these.
    #[test]
    fn what_nobody_checked_when_it_was_stored_is_named_too() {
        let s3_bucket = "{etcdEndpoints: [a], storageType: S3, s3: {s3Bucket: bucket, awsSecret: aws}}";
        assert_eq!(faults(s3_bucket), "`spec.s3.path` must be `<bucket>/<key>`, neither of them empty");
        for spec in
            ["{etcdEndpoints: [a]}", "{etcdEndpoints: [a], storageType: FTP}", "{etcdEndpoints: [a], storageType: 7}"]
        {
            assert_eq!(faults(spec), "`spec.storageType` must be S3, ABS, GCS or OSS", "{spec}");
        }
    }

    #[test]
    fn a_periodic_path_may_end_with_a_slash() {
        let spec =
            "{etcdEndpoints: [a], storageType: S3, s3: {path: b/dir/}, backupPolicy: {backupIntervalInSecond: 60}}";
        assert_eq!(validate(&backup(spec)).unwrap().location.key, "dir/");
    }

    #[test]
    fn endpoints_without_a_scheme_get_the_one_of_the_old_clients() {
        let s3 = "{etcdEndpoints: [a], storageType: S3, s3: {path: b/k, endpoint: 'minio:9000', forcePathStyle: true}}";
        let bucket = validate(&backup(s3)).unwrap().location.bucket;
        assert_eq!((bucket.endpoint.as_deref(), bucket.force_path_style), (Some("https://minio:9000"), true));
    }
}
