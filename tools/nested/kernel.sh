#!/usr/bin/env bash
# kernel.sh CACHE: has a kernel made (images/build kernel), prints its directory, and makes what goes with it, once:
#   CACHE/base.cpio      initial file system: busybox, our /init, the modules that it needs
# The -cloud- flavour will not do: it has no 9p.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
images=$here/../../images
cache=$1

# What /init loads before it has the host's file system, in the order of modprobe's answer.
modules=(virtio_pci virtio_console 9pnet_virtio 9p overlay kvm-amd)

# An initial file system is small (a few MB) and made in a second, so it is made again whenever its parts are newer.
make_base() {
  local root=$cache/initramfs path name
  rm -rf "$root"
  mkdir -p "$root"/{bin,dev,proc,sys,lower,rw,root,modules}
  cp "$(command -v busybox)" "$root/bin/busybox"
  install -m 755 "$here/init.sh" "$root/init"
  for module in "${modules[@]}"; do
    while read -r verb path _; do
      [[ $verb == insmod ]] || continue  # the others are built into the kernel
      name=$(basename "$path")
      [[ -e $root/modules/$name ]] && continue
      cp "$path" "$root/modules/$name"
      echo "$name" >> "$root/modules/order"
    done < <(/sbin/modprobe -d "$kernel" -S "$(< "$kernel/version")" --show-depends "$module")
  done
  python3 "$images/lib/cpio.py" "$root" > "$cache/base.cpio.new"
  mv "$cache/base.cpio.new" "$cache/base.cpio"
}

kernel=$("$images/build" kernel)
mkdir -p "$cache"
for part in "$here/init.sh" "$here/kernel.sh" "$kernel/manifest.json"; do
  if [[ ! -s $cache/base.cpio || $part -nt $cache/base.cpio ]]; then
    make_base
    break
  fi
done
echo "$kernel"
