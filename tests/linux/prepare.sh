#!/usr/bin/env bash
# prepare.sh [KERNEL...]: what smoke.sh needs, in build/linux. KERNEL: bookworm-cloud, trixie-amd64, ...; default: the cloud kernels of
# both releases.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$here/../../build/linux
[[ $# -gt 0 ]] || set -- bookworm-cloud trixie-cloud
bash "$here/kernels.sh" "$out" "$@"
for kernel in "$@"; do
  [[ $out/$kernel/initramfs.cpio -nt $here/init.sh ]] || bash "$here/initramfs.sh" "$out/$kernel" "$out/$kernel/initramfs.cpio" pvpanic-mmio
done
