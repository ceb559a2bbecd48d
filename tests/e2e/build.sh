#!/usr/bin/env bash
# build.sh [kubestack|flux|argocd|gitea|s3|kueue|jobset ...]
# Builds the real programs that the end-to-end tests drive, from their Go modules, and prints one folder a part: where its programs are.
# Kept outside the checkout under a key of what they are made from, so each is built once. All together, cold: 20 to 40 minutes on two
# cores, 2.5 GiB of memory, 1.4 GB of downloads, 10 GB of Go's caches. Needs Go and a module proxy; Gitea needs gcc as well.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpu-reconciler/e2e
command -v go >/dev/null || { echo "Go is needed to build the programs for the end-to-end tests" >&2; exit 1; }

# Argo CD asks for a newer Go than the others; the go command fetches it as a module.
usual=$(go env GOTOOLCHAIN)
toolchain() { if [ "$1" = argocd ]; then echo go1.27.3; else echo "$usual"; fi; }
version() { sed -n "s|^\(require \)\?\t*$1 v\([^ ]*\).*|\2|p" go.mod | head -1; }
module() { go list -m -f '{{.Dir}}' "$1"; }

compile() { # PROGRAM PACKAGE [flags of go build]: one program, with a line of progress every hundred packages
    local program=$1 package=$2 line count=0
    shift 2
    { nice -n 15 go build -v -trimpath "$@" -o "$folder/$program.part" "$package" 2>&1 || echo "failed: go build of $program"; } |
        while IFS= read -r line; do
            case $line in
                *" "* | *:*) echo "$line" ;;
                *) count=$((count + 1)); [ $((count % 200)) -ne 0 ] || echo "  $part: $count packages after $SECONDS s" ;;
            esac
        done >&2
    [ -f "$folder/$program.part" ] || { echo "$program was not built; see above" >&2; exit 1; }
    mv "$folder/$program.part" "$folder/$program"
}

build_kubestack() {
    local number stamp=k8s.io/component-base/version flags
    number=$(version k8s.io/kubernetes)
    # Unstamped, the server names a version that clients cannot parse.
    flags="-s -w -X $stamp.gitVersion=v$number -X $stamp.gitMajor=${number%%.*} -X $stamp.gitMinor=$(cut -d. -f2 <<<"$number")"
    compile kubestack . -ldflags "$flags -X $stamp.gitCommit=e2e -X $stamp.buildDate=1970-01-01T00:00:00Z"
    ln -sf kubestack "$folder/kubectl"
}
build_flux() {
    local controller
    for controller in source-controller kustomize-controller; do
        compile $controller github.com/fluxcd/$controller -ldflags "-s -w"
        mkdir -p "$folder/crds"
        install -m644 "$(module github.com/fluxcd/$controller)"/config/crd/bases/*.yaml "$folder/crds/"
    done
}
build_argocd() {
    compile argocd github.com/argoproj/argo-cd/v3/cmd -ldflags "-s -w"
    mkdir -p "$folder/crds"
    install -m644 "$(module github.com/argoproj/argo-cd/v3)"/manifests/crds/*-crd.yaml "$folder/crds/"
    install -m755 "$(module github.com/argoproj/argo-cd/v3)"/hack/git-verify-wrapper.sh "$folder/"
}
build_gitea() {
    CGO_ENABLED=1 compile gitea code.gitea.io/gitea -tags "sqlite sqlite_unlock_notify" -ldflags "-s -w -X main.Version=$(version code.gitea.io/gitea)"
    # What it serves besides: read in place elsewhere, but a module folder may be cleaned away.
    mkdir -p "$folder/static"
    cp -r --no-preserve=mode "$(module code.gitea.io/gitea)"/{templates,options,public} "$folder/static/"
}
build_s3() { compile versitygw github.com/versity/versitygw/cmd/versitygw -ldflags "-s -w"; }
build_kueue() {
    compile kueue sigs.k8s.io/kueue/cmd/kueue -ldflags "-s -w"
    mkdir -p "$folder/config"
    cp -r --no-preserve=mode "$(module sigs.k8s.io/kueue)"/config/components/{crd,webhook} "$folder/config/"
}
build_jobset() {
    compile jobset sigs.k8s.io/jobset -ldflags "-s -w"
    mkdir -p "$folder/config"
    cp -r --no-preserve=mode "$(module sigs.k8s.io/jobset)"/config/components/{crd,webhook} "$folder/config/"
}

for part in "${@:-kubestack flux argocd gitea s3 kueue jobset}"; do for part in $part; do
    cd "$here/parts/$part"
    export GOTOOLCHAIN
    GOTOOLCHAIN=$(toolchain "$part")
    export GOFLAGS="-mod=mod -buildvcs=false" CGO_ENABLED=0
    # Of this part's own lines here: another part's do not change it.
    how=$(declare -f toolchain version module compile "build_$part")
    key=$(cat ./* <(echo "$how" "$GOTOOLCHAIN" "$GOFLAGS"; GOTOOLCHAIN=local go env GOVERSION GOARCH) | sha256sum | cut -c1-16)
    folder=$cache/$part-$key
    if [ ! -e "$folder/.built" ]; then
        mkdir -p "$folder"
        exec 9>"$folder/lock"
        flock 9 # two runs build it once
        if [ ! -e "$folder/.built" ]; then
            echo "building $part (once; minutes)" >&2
            started=$SECONDS
            "build_$part"
            touch "$folder/.built"
            echo "built $part in $((SECONDS - started)) s" >&2
        fi
        exec 9>&-
    fi
    echo "$folder"
done; done
