{{/* The name of the objects that agent and shadow have alike: one release of each fits into a cluster. */}}
{{- define "slicewire.name" -}}
{{ ternary "slicewire-shadow" "slicewire" .Values.shadow.enabled }}
{{- end }}

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
{{ .Values.existingConfigMap.name | default (include "slicewire.name" .) }}
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
{{- $isLegacy := regexMatch "(^| )--iptables-backend[= ]legacy( |$)" (join " " .Values.extraArgs) -}}
{{- if or .Values.addNetRaw .Values.existingConfigMap.name (ne .Values.mode "iptables") $isLegacy }}true{{ end -}}
{{- end }}

{{/*
An address to listen at, as the program reads it: "192.0.2.7", "192.0.2.7:10256", "fd00::7", "[fd00::7]:10256". The port, or that of
"standard".
*/}}
{{- define "slicewire.portOf" -}}
{{- if regexMatch "^([^:]*|\\[.*\\]):[0-9]+$" .text -}}
{{- regexFind "[1-9][0-9]*$" (regexFind "[0-9]+$" .text) -}}
{{- else -}}
{{ .standard }}
{{- end -}}
{{- end }}

{{/* Its address without brackets, for a probe; nothing where every address of the node will do. */}}
{{- define "slicewire.hostOf" -}}
{{- $host := .text -}}
{{- if regexMatch "^([^:]*|\\[.*\\]):[0-9]+$" $host }}{{ $host = regexReplaceAll ":[0-9]+$" $host "" }}{{ end -}}
{{- $host = trimSuffix "]" (trimPrefix "[" $host) -}}
{{- if not (has $host (list "" "0.0.0.0" "::")) }}{{ $host }}{{ end -}}
{{- end }}

{{/* Where the agent's health port listens, as its configuration says. */}}
{{- define "slicewire.healthz" -}}
{{- if .Values.existingConfigMap.name -}}
0.0.0.0:{{ .Values.existingConfigMap.healthzPort | int }}
{{- else -}}
{{- get .Values.config "healthzBindAddress" | default "0.0.0.0:10256" -}}
{{- end -}}
{{- end }}

{{- define "slicewire.healthzPort" -}}
{{- include "slicewire.portOf" (dict "text" (include "slicewire.healthz" .) "standard" 10256) -}}
{{- end }}

{{- define "slicewire.healthzHost" -}}
{{- include "slicewire.hostOf" (dict "text" (include "slicewire.healthz" .)) -}}
{{- end }}

{{- define "slicewire.controllerPort" -}}
{{- include "slicewire.portOf" (dict "text" .Values.controller.bindAddress "standard" 10261) -}}
{{- end }}

{{- define "slicewire.controllerHost" -}}
{{- include "slicewire.hostOf" (dict "text" .Values.controller.bindAddress) -}}
{{- end }}

{{/* Refuses flags that the chart sets from other values: ports, probes and rights follow those. "owned": flags, and the value of each. */}}
{{- define "slicewire.checkArgs" -}}
{{- range $arg := .args -}}
{{- $flag := regexReplaceAll "^--?([a-z-]+).*$" $arg "${1}" -}}
{{- with get $.owned $flag -}}
{{- fail (printf "%s has --%s, which the chart sets: %s" $.name $flag .) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Refuses an address to listen at that the program could not read. */}}
{{- define "slicewire.checkAddress" -}}
{{- $port := include "slicewire.portOf" (dict "text" .text "standard" 1) | int -}}
{{- if or (not (regexMatch "^([0-9.]+(:[0-9]{1,5})?|\\[[0-9A-Fa-f:.]+\\](:[0-9]{1,5})?|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)$" .text)) (lt $port 1) (gt $port 65535) -}}
{{- fail (printf "%s is %q: it must be an IP address, or one with a port from 1 to 65535, such as %s" .name .text .example) -}}
{{- end -}}
{{- end }}

{{/* Checks that the schema cannot make: values that depend on each other. */}}
{{- define "slicewire.check" -}}
{{- include "slicewire.checkAddress" (dict "name" "config.healthzBindAddress" "text" (include "slicewire.healthz" .) "example" "0.0.0.0:10256") -}}
{{- include "slicewire.checkAddress" (dict "name" "controller.bindAddress" "text" .Values.controller.bindAddress "example" "127.0.0.1:10261") -}}
{{- if and .Values.monitoring.enabled (eq (include "slicewire.healthzPort" .) "10249") -}}
{{- fail "the health port of the agents is 10249, which monitoring.enabled opens for /metrics: set another one in config.healthzBindAddress" -}}
{{- end -}}
{{- $host := include "slicewire.healthzHost" . -}}
{{- if and .Values.fleet.enabled (or (hasPrefix "127." $host) (eq $host "::1")) -}}
{{- fail (printf "config.healthzBindAddress is %q, where fleet.enabled needs an address that its pods can reach: leave it at 0.0.0.0" (include "slicewire.healthz" .)) -}}
{{- end -}}
{{- $agent := dict "config" "from its ConfigMap" "hostname-override" "to the name of the Node" "scrape-bind-address" "with monitoring.enabled" "fleet-service" "with fleet.enabled" -}}
{{- if .Values.apiServer }}{{ $_ := set $agent "master" "from apiServer" }}{{ end -}}
{{- include "slicewire.checkArgs" (dict "name" "extraArgs" "args" .Values.extraArgs "owned" $agent) -}}
{{- $controller := dict "kubeconfig" "from apiServer or existingConfigMap" "bind-address" "from controller.bindAddress" "scrape-bind-address" "with monitoring.enabled" "leader-elect-resource-namespace" "to the namespace of the release, where the controller has its rights" "leader-elect-resource-name" "to the name that the controller has its rights for" -}}
{{- include "slicewire.checkArgs" (dict "name" "controller.extraArgs" "args" .Values.controller.extraArgs "owned" $controller) -}}
{{- $fleet := dict "bind-address" "with the port of its Services" "agents-service" "to the Service slicewire-agents" "token-file" "to the token that it mounts" -}}
{{- include "slicewire.checkArgs" (dict "name" "fleet.extraArgs" "args" .Values.fleet.extraArgs "owned" $fleet) -}}
{{- $shadow := dict "config" "from its ConfigMap" "hostname-override" "to the name of the Node" "metrics-bind-address" "to the address that its probes ask" -}}
{{- include "slicewire.checkArgs" (dict "name" "shadow.extraArgs" "args" .Values.shadow.extraArgs "owned" $shadow) -}}
{{- if .Values.shadow.enabled -}}
{{- if .Values.fleet.enabled }}{{ fail "fleet.enabled has no use with shadow.enabled, which installs no agent: the fleet follows agents" }}{{ end -}}
{{- if .Values.controller.enabled }}{{ fail "controller.enabled does not go with shadow.enabled: the controller belongs to the release of the agent" }}{{ end -}}
{{- if .Values.monitoring.dashboard.enabled }}{{ fail "monitoring.dashboard.enabled does not go with shadow.enabled: the dashboard belongs to the release of the agent" }}{{ end -}}
{{- if .Values.monitoring.enabled }}{{ fail "monitoring.enabled has no use with shadow.enabled, which installs no agent: it has the metrics and alerts of agents. shadow.extraArgs with --scrape-bind-address opens those of the shadow" }}{{ end -}}
{{- end -}}
{{- if and (not .Values.existingConfigMap.name) (ne (.Values.existingConfigMap.healthzPort | int) 10256) -}}
{{- fail "existingConfigMap.healthzPort has no effect without existingConfigMap.name: set config.healthzBindAddress" -}}
{{- end -}}
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
