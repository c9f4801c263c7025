#!/usr/bin/env bash
# prepare.sh [SUITE-FLAVOUR...]: what smoke.sh needs, in build/linux: per kernel a directory with bzImage, vmlinux and initramfs.cpio.
# Default: bookworm-cloud-amd64 (6.1) and trixie-cloud-amd64 (6.12). Kernels come from images/build.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$here/../../build/linux
[[ $# -gt 0 ]] || set -- bookworm-cloud-amd64 trixie-cloud-amd64
for name in "$@"; do
  kernel=$("$here/../../images/build" kernel --suite "${name%%-*}" --flavour "${name#*-}")
  mkdir -p "$out/$name"
  ln -sfn "$kernel/bzImage" "$kernel/vmlinux" "$out/$name/"
  initramfs=$out/$name/initramfs.cpio
  for part in "$here/init.sh" "$here/mark.c" "$here/initramfs.sh" "$here/prepare.sh" "$kernel/manifest.json"; do
    if [[ ! -s $initramfs || $part -nt $initramfs ]]; then
      bash "$here/initramfs.sh" "$kernel" "$initramfs" pvpanic-mmio virtio_pci virtio_rng
      break
    fi
  done
done
