#!/usr/bin/env bash
# kernel.sh CACHE: puts Debian's current amd64 kernel into CACHE, once:
#   CACHE/version        e.g. 6.1.0-57-amd64
#   CACHE/vmlinux        the uncompressed kernel (booting that under TCG saves the seconds that decompression takes)
#   CACHE/lib/modules/   its modules, with depmod's index
#   CACHE/base.cpio      initial file system: busybox, our /init, the modules that it needs
# The -cloud- flavour will not do: it has no 9p.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$1
say() { echo "nested: $*" >&2; }

# What /init loads before it has the host's file system, in the order of modprobe's answer.
modules=(virtio_pci virtio_console 9pnet_virtio 9p overlay kvm-amd)

fetch_kernel() {
  local new=$cache.new package
  rm -rf "$new"
  mkdir -p "$new"
  package=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*-amd64\)$/\1/p' | head -n 1)
  [[ -n $package ]] || { say "apt-cache knows no linux-image-amd64; run apt-get update"; return 1; }
  say "downloading $package"
  (cd "$new" && apt-get download -qq "$package" 2> download.log) || { cat "$new/download.log" >&2; return 1; }
  # lib/modules or usr/lib/modules, as the package has it.
  dpkg-deb --fsys-tarfile "$new"/linux-image-*.deb | tar -x -C "$new" --wildcards './boot/vmlinuz-*' './*lib/modules/*'
  [[ -d $new/lib/modules ]] || { mkdir -p "$new/lib"; ln -s ../usr/lib/modules "$new/lib/modules"; }
  local image
  image=$(echo "$new"/boot/vmlinuz-*)
  echo "${image##*/vmlinuz-}" > "$new/version"
  /sbin/depmod -b "$new" "$(< "$new/version")"
  python3 "$here/extract_vmlinux.py" "$image" "$new/vmlinux"
  rm -f "$new"/linux-image-*.deb "$new/download.log"
  rm -rf "$cache"
  mv "$new" "$cache"
}

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
    done < <(/sbin/modprobe -d "$cache" -S "$(< "$cache/version")" --show-depends "$module")
  done
  (cd "$root" && find . | LC_ALL=C sort | cpio -o -H newc --quiet) > "$cache/base.cpio.new"
  mv "$cache/base.cpio.new" "$cache/base.cpio"
}

if [[ ! -s $cache/vmlinux ]]; then
  fetch_kernel || {
    say "again, with fresh package lists"
    root=()
    [[ $(id -u) -eq 0 ]] || root=(sudo)
    "${root[@]}" apt-get update -qq
    fetch_kernel
  }
fi
if [[ ! -s $cache/base.cpio || $here/init.sh -nt $cache/base.cpio || $here/kernel.sh -nt $cache/base.cpio ]]; then make_base; fi
