#!/usr/bin/env bash
# images/check.sh [--suite S] [ARGS of images/build]: makes every image twice, each time from an empty directory (packages are
# downloaded once), compares all files byte by byte, and starts each root image. Exit: 0 if all of that held.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
suite=bookworm
for ((i = 1; i < $#; ++i)); do [[ ${!i} != --suite ]] || { j=$((i + 1)); suite=${!j}; }; done
work=$(mktemp -d "$here/../build/images-check.XXXXXX")
trap 'rm -rf "$work"' EXIT
say() { printf 'images: %s\n' "$*"; }
for pass in 1 2; do
  "$here/build" all --cache "$work/$pass" "$@" > "$work/$pass.log"
  say "pass $pass made $(wc -l < "$work/$pass.log") images"
  if [[ $pass -eq 1 ]]; then
    mkdir -p "$work/2/apt/$suite"
    cp -a "$work/1/apt/$suite/archives" "$work/2/apt/$suite/"
  fi
  sleep 1  # so that what takes the time of day into an image shows
done
rc=0
(cd "$work/1/$suite" && find . -type f | sort) > "$work/names"
(cd "$work/2/$suite" && find . -type f | sort) | cmp - "$work/names" || rc=1
while read -r name; do
  cmp "$work/1/$suite/$name" "$work/2/$suite/$name" || rc=1
done < "$work/names"
say "$(wc -l < "$work/names") files compared: $([[ $rc -eq 0 ]] && echo the same || echo DIFFERENT)"
(cd "$work/2/$suite" && sha256sum -- *-*/vmlinux *-*/initramfs.cpio ./*/root.squashfs)
begin=$SECONDS
SLUICE_IMAGES=$work/2 bash "$here/boot" front --suite "$suite" --run 'command -v vulkaninfo && command -v eglinfo && ip -4 address show eth0 | grep -q 10.0.2' || rc=1
say "front: $((SECONDS - begin)) s"
begin=$SECONDS
SLUICE_IMAGES=$work/2 bash "$here/boot" domain --suite "$suite" --run /usr/lib/sluice/selftest-domain || rc=1
say "domain: $((SECONDS - begin)) s"
exit $rc
