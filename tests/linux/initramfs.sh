#!/usr/bin/env bash
# initramfs.sh KERNEL OUT [MODULE...]: an initial file system for test guests: busybox, init.sh as /init, mark, and the modules of
# KERNEL (a directory of images/build kernel) with all that they need. Packages: busybox-static, cpio, kmod, xz-utils, gcc.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[[ $# -ge 2 ]] || { sed -n '2,3s/^# //p' "${BASH_SOURCE[0]}" >&2; exit 2; }
kernel=$1 out=$2
shift 2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,dev,proc,sys,tmp,modules}
cp "$(command -v busybox)" "$root/bin/busybox"
busybox --list | while read -r applet; do [[ -e $root/bin/$applet ]] || ln -s busybox "$root/bin/$applet"; done
install -m 755 "$here/init.sh" "$root/init"
gcc -O2 -static -o "$root/bin/mark" "$here/mark.c"
touch "$root/modules/order"
for module in "$@"; do
  while read -r verb path _; do
    [[ $verb == insmod ]] || continue  # the others are built into the kernel
    name=$(basename "$path" .xz)
    [[ -e $root/modules/$name ]] && continue
    if [[ $path == *.xz ]]; then xz -dc "$path" > "$root/modules/$name"; else cp "$path" "$root/modules/$name"; fi
    echo "$name" >> "$root/modules/order"
  done < <(/sbin/modprobe -d "$kernel" -S "$(< "$kernel/version")" --show-depends "$module")
done
(cd "$root" && find . | LC_ALL=C sort | cpio -o -H newc --quiet) > "$out.new"
mv "$out.new" "$out"
