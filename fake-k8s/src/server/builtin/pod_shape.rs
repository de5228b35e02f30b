//! The types of a pod as Kubernetes' own code has them: what its messages show of a pod that may not be changed.
use super::shape::{Part, SELECTOR, Shape};
use Shape::{Flag, List, Number, Open, Pointer, Struct, Text};

#[rustfmt::skip]
const HOST_PATH_VOLUME_SOURCE: &[Part] = &[
    Part("Path", "path", Text), Part("Type", "type", Open),
];
#[rustfmt::skip]
const EMPTY_DIR_VOLUME_SOURCE: &[Part] = &[
    Part("Medium", "medium", Text), Part("SizeLimit", "sizeLimit", Open),
];
#[rustfmt::skip]
const GCE_PERSISTENT_DISK_VOLUME_SOURCE: &[Part] = &[
    Part("PDName", "pdName", Text), Part("FSType", "fsType", Text), Part("Partition", "partition", Number),
    Part("ReadOnly", "readOnly", Flag),
];
#[rustfmt::skip]
const AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE: &[Part] = &[
    Part("VolumeID", "volumeID", Text), Part("FSType", "fsType", Text), Part("Partition", "partition", Number),
    Part("ReadOnly", "readOnly", Flag),
];
#[rustfmt::skip]
const GIT_REPO_VOLUME_SOURCE: &[Part] = &[
    Part("Repository", "repository", Text), Part("Revision", "revision", Text), Part("Directory", "directory", Text),
];
#[rustfmt::skip]
const KEY_TO_PATH: &[Part] = &[
    Part("Key", "key", Text), Part("Path", "path", Text), Part("Mode", "mode", Open),
];
#[rustfmt::skip]
const SECRET_VOLUME_SOURCE: &[Part] = &[
    Part("SecretName", "secretName", Text), Part("Items", "items", List(KEY_TO_PATH)),
    Part("DefaultMode", "defaultMode", Open), Part("Optional", "optional", Open),
];
#[rustfmt::skip]
const NFS_VOLUME_SOURCE: &[Part] = &[
    Part("Server", "server", Text), Part("Path", "path", Text), Part("ReadOnly", "readOnly", Flag),
];
#[rustfmt::skip]
const LOCAL_OBJECT_REFERENCE: &[Part] = &[
    Part("Name", "name", Text),
];
#[rustfmt::skip]
const ISCSI_VOLUME_SOURCE: &[Part] = &[
    Part("TargetPortal", "targetPortal", Text), Part("IQN", "iqn", Text), Part("Lun", "lun", Number),
    Part("ISCSIInterface", "iscsiInterface", Text), Part("FSType", "fsType", Text),
    Part("ReadOnly", "readOnly", Flag), Part("Portals", "portals", Open),
    Part("DiscoveryCHAPAuth", "chapAuthDiscovery", Flag), Part("SessionCHAPAuth", "chapAuthSession", Flag),
    Part("SecretRef", "secretRef", Pointer(LOCAL_OBJECT_REFERENCE)), Part("InitiatorName", "initiatorName", Open),
];
#[rustfmt::skip]
const GLUSTERFS_VOLUME_SOURCE: &[Part] = &[
    Part("EndpointsName", "endpoints", Text), Part("Path", "path", Text), Part("ReadOnly", "readOnly", Flag),
];
#[rustfmt::skip]
const PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE: &[Part] = &[
    Part("ClaimName", "claimName", Text), Part("ReadOnly", "readOnly", Flag),
];
#[rustfmt::skip]
const RBD_VOLUME_SOURCE: &[Part] = &[
    Part("CephMonitors", "monitors", Open), Part("RBDImage", "image", Text), Part("FSType", "fsType", Text),
    Part("RBDPool", "pool", Text), Part("RadosUser", "user", Text), Part("Keyring", "keyring", Text),
    Part("SecretRef", "secretRef", Pointer(LOCAL_OBJECT_REFERENCE)), Part("ReadOnly", "readOnly", Flag),
];
#[rustfmt::skip]
const QUOBYTE_VOLUME_SOURCE: &[Part] = &[
    Part("Registry", "registry", Text), Part("Volume", "volume", Text), Part("ReadOnly", "readOnly", Flag),
    Part("User", "user", Text), Part("Group", "group", Text), Part("Tenant", "tenant", Text),
];
#[rustfmt::skip]
const FLEX_VOLUME_SOURCE: &[Part] = &[
    Part("Driver", "driver", Text), Part("FSType", "fsType", Text),
    Part("SecretRef", "secretRef", Pointer(LOCAL_OBJECT_REFERENCE)), Part("ReadOnly", "readOnly", Flag),
    Part("Options", "options", Open),
];
#[rustfmt::skip]
const CINDER_VOLUME_SOURCE: &[Part] = &[
    Part("VolumeID", "volumeID", Text), Part("FSType", "fsType", Text), Part("ReadOnly", "readOnly", Flag),
    Part("SecretRef", "secretRef", Pointer(LOCAL_OBJECT_REFERENCE)),
];
#[rustfmt::skip]
const CEPH_FS_VOLUME_SOURCE: &[Part] = &[
    Part("Monitors", "monitors", Open), Part("Path", "path", Text), Part("User", "user", Text),
    Part("SecretFile", "secretFile", Text), Part("SecretRef", "secretRef", Pointer(LOCAL_OBJECT_REFERENCE)),
    Part("ReadOnly", "readOnly", Flag),
];
#[rustfmt::skip]
const FLOCKER_VOLUME_SOURCE: &[Part] = &[
    Part("DatasetName", "datasetName", Text), Part("DatasetUUID", "datasetUUID", Text),
];
#[rustfmt::skip]
const OBJECT_FIELD_SELECTOR: &[Part] = &[
    Part("APIVersion", "apiVersion", Text), Part("FieldPath", "fieldPath", Text),
];
#[rustfmt::skip]
const RESOURCE_FIELD_SELECTOR: &[Part] = &[
    Part("ContainerName", "containerName", Text), Part("Resource", "resource", Text),
    Part("Divisor", "divisor", Text),
];
#[rustfmt::skip]
const DOWNWARD_API_VOLUME_FILE: &[Part] = &[
    Part("Path", "path", Text), Part("FieldRef", "fieldRef", Pointer(OBJECT_FIELD_SELECTOR)),
    Part("ResourceFieldRef", "resourceFieldRef", Pointer(RESOURCE_FIELD_SELECTOR)), Part("Mode", "mode", Open),
];
#[rustfmt::skip]
const DOWNWARD_API_VOLUME_SOURCE: &[Part] = &[
    Part("Items", "items", List(DOWNWARD_API_VOLUME_FILE)), Part("DefaultMode", "defaultMode", Open),
];
#[rustfmt::skip]
const FC_VOLUME_SOURCE: &[Part] = &[
    Part("TargetWWNs", "targetWWNs", Open), Part("Lun", "lun", Open), Part("FSType", "fsType", Text),
    Part("ReadOnly", "readOnly", Flag), Part("WWIDs", "wwids", Open),
];
#[rustfmt::skip]
const AZURE_FILE_VOLUME_SOURCE: &[Part] = &[
    Part("SecretName", "secretName", Text), Part("ShareName", "shareName", Text), Part("ReadOnly", "readOnly", Flag),
];
#[rustfmt::skip]
const CONFIG_MAP_VOLUME_SOURCE: &[Part] = &[
    Part("Name", "name", Text), Part("Items", "items", List(KEY_TO_PATH)), Part("DefaultMode", "defaultMode", Open),
    Part("Optional", "optional", Open),
];
#[rustfmt::skip]
const VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE: &[Part] = &[
    Part("VolumePath", "volumePath", Text), Part("FSType", "fsType", Text),
    Part("StoragePolicyName", "storagePolicyName", Text), Part("StoragePolicyID", "storagePolicyID", Text),
];
#[rustfmt::skip]
const AZURE_DISK_VOLUME_SOURCE: &[Part] = &[
    Part("DiskName", "diskName", Text), Part("DataDiskURI", "diskURI", Text),
    Part("CachingMode", "cachingMode", Open), Part("FSType", "fsType", Open), Part("ReadOnly", "readOnly", Open),
    Part("Kind", "kind", Open),
];
#[rustfmt::skip]
const PHOTON_PERSISTENT_DISK_VOLUME_SOURCE: &[Part] = &[
    Part("PdID", "pdID", Text), Part("FSType", "fsType", Text),
];
#[rustfmt::skip]
const SECRET_PROJECTION: &[Part] = &[
    Part("Name", "name", Text), Part("Items", "items", List(KEY_TO_PATH)), Part("Optional", "optional", Open),
];
#[rustfmt::skip]
const DOWNWARD_API_PROJECTION: &[Part] = &[
    Part("Items", "items", List(DOWNWARD_API_VOLUME_FILE)),
];
#[rustfmt::skip]
const CONFIG_MAP_PROJECTION: &[Part] = &[
    Part("Name", "name", Text), Part("Items", "items", List(KEY_TO_PATH)), Part("Optional", "optional", Open),
];
#[rustfmt::skip]
const SERVICE_ACCOUNT_TOKEN_PROJECTION: &[Part] = &[
    Part("Audience", "audience", Text), Part("ExpirationSeconds", "expirationSeconds", Number),
    Part("Path", "path", Text),
];
#[rustfmt::skip]
const CLUSTER_TRUST_BUNDLE_PROJECTION: &[Part] = &[
    Part("Name", "name", Open), Part("SignerName", "signerName", Open),
    Part("LabelSelector", "labelSelector", Pointer(SELECTOR)), Part("Optional", "optional", Open),
    Part("Path", "path", Text),
];
#[rustfmt::skip]
const POD_CERTIFICATE_PROJECTION: &[Part] = &[
    Part("SignerName", "signerName", Text), Part("KeyType", "keyType", Text),
    Part("MaxExpirationSeconds", "maxExpirationSeconds", Open),
    Part("CredentialBundlePath", "credentialBundlePath", Text), Part("KeyPath", "keyPath", Text),
    Part("CertificateChainPath", "certificateChainPath", Text),
];
#[rustfmt::skip]
const VOLUME_PROJECTION: &[Part] = &[
    Part("Secret", "secret", Pointer(SECRET_PROJECTION)),
    Part("DownwardAPI", "downwardAPI", Pointer(DOWNWARD_API_PROJECTION)),
    Part("ConfigMap", "configMap", Pointer(CONFIG_MAP_PROJECTION)),
    Part("ServiceAccountToken", "serviceAccountToken", Pointer(SERVICE_ACCOUNT_TOKEN_PROJECTION)),
    Part("ClusterTrustBundle", "clusterTrustBundle", Pointer(CLUSTER_TRUST_BUNDLE_PROJECTION)),
    Part("PodCertificate", "podCertificate", Pointer(POD_CERTIFICATE_PROJECTION)),
];
#[rustfmt::skip]
const PROJECTED_VOLUME_SOURCE: &[Part] = &[
    Part("Sources", "sources", List(VOLUME_PROJECTION)), Part("DefaultMode", "defaultMode", Open),
];
#[rustfmt::skip]
const PORTWORX_VOLUME_SOURCE: &[Part] = &[
    Part("VolumeID", "volumeID", Text), Part("FSType", "fsType", Text), Part("ReadOnly", "readOnly", Flag),
];
#[rustfmt::skip]
const SCALE_IO_VOLUME_SOURCE: &[Part] = &[
    Part("Gateway", "gateway", Text), Part("System", "system", Text),
    Part("SecretRef", "secretRef", Pointer(LOCAL_OBJECT_REFERENCE)), Part("SSLEnabled", "sslEnabled", Flag),
    Part("ProtectionDomain", "protectionDomain", Text), Part("StoragePool", "storagePool", Text),
    Part("StorageMode", "storageMode", Text), Part("VolumeName", "volumeName", Text), Part("FSType", "fsType", Text),
    Part("ReadOnly", "readOnly", Flag),
];
#[rustfmt::skip]
const STORAGE_OS_VOLUME_SOURCE: &[Part] = &[
    Part("VolumeName", "volumeName", Text), Part("VolumeNamespace", "volumeNamespace", Text),
    Part("FSType", "fsType", Text), Part("ReadOnly", "readOnly", Flag),
    Part("SecretRef", "secretRef", Pointer(LOCAL_OBJECT_REFERENCE)),
];
#[rustfmt::skip]
const CSI_VOLUME_SOURCE: &[Part] = &[
    Part("Driver", "driver", Text), Part("ReadOnly", "readOnly", Open), Part("FSType", "fsType", Open),
    Part("VolumeAttributes", "volumeAttributes", Open),
    Part("NodePublishSecretRef", "nodePublishSecretRef", Pointer(LOCAL_OBJECT_REFERENCE)),
];
#[rustfmt::skip]
const EPHEMERAL_VOLUME_SOURCE: &[Part] = &[
    Part("VolumeClaimTemplate", "volumeClaimTemplate", Open),
];
#[rustfmt::skip]
const IMAGE_VOLUME_SOURCE: &[Part] = &[
    Part("Reference", "reference", Text), Part("PullPolicy", "pullPolicy", Text),
];
#[rustfmt::skip]
const VOLUME: &[Part] = &[
    Part("Name", "name", Text), Part("HostPath", "hostPath", Pointer(HOST_PATH_VOLUME_SOURCE)),
    Part("EmptyDir", "emptyDir", Pointer(EMPTY_DIR_VOLUME_SOURCE)),
    Part("GCEPersistentDisk", "gcePersistentDisk", Pointer(GCE_PERSISTENT_DISK_VOLUME_SOURCE)),
    Part("AWSElasticBlockStore", "awsElasticBlockStore", Pointer(AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE)),
    Part("GitRepo", "gitRepo", Pointer(GIT_REPO_VOLUME_SOURCE)),
    Part("Secret", "secret", Pointer(SECRET_VOLUME_SOURCE)), Part("NFS", "nfs", Pointer(NFS_VOLUME_SOURCE)),
    Part("ISCSI", "iscsi", Pointer(ISCSI_VOLUME_SOURCE)),
    Part("Glusterfs", "glusterfs", Pointer(GLUSTERFS_VOLUME_SOURCE)),
    Part("PersistentVolumeClaim", "persistentVolumeClaim", Pointer(PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE)),
    Part("RBD", "rbd", Pointer(RBD_VOLUME_SOURCE)), Part("Quobyte", "quobyte", Pointer(QUOBYTE_VOLUME_SOURCE)),
    Part("FlexVolume", "flexVolume", Pointer(FLEX_VOLUME_SOURCE)),
    Part("Cinder", "cinder", Pointer(CINDER_VOLUME_SOURCE)), Part("CephFS", "cephfs", Pointer(CEPH_FS_VOLUME_SOURCE)),
    Part("Flocker", "flocker", Pointer(FLOCKER_VOLUME_SOURCE)),
    Part("DownwardAPI", "downwardAPI", Pointer(DOWNWARD_API_VOLUME_SOURCE)),
    Part("FC", "fc", Pointer(FC_VOLUME_SOURCE)), Part("AzureFile", "azureFile", Pointer(AZURE_FILE_VOLUME_SOURCE)),
    Part("ConfigMap", "configMap", Pointer(CONFIG_MAP_VOLUME_SOURCE)),
    Part("VsphereVolume", "vsphereVolume", Pointer(VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE)),
    Part("AzureDisk", "azureDisk", Pointer(AZURE_DISK_VOLUME_SOURCE)),
    Part("PhotonPersistentDisk", "photonPersistentDisk", Pointer(PHOTON_PERSISTENT_DISK_VOLUME_SOURCE)),
    Part("Projected", "projected", Pointer(PROJECTED_VOLUME_SOURCE)),
    Part("PortworxVolume", "portworxVolume", Pointer(PORTWORX_VOLUME_SOURCE)),
    Part("ScaleIO", "scaleIO", Pointer(SCALE_IO_VOLUME_SOURCE)),
    Part("StorageOS", "storageos", Pointer(STORAGE_OS_VOLUME_SOURCE)), Part("CSI", "csi", Pointer(CSI_VOLUME_SOURCE)),
    Part("Ephemeral", "ephemeral", Pointer(EPHEMERAL_VOLUME_SOURCE)),
    Part("Image", "image", Pointer(IMAGE_VOLUME_SOURCE)),
];
#[rustfmt::skip]
const CONTAINER_PORT: &[Part] = &[
    Part("Name", "name", Text), Part("HostPort", "hostPort", Number), Part("ContainerPort", "containerPort", Number),
    Part("Protocol", "protocol", Text), Part("HostIP", "hostIP", Text),
];
#[rustfmt::skip]
const CONFIG_MAP_ENV_SOURCE: &[Part] = &[
    Part("Name", "name", Text), Part("Optional", "optional", Open),
];
#[rustfmt::skip]
const SECRET_ENV_SOURCE: &[Part] = &[
    Part("Name", "name", Text), Part("Optional", "optional", Open),
];
#[rustfmt::skip]
const ENV_FROM_SOURCE: &[Part] = &[
    Part("Prefix", "prefix", Text), Part("ConfigMapRef", "configMapRef", Pointer(CONFIG_MAP_ENV_SOURCE)),
    Part("SecretRef", "secretRef", Pointer(SECRET_ENV_SOURCE)),
];
#[rustfmt::skip]
const CONFIG_MAP_KEY_SELECTOR: &[Part] = &[
    Part("Name", "name", Text), Part("Key", "key", Text), Part("Optional", "optional", Open),
];
#[rustfmt::skip]
const SECRET_KEY_SELECTOR: &[Part] = &[
    Part("Name", "name", Text), Part("Key", "key", Text), Part("Optional", "optional", Open),
];
#[rustfmt::skip]
const FILE_KEY_SELECTOR: &[Part] = &[
    Part("VolumeName", "volumeName", Text), Part("Path", "path", Text), Part("Key", "key", Text),
    Part("Optional", "optional", Open),
];
#[rustfmt::skip]
const ENV_VAR_SOURCE: &[Part] = &[
    Part("FieldRef", "fieldRef", Pointer(OBJECT_FIELD_SELECTOR)),
    Part("ResourceFieldRef", "resourceFieldRef", Pointer(RESOURCE_FIELD_SELECTOR)),
    Part("ConfigMapKeyRef", "configMapKeyRef", Pointer(CONFIG_MAP_KEY_SELECTOR)),
    Part("SecretKeyRef", "secretKeyRef", Pointer(SECRET_KEY_SELECTOR)),
    Part("FileKeyRef", "fileKeyRef", Pointer(FILE_KEY_SELECTOR)),
];
#[rustfmt::skip]
const ENV_VAR: &[Part] = &[
    Part("Name", "name", Text), Part("Value", "value", Text), Part("ValueFrom", "valueFrom", Pointer(ENV_VAR_SOURCE)),
];
#[rustfmt::skip]
const RESOURCE_CLAIM: &[Part] = &[
    Part("Name", "name", Text), Part("Request", "request", Text),
];
#[rustfmt::skip]
const RESOURCE_REQUIREMENTS: &[Part] = &[
    Part("Limits", "limits", Open), Part("Requests", "requests", Open),
    Part("Claims", "claims", List(RESOURCE_CLAIM)),
];
#[rustfmt::skip]
const CONTAINER_RESIZE_POLICY: &[Part] = &[
    Part("ResourceName", "resourceName", Text), Part("RestartPolicy", "restartPolicy", Text),
];
#[rustfmt::skip]
const CONTAINER_RESTART_RULE_ON_EXIT_CODES: &[Part] = &[
    Part("Operator", "operator", Text), Part("Values", "values", Open),
];
#[rustfmt::skip]
const CONTAINER_RESTART_RULE: &[Part] = &[
    Part("Action", "action", Text), Part("ExitCodes", "exitCodes", Pointer(CONTAINER_RESTART_RULE_ON_EXIT_CODES)),
];
#[rustfmt::skip]
const VOLUME_MOUNT: &[Part] = &[
    Part("Name", "name", Text), Part("ReadOnly", "readOnly", Flag),
    Part("RecursiveReadOnly", "recursiveReadOnly", Open), Part("MountPath", "mountPath", Text),
    Part("SubPath", "subPath", Text), Part("MountPropagation", "mountPropagation", Open),
    Part("SubPathExpr", "subPathExpr", Text),
];
#[rustfmt::skip]
const VOLUME_DEVICE: &[Part] = &[
    Part("Name", "name", Text), Part("DevicePath", "devicePath", Text),
];
#[rustfmt::skip]
const EXEC_ACTION: &[Part] = &[
    Part("Command", "command", Open),
];
#[rustfmt::skip]
const HTTP_HEADER: &[Part] = &[
    Part("Name", "name", Text), Part("Value", "value", Text),
];
#[rustfmt::skip]
const HTTP_GET_ACTION: &[Part] = &[
    Part("Path", "path", Text), Part("Port", "port", Number), Part("Host", "host", Text),
    Part("Scheme", "scheme", Text), Part("HTTPHeaders", "httpHeaders", List(HTTP_HEADER)),
];
#[rustfmt::skip]
const TCP_SOCKET_ACTION: &[Part] = &[
    Part("Port", "port", Number), Part("Host", "host", Text),
];
#[rustfmt::skip]
const GRPC_ACTION: &[Part] = &[
    Part("Port", "port", Number), Part("Service", "service", Open),
];
#[rustfmt::skip]
const PROBE: &[Part] = &[
    Part("Exec", "exec", Pointer(EXEC_ACTION)), Part("HTTPGet", "httpGet", Pointer(HTTP_GET_ACTION)),
    Part("TCPSocket", "tcpSocket", Pointer(TCP_SOCKET_ACTION)), Part("GRPC", "grpc", Pointer(GRPC_ACTION)),
    Part("InitialDelaySeconds", "initialDelaySeconds", Number), Part("TimeoutSeconds", "timeoutSeconds", Number),
    Part("PeriodSeconds", "periodSeconds", Number), Part("SuccessThreshold", "successThreshold", Number),
    Part("FailureThreshold", "failureThreshold", Number),
    Part("TerminationGracePeriodSeconds", "terminationGracePeriodSeconds", Open),
];
#[rustfmt::skip]
const SLEEP_ACTION: &[Part] = &[
    Part("Seconds", "seconds", Number),
];
#[rustfmt::skip]
const LIFECYCLE_HANDLER: &[Part] = &[
    Part("Exec", "exec", Pointer(EXEC_ACTION)), Part("HTTPGet", "httpGet", Pointer(HTTP_GET_ACTION)),
    Part("TCPSocket", "tcpSocket", Pointer(TCP_SOCKET_ACTION)), Part("Sleep", "sleep", Pointer(SLEEP_ACTION)),
];
#[rustfmt::skip]
const LIFECYCLE: &[Part] = &[
    Part("PostStart", "postStart", Pointer(LIFECYCLE_HANDLER)),
    Part("PreStop", "preStop", Pointer(LIFECYCLE_HANDLER)), Part("StopSignal", "stopSignal", Open),
];
#[rustfmt::skip]
const CAPABILITIES: &[Part] = &[
    Part("Add", "add", Open), Part("Drop", "drop", Open),
];
#[rustfmt::skip]
const SE_LINUX_OPTIONS: &[Part] = &[
    Part("User", "user", Text), Part("Role", "role", Text), Part("Type", "type", Text), Part("Level", "level", Text),
];
#[rustfmt::skip]
const WINDOWS_SECURITY_CONTEXT_OPTIONS: &[Part] = &[
    Part("GMSACredentialSpecName", "gmsaCredentialSpecName", Open),
    Part("GMSACredentialSpec", "gmsaCredentialSpec", Open), Part("RunAsUserName", "runAsUserName", Open),
    Part("HostProcess", "hostProcess", Open),
];
#[rustfmt::skip]
const SECCOMP_PROFILE: &[Part] = &[
    Part("Type", "type", Text), Part("LocalhostProfile", "localhostProfile", Open),
];
#[rustfmt::skip]
const APP_ARMOR_PROFILE: &[Part] = &[
    Part("Type", "type", Text), Part("LocalhostProfile", "localhostProfile", Open),
];
#[rustfmt::skip]
const SECURITY_CONTEXT: &[Part] = &[
    Part("Capabilities", "capabilities", Pointer(CAPABILITIES)), Part("Privileged", "privileged", Open),
    Part("SELinuxOptions", "seLinuxOptions", Pointer(SE_LINUX_OPTIONS)),
    Part("WindowsOptions", "windowsOptions", Pointer(WINDOWS_SECURITY_CONTEXT_OPTIONS)),
    Part("RunAsUser", "runAsUser", Open), Part("RunAsGroup", "runAsGroup", Open),
    Part("RunAsNonRoot", "runAsNonRoot", Open), Part("ReadOnlyRootFilesystem", "readOnlyRootFilesystem", Open),
    Part("AllowPrivilegeEscalation", "allowPrivilegeEscalation", Open), Part("ProcMount", "procMount", Open),
    Part("SeccompProfile", "seccompProfile", Pointer(SECCOMP_PROFILE)),
    Part("AppArmorProfile", "appArmorProfile", Pointer(APP_ARMOR_PROFILE)),
];
#[rustfmt::skip]
const CONTAINER: &[Part] = &[
    Part("Name", "name", Text), Part("Image", "image", Text), Part("Command", "command", Open),
    Part("Args", "args", Open), Part("WorkingDir", "workingDir", Text), Part("Ports", "ports", List(CONTAINER_PORT)),
    Part("EnvFrom", "envFrom", List(ENV_FROM_SOURCE)), Part("Env", "env", List(ENV_VAR)),
    Part("Resources", "resources", Struct(RESOURCE_REQUIREMENTS)),
    Part("ResizePolicy", "resizePolicy", List(CONTAINER_RESIZE_POLICY)), Part("RestartPolicy", "restartPolicy", Open),
    Part("RestartPolicyRules", "restartPolicyRules", List(CONTAINER_RESTART_RULE)),
    Part("VolumeMounts", "volumeMounts", List(VOLUME_MOUNT)),
    Part("VolumeDevices", "volumeDevices", List(VOLUME_DEVICE)),
    Part("LivenessProbe", "livenessProbe", Pointer(PROBE)), Part("ReadinessProbe", "readinessProbe", Pointer(PROBE)),
    Part("StartupProbe", "startupProbe", Pointer(PROBE)), Part("Lifecycle", "lifecycle", Pointer(LIFECYCLE)),
    Part("TerminationMessagePath", "terminationMessagePath", Text),
    Part("TerminationMessagePolicy", "terminationMessagePolicy", Text),
    Part("ImagePullPolicy", "imagePullPolicy", Text),
    Part("SecurityContext", "securityContext", Pointer(SECURITY_CONTEXT)), Part("Stdin", "stdin", Flag),
    Part("StdinOnce", "stdinOnce", Flag), Part("TTY", "tty", Flag),
];
#[rustfmt::skip]
const EPHEMERAL_CONTAINER: &[Part] = &[
    Part("Name", "name", Text), Part("Image", "image", Text), Part("Command", "command", Open),
    Part("Args", "args", Open), Part("WorkingDir", "workingDir", Text), Part("Ports", "ports", List(CONTAINER_PORT)),
    Part("EnvFrom", "envFrom", List(ENV_FROM_SOURCE)), Part("Env", "env", List(ENV_VAR)),
    Part("Resources", "resources", Struct(RESOURCE_REQUIREMENTS)),
    Part("ResizePolicy", "resizePolicy", List(CONTAINER_RESIZE_POLICY)), Part("RestartPolicy", "restartPolicy", Open),
    Part("RestartPolicyRules", "restartPolicyRules", List(CONTAINER_RESTART_RULE)),
    Part("VolumeMounts", "volumeMounts", List(VOLUME_MOUNT)),
    Part("VolumeDevices", "volumeDevices", List(VOLUME_DEVICE)),
    Part("LivenessProbe", "livenessProbe", Pointer(PROBE)), Part("ReadinessProbe", "readinessProbe", Pointer(PROBE)),
    Part("StartupProbe", "startupProbe", Pointer(PROBE)), Part("Lifecycle", "lifecycle", Pointer(LIFECYCLE)),
    Part("TerminationMessagePath", "terminationMessagePath", Text),
    Part("TerminationMessagePolicy", "terminationMessagePolicy", Text),
    Part("ImagePullPolicy", "imagePullPolicy", Text),
    Part("SecurityContext", "securityContext", Pointer(SECURITY_CONTEXT)), Part("Stdin", "stdin", Flag),
    Part("StdinOnce", "stdinOnce", Flag), Part("TTY", "tty", Flag),
    Part("TargetContainerName", "targetContainerName", Text),
];
#[rustfmt::skip]
const SYSCTL: &[Part] = &[
    Part("Name", "name", Text), Part("Value", "value", Text),
];
#[rustfmt::skip]
const POD_SECURITY_CONTEXT: &[Part] = &[
    Part("HostNetwork", "hostNetwork", Flag), Part("HostPID", "hostPID", Flag), Part("HostIPC", "hostIPC", Flag),
    Part("ShareProcessNamespace", "shareProcessNamespace", Open), Part("HostUsers", "hostUsers", Open),
    Part("SELinuxOptions", "seLinuxOptions", Pointer(SE_LINUX_OPTIONS)),
    Part("WindowsOptions", "windowsOptions", Pointer(WINDOWS_SECURITY_CONTEXT_OPTIONS)),
    Part("RunAsUser", "runAsUser", Open), Part("RunAsGroup", "runAsGroup", Open),
    Part("RunAsNonRoot", "runAsNonRoot", Open), Part("SupplementalGroups", "supplementalGroups", Open),
    Part("SupplementalGroupsPolicy", "supplementalGroupsPolicy", Open), Part("FSGroup", "fsGroup", Open),
    Part("FSGroupChangePolicy", "fsGroupChangePolicy", Open), Part("Sysctls", "sysctls", List(SYSCTL)),
    Part("SeccompProfile", "seccompProfile", Pointer(SECCOMP_PROFILE)),
    Part("AppArmorProfile", "appArmorProfile", Pointer(APP_ARMOR_PROFILE)),
    Part("SELinuxChangePolicy", "seLinuxChangePolicy", Open),
];
#[rustfmt::skip]
const NODE_SELECTOR_REQUIREMENT: &[Part] = &[
    Part("Key", "key", Text), Part("Operator", "operator", Text), Part("Values", "values", Open),
];
#[rustfmt::skip]
const NODE_SELECTOR_TERM: &[Part] = &[
    Part("MatchExpressions", "matchExpressions", List(NODE_SELECTOR_REQUIREMENT)),
    Part("MatchFields", "matchFields", List(NODE_SELECTOR_REQUIREMENT)),
];
#[rustfmt::skip]
const NODE_SELECTOR: &[Part] = &[
    Part("NodeSelectorTerms", "nodeSelectorTerms", List(NODE_SELECTOR_TERM)),
];
#[rustfmt::skip]
const PREFERRED_SCHEDULING_TERM: &[Part] = &[
    Part("Weight", "weight", Number), Part("Preference", "preference", Struct(NODE_SELECTOR_TERM)),
];
#[rustfmt::skip]
const NODE_AFFINITY: &[Part] = &[

    Part("RequiredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingIgnoredDuringExecution", Pointer(NODE_SELECTOR)),
    Part("PreferredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution", List(PREFERRED_SCHEDULING_TERM)),
];
#[rustfmt::skip]
const POD_AFFINITY_TERM: &[Part] = &[
    Part("LabelSelector", "labelSelector", Pointer(SELECTOR)), Part("Namespaces", "namespaces", Open),
    Part("TopologyKey", "topologyKey", Text), Part("NamespaceSelector", "namespaceSelector", Pointer(SELECTOR)),
    Part("MatchLabelKeys", "matchLabelKeys", Open), Part("MismatchLabelKeys", "mismatchLabelKeys", Open),
];
#[rustfmt::skip]
const WEIGHTED_POD_AFFINITY_TERM: &[Part] = &[
    Part("Weight", "weight", Number), Part("PodAffinityTerm", "podAffinityTerm", Struct(POD_AFFINITY_TERM)),
];
#[rustfmt::skip]
const POD_AFFINITY: &[Part] = &[

    Part("RequiredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingIgnoredDuringExecution", List(POD_AFFINITY_TERM)),
    Part("PreferredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution", List(WEIGHTED_POD_AFFINITY_TERM)),
];
#[rustfmt::skip]
const POD_ANTI_AFFINITY: &[Part] = &[

    Part("RequiredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingIgnoredDuringExecution", List(POD_AFFINITY_TERM)),
    Part("PreferredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution", List(WEIGHTED_POD_AFFINITY_TERM)),
];
#[rustfmt::skip]
const AFFINITY: &[Part] = &[
    Part("NodeAffinity", "nodeAffinity", Pointer(NODE_AFFINITY)),
    Part("PodAffinity", "podAffinity", Pointer(POD_AFFINITY)),
    Part("PodAntiAffinity", "podAntiAffinity", Pointer(POD_ANTI_AFFINITY)),
];
#[rustfmt::skip]
const TOLERATION: &[Part] = &[
    Part("Key", "key", Text), Part("Operator", "operator", Text), Part("Value", "value", Text),
    Part("Effect", "effect", Text), Part("TolerationSeconds", "tolerationSeconds", Open),
];
#[rustfmt::skip]
const HOST_ALIAS: &[Part] = &[
    Part("IP", "ip", Text), Part("Hostnames", "hostnames", Open),
];
#[rustfmt::skip]
const POD_DNS_CONFIG_OPTION: &[Part] = &[
    Part("Name", "name", Text), Part("Value", "value", Open),
];
#[rustfmt::skip]
const POD_DNS_CONFIG: &[Part] = &[
    Part("Nameservers", "nameservers", Open), Part("Searches", "searches", Open),
    Part("Options", "options", List(POD_DNS_CONFIG_OPTION)),
];
#[rustfmt::skip]
const POD_READINESS_GATE: &[Part] = &[
    Part("ConditionType", "conditionType", Text),
];
#[rustfmt::skip]
const TOPOLOGY_SPREAD_CONSTRAINT: &[Part] = &[
    Part("MaxSkew", "maxSkew", Number), Part("TopologyKey", "topologyKey", Text),
    Part("WhenUnsatisfiable", "whenUnsatisfiable", Text), Part("LabelSelector", "labelSelector", Pointer(SELECTOR)),
    Part("MinDomains", "minDomains", Open), Part("NodeAffinityPolicy", "nodeAffinityPolicy", Open),
    Part("NodeTaintsPolicy", "nodeTaintsPolicy", Open), Part("MatchLabelKeys", "matchLabelKeys", Open),
];
#[rustfmt::skip]
const POD_OS: &[Part] = &[
    Part("Name", "name", Text),
];
#[rustfmt::skip]
const POD_SCHEDULING_GATE: &[Part] = &[
    Part("Name", "name", Text),
];
/// `core.PodResourceClaim`.
#[rustfmt::skip]
pub const POD_RESOURCE_CLAIM: &[Part] = &[
    Part("Name", "name", Text), Part("ResourceClaimName", "resourceClaimName", Open),
    Part("ResourceClaimTemplateName", "resourceClaimTemplateName", Open),
];
/// `core.PodSpec`.
#[rustfmt::skip]
pub const POD_SPEC: &[Part] = &[
    Part("Volumes", "volumes", List(VOLUME)), Part("InitContainers", "initContainers", List(CONTAINER)),
    Part("Containers", "containers", List(CONTAINER)),
    Part("EphemeralContainers", "ephemeralContainers", List(EPHEMERAL_CONTAINER)),
    Part("RestartPolicy", "restartPolicy", Text),
    Part("TerminationGracePeriodSeconds", "terminationGracePeriodSeconds", Open),
    Part("ActiveDeadlineSeconds", "activeDeadlineSeconds", Open), Part("DNSPolicy", "dnsPolicy", Text),
    Part("NodeSelector", "nodeSelector", Open), Part("ServiceAccountName", "serviceAccountName", Text),
    Part("AutomountServiceAccountToken", "automountServiceAccountToken", Open), Part("NodeName", "nodeName", Text),
    Part("SecurityContext", "securityContext", Pointer(POD_SECURITY_CONTEXT)),
    Part("ImagePullSecrets", "imagePullSecrets", List(LOCAL_OBJECT_REFERENCE)), Part("Hostname", "hostname", Text),
    Part("Subdomain", "subdomain", Text), Part("SetHostnameAsFQDN", "setHostnameAsFQDN", Open),
    Part("Affinity", "affinity", Pointer(AFFINITY)), Part("SchedulerName", "schedulerName", Text),
    Part("Tolerations", "tolerations", List(TOLERATION)), Part("HostAliases", "hostAliases", List(HOST_ALIAS)),
    Part("PriorityClassName", "priorityClassName", Text), Part("Priority", "priority", Open),
    Part("PreemptionPolicy", "preemptionPolicy", Open), Part("DNSConfig", "dnsConfig", Pointer(POD_DNS_CONFIG)),
    Part("ReadinessGates", "readinessGates", List(POD_READINESS_GATE)),
    Part("RuntimeClassName", "runtimeClassName", Open), Part("Overhead", "overhead", Open),
    Part("EnableServiceLinks", "enableServiceLinks", Open),
    Part("TopologySpreadConstraints", "topologySpreadConstraints", List(TOPOLOGY_SPREAD_CONSTRAINT)),
    Part("OS", "os", Pointer(POD_OS)), Part("SchedulingGates", "schedulingGates", List(POD_SCHEDULING_GATE)),
    Part("ResourceClaims", "resourceClaims", List(POD_RESOURCE_CLAIM)),
    Part("Resources", "resources", Pointer(RESOURCE_REQUIREMENTS)),
    Part("HostnameOverride", "hostnameOverride", Open),
];
