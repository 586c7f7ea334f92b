{{/* Labels of each object. The pod templates have k8s-app alone, so that an upgrade of the chart restarts no pod by itself. */}}
{{- define "slicewire.labels" -}}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "slicewire.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Where the agent reads its configuration. */}}
{{- define "slicewire.mountPath" -}}
{{- if .Values.existingConfigMap.name }}{{ .Values.existingConfigMap.mountPath }}{{ else }}/var/lib/slicewire{{ end -}}
{{- end }}

{{- define "slicewire.configMap" -}}
{{ .Values.existingConfigMap.name | default "slicewire" }}
{{- end }}

{{/* The KubeProxyConfiguration. */}}
{{- define "slicewire.config" -}}
{{- $own := dict "apiVersion" "kubeproxy.config.k8s.io/v1alpha1" "kind" "KubeProxyConfiguration" -}}
{{- $_ := set $own "mode" .Values.mode -}}
{{- $_ := set $own "clusterCIDR" .Values.clusterCIDR -}}
{{- $_ := set $own "clientConnection" (dict "kubeconfig" "/var/lib/slicewire/kubeconfig.conf") -}}
{{- mustMergeOverwrite (deepCopy .Values.config) $own | toYaml -}}
{{- end }}

{{/* The fields that the init container applies. A change of another field reaches the running agents without a restart. */}}
{{- define "slicewire.settings" -}}
{{- $config := .Values.config -}}
{{- $ipvs := get $config "ipvs" | default dict -}}
{{- $iptables := get $config "iptables" | default dict -}}
{{- list .Values.mode (get $ipvs "strictARP") (get $iptables "localhostNodePorts") (get $config "conntrack") | toJson | sha256sum -}}
{{- end }}

{{/* "true" or nothing. */}}
{{- define "slicewire.netRaw" -}}
{{- if or .Values.addNetRaw .Values.existingConfigMap.name (ne .Values.mode "iptables") }}true{{ end -}}
{{- end }}

{{/* What the schema cannot say: values that depend on each other. */}}
{{- define "slicewire.check" -}}
{{- if .Values.existingConfigMap.name -}}
{{- $idle := list -}}
{{- if .Values.apiServer }}{{ $idle = append $idle "apiServer" }}{{ end -}}
{{- if ne .Values.mode "iptables" }}{{ $idle = append $idle "mode" }}{{ end -}}
{{- if .Values.clusterCIDR }}{{ $idle = append $idle "clusterCIDR" }}{{ end -}}
{{- if .Values.config }}{{ $idle = append $idle "config" }}{{ end -}}
{{- if $idle -}}
{{- fail (printf "existingConfigMap.name is %q, so these values would have no effect: %s. Set the fields in that ConfigMap, or leave existingConfigMap.name empty" .Values.existingConfigMap.name (join ", " $idle)) -}}
{{- end -}}
{{- else -}}
{{- $_ := required "apiServer is empty. Set it to https://HOST:PORT of the control plane: no Service works before the agent does, so the agent cannot use the API server's Service" .Values.apiServer -}}
{{- end -}}
{{- end }}

{{/* An object of files/ (a copy of deploy/monitoring), in the namespace of the release, with the labels of the values. */}}
{{- define "slicewire.monitoring" -}}
{{- $root := .root -}}
{{- $text := $root.Files.Get .file | replace "https://docs.example/slicewire" $root.Values.monitoring.runbooks -}}
{{- $object := fromYaml $text -}}
{{- $labels := include "slicewire.labels" $root | fromYaml -}}
{{- $_ := set $object.metadata "namespace" $root.Release.Namespace -}}
{{- $_ := set $object.metadata "labels" (mustMergeOverwrite $object.metadata.labels $labels $root.Values.monitoring.labels) -}}
{{- toYaml $object -}}
{{- end }}
