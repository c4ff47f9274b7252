{{- define "flowdiff.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "flowdiff.lake" -}}
{{ .Values.lake.bucket | default "/var/lib/flowdiff/lake" }}
{{- end }}

{{/* "yes" where pages are reached through a Service. */}}
{{- define "flowdiff.serveIsOpen" -}}
{{ if or .Values.serve.tokensSecret .Values.serve.anyone }}yes{{ end }}
{{- end }}

{{/* Refuse values that no pod could work with. */}}
{{- define "flowdiff.check" -}}
{{- if not (has .Values.ingest.source (list "otlp" "kafka")) }}
{{- fail (printf "ingest.source is otlp or kafka, not '%s'" .Values.ingest.source) }}
{{- end }}
{{- if and (not .Values.lake.bucket) (gt (int .Values.ingest.replicas) 1) }}
{{- fail "ingest.replicas above 1 needs lake.bucket: pods do not share a disk" }}
{{- end }}
{{- if and .Values.lake.bucket (not (hasPrefix "s3://" .Values.lake.bucket)) }}
{{- fail (printf "lake.bucket is s3://bucket/prefix, not '%s'" .Values.lake.bucket) }}
{{- end }}
{{- if and (eq .Values.ingest.source "kafka") (not (or .Values.settings.kafka.topics .Values.settings.kafka.topic_pattern)) }}
{{- fail "ingest.source kafka needs settings.kafka.topics or settings.kafka.topic_pattern" }}
{{- end }}
{{- end }}

{{- define "flowdiff.selector" -}}
app.kubernetes.io/name: flowdiff
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "flowdiff.labels" -}}
{{ include "flowdiff.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{/* Fields that every pod has. */}}
{{- define "flowdiff.pod" -}}
serviceAccountName: {{ include "flowdiff.name" . }}
automountServiceAccountToken: false
# Variables like FLOWDIFF_PORT, which Kubernetes would set for the service, are not settings.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Fields that every container has. */}}
{{- define "flowdiff.container" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- with .Values.secret }}
envFrom:
  - secretRef:
      name: {{ . }}
{{- end }}
{{- end }}

{{/* Variables that every container has. */}}
{{- define "flowdiff.env" -}}
- name: FLOWDIFF_LAKE
  value: {{ include "flowdiff.lake" . }}
{{- if .Values.lake.bucket }}
# The only folder that can be written: where files of the lake are copied to.
- name: FLOWDIFF_CACHE
  value: /tmp/cache
- name: FLOWDIFF_CACHE_SIZE
  value: 700MB
{{- end }}
{{- range $name, $value := .Values.env }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}

{{/* Probes of an HTTP port with health. A loop that does not turn is restarted; what only a person can mend is not ready, and
     has an alert. */}}
{{- define "flowdiff.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: {{ . }}}
  periodSeconds: 5
  failureThreshold: 24
livenessProbe:
  httpGet: {path: /healthz, port: {{ . }}}
  periodSeconds: 15
  timeoutSeconds: 5
  failureThreshold: 4
readinessProbe:
  httpGet: {path: /readyz, port: {{ . }}}
  periodSeconds: 10
  timeoutSeconds: 5
{{- end }}

{{- define "flowdiff.lakeMount" -}}
{{- if not .Values.lake.bucket }}
- name: lake
  mountPath: /var/lib/flowdiff
{{- end }}
{{- end }}

{{- define "flowdiff.watchContainer" -}}
- name: watch
  {{- include "flowdiff.container" . | nindent 2 }}
  args: [watch]
  env:
    - name: FLOWDIFF_CONFIG
      value: /etc/flowdiff/flowdiff.toml
    {{- include "flowdiff.env" . | nindent 4 }}
  ports:
    - name: watch-metrics
      containerPort: 9465
  {{- include "flowdiff.probes" "watch-metrics" | nindent 2 }}
  resources: {{- toYaml .Values.watch.resources | nindent 4 }}
  volumeMounts:
    - name: config
      mountPath: /etc/flowdiff
      readOnly: true
    - name: watch-tmp
      mountPath: /tmp
    {{- include "flowdiff.lakeMount" . | nindent 4 }}
{{- end }}

{{- define "flowdiff.serveContainer" -}}
- name: serve
  {{- include "flowdiff.container" . | nindent 2 }}
  args:
    - serve
    - --listen
    {{- if include "flowdiff.serveIsOpen" . }}
    - 0.0.0.0:4320
    {{- range concat (list "localhost" (printf "%s-serve" (include "flowdiff.name" .)) (printf "%s-serve.%s" (include "flowdiff.name" .) .Release.Namespace)) .Values.serve.hosts }}
    - --host
    - {{ . }}
    {{- end }}
    {{- if .Values.serve.tokensSecret }}
    - --tokens
    - /run/tokens/tokens
    {{- else }}
    - --anyone
    {{- end }}
    {{- else }}
    - 127.0.0.1:4320
    {{- end }}
  env: {{- include "flowdiff.env" . | nindent 4 }}
  ports:
    - name: pages
      containerPort: 4320
  # By a program in the container: on loopback nobody else reaches it.
  {{- range $probe, $failures := dict "startupProbe" 24 "livenessProbe" 4 }}
  {{ $probe }}:
    exec:
      command: [python, -c, "import urllib.request; urllib.request.urlopen('http://localhost:4320/healthz', timeout=4)"]
    periodSeconds: {{ eq $probe "startupProbe" | ternary 5 15 }}
    timeoutSeconds: 5
    failureThreshold: {{ $failures }}
  {{- end }}
  resources: {{- toYaml .Values.serve.resources | nindent 4 }}
  volumeMounts:
    - name: serve-tmp
      mountPath: /tmp
    {{- if .Values.serve.tokensSecret }}
    - name: serve-tokens
      mountPath: /run/tokens
      readOnly: true
    {{- end }}
    {{- include "flowdiff.lakeMount" . | nindent 4 }}
{{- end }}

{{/* Files of a Secret belong to root and are read by the group; the pages want tokens that their owner alone reads. */}}
{{- define "flowdiff.serveInit" -}}
{{- if .Values.serve.tokensSecret }}
initContainers:
  - name: tokens
    {{- include "flowdiff.container" . | nindent 4 }}
    command: [sh, -c, "umask 077 && cat /run/secret/tokens > /run/tokens/tokens"]
    resources:
      requests: {cpu: 10m, memory: 16Mi}
      limits: {memory: 64Mi}
    volumeMounts:
      - name: serve-secret
        mountPath: /run/secret
        readOnly: true
      - name: serve-tokens
        mountPath: /run/tokens
{{- end }}
{{- end }}

{{- define "flowdiff.serveVolumes" -}}
- name: serve-tmp
  emptyDir:
    sizeLimit: 10Gi
{{- if .Values.serve.tokensSecret }}
- name: serve-secret
  secret:
    secretName: {{ .Values.serve.tokensSecret }}
- name: serve-tokens
  emptyDir:
    medium: Memory
    sizeLimit: 1Mi
{{- end }}
{{- end }}

{{- define "flowdiff.config" -}}
- name: config
  configMap:
    name: {{ include "flowdiff.name" . }}
{{- end }}
