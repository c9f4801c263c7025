#!/usr/bin/env bash
# kernels.sh DIR SUITE-FLAVOUR...: Debian's current kernels, unpacked (not installed), each once:
#   DIR/bookworm-cloud/vmlinuz       the bzImage
#   DIR/bookworm-cloud/vmlinux       the uncompressed ELF kernel inside it
#   DIR/bookworm-cloud/version       e.g. 6.1.0-57-cloud-amd64
#   DIR/bookworm-cloud/lib/modules/  its modules, with depmod's index
# SUITE: bookworm (6.1), trixie (6.12), whatever release this host runs. FLAVOUR: amd64 or cloud.
# Package lists of the suites are kept in DIR/apt, apart from the host's own.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[[ $# -ge 2 ]] || { sed -n '2,8s/^# //p' "${BASH_SOURCE[0]}" >&2; exit 2; }
dir=$1
shift
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
say() { echo "kernels: $*" >&2; }

mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
security=${DEBIAN_SECURITY_MIRROR:-http://deb.debian.org/debian-security}
keys=/usr/share/keyrings/debian-archive-keyring.gpg

# apt with the lists of one suite alone.
with_apt() {
  local suite=$1 command=$2 state=$dir/apt/$1
  shift 2
  "$command" -o Dir::Etc::sourcelist="$state/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$state/lists" \
    -o Dir::Cache="$state/cache" -o APT::Architecture=amd64 -o APT::Sandbox::User=root "$@"
}

fetch() {
  local suite=$1 flavour=$2 new=$dir/.new meta package image state=$dir/apt/$1
  meta=linux-image-amd64
  [[ $flavour == cloud ]] && meta=linux-image-cloud-amd64
  mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
  printf 'deb [signed-by=%s] %s %s main\n' "$keys" "$mirror" "$suite" "$keys" "$security" "$suite-security" > "$state/sources.list"
  say "$suite: package lists"
  with_apt "$suite" apt-get update -qq
  package=$(with_apt "$suite" apt-cache depends "$meta" | sed -n 's/^ *Depends: \(linux-image-[0-9].*-amd64\)$/\1/p' | head -n 1)
  [[ -n $package ]] || { say "$suite has no $meta"; return 1; }
  say "downloading $package"
  rm -rf "$new"
  mkdir -p "$new"
  (cd "$new" && with_apt "$suite" apt-get download -qq "$package")
  dpkg-deb --fsys-tarfile "$new"/linux-image-*.deb | tar -x -C "$new" --wildcards './boot/*' './*lib/modules/*'
  [[ -d $new/lib/modules ]] || { mkdir -p "$new/lib"; ln -s ../usr/lib/modules "$new/lib/modules"; }
  image=$(echo "$new"/boot/vmlinuz-*)
  echo "${image##*/vmlinuz-}" > "$new/version"
  /sbin/depmod -b "$new" "$(< "$new/version")"
  cp "$new"/boot/config-* "$new/config"
  python3 "$here/../../tools/nested/extract_vmlinux.py" "$image" "$new/vmlinux"
  mv "$image" "$new/vmlinuz"
  rm -rf "$new"/linux-image-*.deb "$new/boot"
  rm -rf "${dir:?}/$suite-$flavour"
  mv "$new" "$dir/$suite-$flavour"
}

for name in "$@"; do
  [[ $name =~ ^[a-z]+-(amd64|cloud)$ ]] || { say "'$name': want SUITE-amd64 or SUITE-cloud"; exit 2; }
  [[ -s $dir/$name/vmlinux ]] || fetch "${name%-*}" "${name##*-}"
done
