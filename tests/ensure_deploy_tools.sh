#!/bin/sh
# What the tests of deploy/ check its files with, into .cache/: a Prometheus with promtool (Debian's package,
# unpacked and not installed), an Alertmanager (Go, built once), the libraries of docker compose and docker build
# (Go), kustomize where there is no kubectl (Go), Helm (Go), and the types of a Grafana dashboard (npm). systemd-analyze comes with
# the system. Nothing to do where they are there.
set -eu
cd "$(dirname "$0")/.."
cache="$PWD/.cache"
mkdir -p "$cache"
exec 9> "$cache/deploy_tools.lock"
flock 9

missing=""
for tool in apt-get dpkg go npm systemd-analyze; do command -v "$tool" > /dev/null || missing="$missing $tool"; done
if [ -n "$missing" ]; then
    echo "The tests of deploy/ need:$missing. On Debian: apt-get install systemd golang nodejs npm" >&2
    exit 1
fi

if [ ! -x "$cache/prometheus/usr/bin/prometheus" ]; then
    echo "Fetching Prometheus ..."
    rm -rf "$cache/prometheus" && mkdir "$cache/prometheus"
    cd "$cache/prometheus"
    if ! apt-get download -q prometheus > fetch.log 2>&1; then
        sudo=""
        if [ "$(id -u)" -ne 0 ]; then sudo="sudo -n"; fi
        $sudo apt-get update -qq
        apt-get download -q prometheus > fetch.log 2>&1 || { cat fetch.log >&2; exit 1; }
    fi
    dpkg -x prometheus_*.deb .
    rm prometheus_*.deb
    cd - > /dev/null
fi

alertmanager=v0.28.1
if [ ! -x "$cache/alertmanager-$alertmanager" ]; then
    echo "Building Alertmanager (1.5 CPU minutes) ..."
    GOBIN="$cache/alertmanager.new" nice go install -trimpath -ldflags='-s -w' \
        github.com/prometheus/alertmanager/cmd/alertmanager@$alertmanager
    mv "$cache/alertmanager.new/alertmanager" "$cache/alertmanager-$alertmanager"
    rmdir "$cache/alertmanager.new"
fi

kustomize=v5.7.1
if ! command -v kubectl > /dev/null && [ ! -x "$cache/kustomize-$kustomize" ]; then
    echo "Building kustomize (half a CPU minute) ..."
    GOBIN="$cache/kustomize.new" nice go install -trimpath -ldflags='-s -w' sigs.k8s.io/kustomize/kustomize/v5@$kustomize
    mv "$cache/kustomize.new/kustomize" "$cache/kustomize-$kustomize"
    rmdir "$cache/kustomize.new"
fi

helm=v3.18.6
if [ ! -x "$cache/helm-$helm" ]; then
    echo "Building Helm (4 CPU minutes) ..."
    GOBIN="$cache/helm.new" nice go install -trimpath -ldflags='-s -w' helm.sh/helm/v3/cmd/helm@$helm
    mv "$cache/helm.new/helm" "$cache/helm-$helm"
    rmdir "$cache/helm.new"
fi

# fresh STAMP FILES...: whether the stamp is of these files; else it is written by `stamped`.
sum() { cat "$@" | sha256sum; }
fresh() { stamp=$1; shift; [ -e "$stamp" ] && [ "$(cat "$stamp")" = "$(sum "$@")" ]; }

from=tests/deploy_check
if ! fresh "$cache/deploy_check.stamp" $from/go.sum $from/go.mod $from/main.go; then
    echo "Building the check of compose.yaml and Containerfile ..."
    (cd $from && go build -mod=readonly -trimpath -o "$cache/deploy_check" .)
    sum $from/go.sum $from/go.mod $from/main.go > "$cache/deploy_check.stamp"
fi

from=tests/dashboard_check
if ! fresh "$cache/dashboard_check.stamp" $from/package-lock.json; then
    echo "Installing the types of a Grafana dashboard ..."
    rm -rf "$cache/dashboard_check" && mkdir "$cache/dashboard_check"
    cp $from/package.json $from/package-lock.json $from/.npmrc "$cache/dashboard_check"
    (cd "$cache/dashboard_check" && npm ci --ignore-scripts --no-audit --no-fund --silent)
    sum $from/package-lock.json > "$cache/dashboard_check.stamp"
fi
