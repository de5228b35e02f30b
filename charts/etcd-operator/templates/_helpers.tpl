{{- define "etcd-operator.fullname" -}}
{{- if contains .Values.etcdOperator.name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Values.etcdOperator.name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "etcd-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "etcd-operator.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "etcd-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "etcd-operator.labels" -}}
{{ include "etcd-operator.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "etcd-operator.image" -}}
{{- printf "%s:%s" .Values.etcdOperator.image.repository (default .Chart.AppVersion .Values.etcdOperator.image.tag) -}}
{{- end -}}

{{- /* By name, or as the old chart has them: objects with a name. */ -}}
{{- define "etcd-operator.imagePullSecrets" -}}
{{- $references := list -}}
{{- range .Values.global.imagePullSecrets -}}
{{- $references = append $references (ternary (dict "name" .) . (kindIs "string" .)) -}}
{{- end -}}
{{- with $references }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{- /* The old chart has one number of each, which is request and limit. */ -}}
{{- define "etcd-operator.resources" -}}
{{- $resources := deepCopy (omit .Values.etcdOperator.resources "cpu" "memory") -}}
{{- range $name, $quantity := pick .Values.etcdOperator.resources "cpu" "memory" -}}
{{- $both := dict "requests" (dict $name $quantity) "limits" (dict $name $quantity) -}}
{{- $resources = mergeOverwrite $resources $both -}}
{{- end -}}
{{- toYaml $resources -}}
{{- end -}}

{{- /* "true" or "": templates have no booleans. The flag is the old chart's way to say it; where both are set, it wins. */ -}}
{{- define "etcd-operator.clusterWide" -}}
{{- $flag := get .Values.etcdOperator.commandArgs "cluster-wide" -}}
{{- if eq (toString (ternary $flag .Values.clusterWide (hasKey .Values.etcdOperator.commandArgs "cluster-wide"))) "true" -}}true{{- end -}}
{{- end -}}

{{- define "etcd-operator.controllers" -}}
{{- $controllers := list -}}
{{- if .Values.deployments.etcdOperator }}{{ $controllers = append $controllers "cluster" }}{{ end -}}
{{- if .Values.deployments.backupOperator }}{{ $controllers = append $controllers "backup" }}{{ end -}}
{{- if .Values.deployments.restoreOperator }}{{ $controllers = append $controllers "restore" }}{{ end -}}
{{- join "," $controllers -}}
{{- end -}}

{{- /* Flag to value: ours, then the user's. Not --create-crd: Helm has installed the definitions, and creating them would take rights
       beyond the namespace. */ -}}
{{- define "etcd-operator.flags" -}}
{{- $flags := dict "controllers" (include "etcd-operator.controllers" .) "agent-image" (include "etcd-operator.image" .) -}}
{{- if include "etcd-operator.clusterWide" . }}{{ $_ := set $flags "cluster-wide" true }}{{ end -}}
{{- mergeOverwrite $flags .Values.etcdOperator.commandArgs (dict "create-crd" false) | toYaml -}}
{{- end -}}

{{- /* What the operator does to the objects that it manages; the verbs are those of its ports, and no more. */ -}}
{{- define "etcd-operator.rules" -}}
- apiGroups: [etcd.database.coreos.com]
  resources: [etcdclusters, etcdrestores]
  verbs: [get, list, watch]
- apiGroups: [etcd.database.coreos.com]
  resources: [etcdbackups]
  # patch takes the old operator's finalizer off.
  verbs: [get, list, watch, patch]
- apiGroups: [etcd.database.coreos.com]
  resources: [etcdclusters/status, etcdbackups/status, etcdrestores/status]
  verbs: [update]
# With OwnerReferencesPermissionEnforcement, blockOwnerDeletion needs this.
- apiGroups: [etcd.database.coreos.com]
  resources: [etcdclusters/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [list, watch, create, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, update]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end -}}
