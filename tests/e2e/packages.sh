#!/usr/bin/env bash
# Installs what the end-to-end tests need of Debian besides git, make, Python and Go, where it is missing: OpenSSL (keys of the
# control planes), GnuPG and Redis (Argo CD), a C compiler (Gitea's SQLite), rclone and tc (links of the
# data tests), an image registry. Nothing is started: tests start their own.
set -euo pipefail
declare -A packages=([openssl]=openssl [gpg]=gnupg [redis-server]=redis-server [gcc]=gcc [rclone]=rclone [tc]=iproute2)
packages+=([docker-registry]=docker-registry)
missing=()
for program in "${!packages[@]}"; do
    command -v "$program" >/dev/null || missing+=("${packages[$program]}")
done
[ ${#missing[@]} -gt 0 ] || exit 0
echo "installing ${missing[*]}" >&2
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
# Without leave to start it, the packages' own services stay down.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
    "${as_root[@]}" chmod 755 "$policy"
    trap '"${as_root[@]}" rm -f "$policy"' EXIT
fi
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" libc6-dev >/dev/null
