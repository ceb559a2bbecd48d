#!/usr/bin/env bash
# Builds kubestack (etcd, kube-apiserver, controller-manager, scheduler, kwok and kubectl in one program) from its Go modules and
# prints the folder that holds it. Kept outside the checkout under a key of what it is made from, so it is built once.
# Cold: 8 to 20 minutes, 2.5 GiB of memory, 3 GB of Go's build cache. Needs Go and a module proxy.
set -euo pipefail
cd "$(dirname "$0")/kubestack"
command -v go >/dev/null || { echo "Go is needed to build the control plane for the end-to-end tests" >&2; exit 1; }
version=$(sed -n 's|^\tk8s.io/kubernetes v||p' go.mod)
key=$(cat go.mod go.sum ./*.go ../build.sh <(go env GOVERSION GOARCH) | sha256sum | cut -c1-16)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/gpu-reconciler/e2e/$key
if [ ! -x "$folder/kubestack" ]; then
    mkdir -p "$folder"
    exec 9>"$folder/lock"
    flock 9  # two runs build it once
fi
if [ ! -x "$folder/kubestack" ]; then
    export GOFLAGS="-mod=readonly -buildvcs=false" CGO_ENABLED=0
    total=$(go list -deps . | wc -l)
    stamp=k8s.io/component-base/version
    # Unstamped, the server names a version that clients cannot parse.
    flags="-s -w -X $stamp.gitVersion=v$version -X $stamp.gitMajor=${version%%.*} -X $stamp.gitMinor=$(cut -d. -f2 <<<"$version")"
    flags+=" -X $stamp.gitCommit=e2e -X $stamp.buildDate=1970-01-01T00:00:00Z"
    echo "building Kubernetes $version: $total packages, 8 to 20 minutes the first time" >&2
    { nice -n 15 go build -v -trimpath -ldflags "$flags" -o "$folder/kubestack.part" . 2>&1 || echo "failed: go build"; } |
        while IFS= read -r line; do
            case $line in
                *" "* | *:*) echo "$line" ;;
                *) count=$((${count:-0} + 1)); [ $((count % 100)) -ne 0 ] || echo "  $count packages of at most $total after $SECONDS s" ;;
            esac
        done >&2
    [ -f "$folder/kubestack.part" ] || { echo "kubestack was not built; see above" >&2; exit 1; }
    mv "$folder/kubestack.part" "$folder/kubestack"
    ln -sf kubestack "$folder/kubectl"
    echo "built in $SECONDS s" >&2
fi
echo "$folder"
