#!/usr/bin/env bash
# Serves a GPU Domain on a socket in a temporary directory and runs a program with Sluice as its Vulkan driver.
#   with_domain.sh BUILD_DIRECTORY PROGRAM [ARGS]
# DOMAIN_ARGS in the environment: more arguments for sluice-domain, e.g. "--memory_mib=512 --gpus=llvmpipe".
set -euo pipefail
build=$1
shift
dir=$(mktemp -d "${TMPDIR:-/tmp}/sluice-domain.XXXXXX")
domain=''
cleanup() {
  if [[ -n $domain ]]; then
    kill "$domain" 2>/dev/null || true
    wait "$domain" 2>/dev/null || true
  fi
  rm -rf "$dir"
}
trap cleanup EXIT
# shellcheck disable=SC2086 # DOMAIN_ARGS is a list
"$build/bin/sluice-domain" --listen="$dir/gpu.sock" --log_level="${DOMAIN_LOG_LEVEL:-2}" ${DOMAIN_ARGS:-} &
domain=$!
for _ in $(seq 1000); do
  [[ -S $dir/gpu.sock ]] && break
  kill -0 "$domain" 2>/dev/null || { echo "with_domain: the domain ended" >&2; exit 1; }
  sleep 0.01
done
rc=0
SLUICE_SOCKET="$dir/gpu.sock" VK_DRIVER_FILES="$build/share/vulkan/icd.d/sluice_icd.x86_64.json" "$@" || rc=$?
exit "$rc"
