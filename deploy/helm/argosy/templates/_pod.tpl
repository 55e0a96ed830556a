{{- /* What every pod of ours has. Context: root, name (also the image's), args, env (YAML), resources, account, served, identity (the secret with it), permits (whether agents dial it), own (values with further env,
volumes and volumeMounts), pods (what of the value `pods` is another for this one). */ -}}
{{- define "argosy.pod" -}}
{{- $pods := mergeOverwrite (deepCopy .root.Values.pods) (.pods | default dict) }}
{{- $labels := dict "app.kubernetes.io/name" (printf "argosy-%s" .name) "app.kubernetes.io/instance" .root.Release.Name }}
metadata:
  labels:
    app.kubernetes.io/name: argosy-{{ .name }}
    app.kubernetes.io/instance: {{ .root.Release.Name }}
    app.kubernetes.io/part-of: argosy
  annotations: {{ toJson (merge (deepCopy $pods.annotations) (dict "prometheus.io/scrape" "true" "prometheus.io/port" "9090")) }}
spec:
  {{- if .account }}
  serviceAccountName: {{ .account }}
  {{- else }}
  automountServiceAccountToken: false
  {{- end }}
  enableServiceLinks: false
  {{- with $pods.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $pods.nodeSelector }}
  nodeSelector: {{ toJson . }}
  {{- end }}
  {{- with $pods.tolerations }}
  tolerations: {{ toJson . }}
  {{- end }}
  {{- with $pods.affinity }}
  affinity: {{ toJson . }}
  {{- end }}
  {{- with $pods.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- range . }}
    - {{ toJson (merge (deepCopy .) (dict "labelSelector" (dict "matchLabels" $labels))) }}
    {{- end }}
  {{- end }}
  terminationGracePeriodSeconds: 30
  {{- with .restartPolicy }}
  restartPolicy: {{ . }}
  {{- end }}
  {{- with .root.Values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: {{ .image }}
      {{- $place := printf "%s/%s" .root.Values.image.registry .image }}
      {{- $tag := .root.Values.image.tag | default .root.Chart.AppVersion }}
      {{- $digest := index .root.Values.image.digests .image }}
      image: {{ ternary (printf "%s@%s" $place $digest) (printf "%s:%s" $place $tag) (not (empty $digest)) }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      {{- with .args }}
      args: {{ toJson . }}
      {{- end }}
      env:
        {{- .env | nindent 8 }}
        {{- with (.own | default dict).env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- with .root.Values.tracesEndpoint }}
        - {name: OTEL_EXPORTER_OTLP_ENDPOINT, value: {{ . | quote }}}
        {{- end }}
      {{- if .served }}
      ports:
        - {name: grpc, containerPort: 50051}
        {{- if ne .healthPort 50051 }}
        - {name: health, containerPort: {{ .healthPort }}}
        {{- end }}
        - {name: metrics, containerPort: 9090}
      # Alive is what answers: one that waits for its cluster or leader is not ready, and no restart would help; one whose
      # event loop hangs answers nothing, and is restarted after a minute.
      startupProbe: {grpc: {port: {{ .healthPort }}, service: liveness}, periodSeconds: 2, failureThreshold: 60, timeoutSeconds: 2}
      readinessProbe: {grpc: {port: {{ .healthPort }}}, periodSeconds: 5, timeoutSeconds: 5}
      livenessProbe: {grpc: {port: {{ .healthPort }}, service: liveness}, periodSeconds: 10, failureThreshold: 6, timeoutSeconds: 10}
      {{- end }}
      resources: {{ toJson .resources }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        {{- with .identity }}
        - {name: identity, mountPath: /etc/argosy/identity, readOnly: true}
        {{- end }}
        {{- if .permits }}
        - {name: permits, mountPath: /etc/argosy/permits, readOnly: true}
        {{- end }}
        {{- with (.own | default dict).volumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - {name: tmp, emptyDir: {sizeLimit: 64Mi}}
    {{- with .identity }}
    - {name: identity, {{ include "argosy.secretVolume" (dict "root" $.root "name" .) }}}
    {{- end }}
    {{- if .permits }}
    - {name: permits, {{ include "argosy.secretVolume" (dict "root" $.root "name" "argosy-permits") }}}
    {{- end }}
    {{- with (.own | default dict).volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{- /* The source of a volume with a secret of ours; what cert-manager signs stands in a secret beside it, so that neither touches the other's
keys. Context: root, name. */ -}}
{{- define "argosy.secretVolume" -}}
{{- if .root.Values.security.certManager.enabled -}}
{{- $signed := list "ca.crt" "tls.crt" "tls.key" }}
{{- $own := list "token" }}
{{- if eq .name "argosy-permits" }}{{ $own = list "tokens.yaml" }}{{ end }}
{{- if eq .name "argosy-server" }}
{{- $own = list "token" "tokens.yaml" }}
{{- if and .root.Values.security.create .root.Values.security.encryption }}{{ $own = append $own "encryption-keys" }}{{ end }}
{{- end }}
{{- $sources := list }}
{{- range $name, $keys := dict .name $own (printf "%s-tls" .name) $signed }}
{{- $items := list }}
{{- range $keys }}{{ $items = append $items (dict "key" . "path" .) }}{{ end }}
{{- $sources = append $sources (dict "secret" (dict "name" $name "items" $items)) }}
{{- end -}}
projected: {{ toJson (dict "sources" $sources) }}
{{- else -}}
secret: {secretName: {{ .name }}}
{{- end -}}
{{- end }}

{{- define "argosy.servers" -}}
{{- if .Values.cluster.servers -}}
{{ join "," .Values.cluster.servers }}
{{- else if .Values.server.enabled -}}
argosy-leader.{{ .Release.Namespace }}.svc:50051,argosy-api.{{ .Release.Namespace }}.svc:50051
{{- else -}}
{{ fail "cluster.servers is empty: name the servers as host:port, or enable the server in this release" }}
{{- end -}}
{{- end }}
