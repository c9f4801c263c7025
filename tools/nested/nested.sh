#!/usr/bin/env bash
# nested.sh [OPTIONS] -- CMD...: runs CMD on a machine that has /dev/kvm, made of QEMU without KVM (TCG with AMD SVM
# emulated). `./dev nested` is its front door; README.md says what is shared with the host.
#   --mem MIB       memory of the machine (default 3072)
#   --timeout S     time for all of it in seconds (default 600); then it is killed and the status is 124
#   --vulkan        read the Vulkan driver's libraries into memory first (5-20 s; without it they come page by page)
# Exit status: CMD's; 124 after a timeout; 125 if the machine itself died twice (it is started again once).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
checkout=$(cd "$here/../.." && pwd)
cache=$checkout/build/nested
memory=3072 limit=600 vulkan=0
silence=120  # seconds without a sign of life: the machine hangs
say() { printf 'nested: %s\n' "$*" >&2; }
usage() { sed -n '2,7s/^# //p' "${BASH_SOURCE[0]}" >&2; exit 2; }

number() { [[ $2 =~ ^[1-9][0-9]{0,6}$ ]] || { say "$1 '$2': must be a whole number above 0"; exit 2; }; }
while [[ $# -gt 0 && $1 != -- ]]; do
  case $1 in
    --mem) number --mem "${2:-}"; memory=$2; shift 2 ;;
    --timeout) number --timeout "${2:-}"; limit=$2; shift 2 ;;
    --vulkan) vulkan=1; shift ;;
    *) say "unknown option '$1'"; usage ;;
  esac
done
[[ ${1:-} == -- ]] && shift
[[ $# -gt 0 ]] || usage

kernel=$("$here/kernel.sh" "$cache")
mkdir -p "$checkout/out/nested"
run=$(mktemp -d "$checkout/out/nested/run.XXXXXX")
qemu='' pump=''
cleanup() {
  [[ -z $qemu ]] || kill -KILL "$qemu" 2>/dev/null || true
  if [[ -n $pump ]]; then exec 9>&-; fi
  wait 2>/dev/null || true
  rm -rf "$run"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

printf '%q ' "$@" > "$run/command"
if [[ $vulkan -eq 1 ]]; then
  # The libraries behind each installed driver; small ones are not worth it.
  cat /usr/share/vulkan/icd.d/lvp_icd*.json 2>/dev/null | sed -n 's/.*"library_path": *"\([^"]*\)".*/\1/p' | sort -u |
    while read -r driver; do
      readlink -f "$driver"
      ldd "$driver" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | xargs -r readlink -f
    done | sort -u | xargs -r -I{} find {} -size +2M > "$run/preload"
fi
mkfifo "$run/output"
mkdir "$run/overlay"
printf 'CHECKOUT=%q KERNEL=%q RUN=%q\n' "$checkout" "$kernel" "$run" > "$run/overlay/parameters"
# An initial file system may be several archives, one after the other.
(cat "$cache/base.cpio"; python3 "$checkout/images/lib/cpio.py" "$run/overlay") > "$run/initramfs"

options="console=ttyS0 quiet tsc=reliable no_timer_check mitigations=off nokaslr random.trust_cpu=on"
options+=" softlockup_panic=1 oops=panic panic=-1"

# One machine from start to end. 0: RUN/status is there; 1: it died (`why` says how); 2: out of time.
boot() {
  local begin=$SECONDS sign=$SECONDS last="" now
  rm -f "$run/status" "$run/alive"
  : > "$run/console"
  # A FIFO: what the command writes appears here as it is written. This shell keeps a writing end, so that reading it
  # neither waits for QEMU nor outlives it.
  exec 9<> "$run/output"
  cat "$run/output" 9>&- &
  pump=$!
  setpriv --pdeathsig KILL qemu-system-x86_64 -machine q35 -accel tcg,thread=multi -cpu max -smp 1 -m "$memory" -nodefaults -display none \
    -no-reboot -kernel "$kernel/vmlinux" -initrd "$run/initramfs" -append "$options" \
    -chardev "file,id=console,path=${run//,/,,}/console" -serial chardev:console \
    -chardev "file,id=output,path=${run//,/,,}/output" -device virtio-serial-pci -device virtserialport,chardev=output \
    -virtfs "local,path=/,mount_tag=hostroot,security_model=none,readonly=on,multidevs=remap" \
    -virtfs "local,path=${checkout//,/,,}/out,mount_tag=hostout,security_model=none,multidevs=remap" \
    < /dev/null &> "$run/qemu" 9>&- &
  qemu=$!
  while kill -0 "$qemu" 2>/dev/null; do
    if [[ -s $run/status ]] && (( SECONDS - sign > 20 )); then break; fi  # done, but does not power off
    now=$(cat "$run/alive" 2>/dev/null || true)
    if [[ $now != "$last" ]]; then last=$now sign=$SECONDS; fi
    kill -0 "$PPID" 2>/dev/null || exit 143  # whoever wanted this is gone
    if (( SECONDS - begin >= limit )); then why="out of time after $limit s"; break; fi
    if (( SECONDS - sign >= silence )); then why="no sign of life for $silence s"; break; fi
    sleep 0.5
  done
  kill -KILL "$qemu" 2>/dev/null || true
  wait "$qemu" 2>/dev/null || true
  qemu=
  exec 9>&-
  wait "$pump" 2>/dev/null || true
  pump=
  if [[ -s $run/status ]]; then return 0; fi
  if (( SECONDS - begin >= limit )); then return 2; fi
  : "${why:=it ended before the command did}"
  return 1
}

for attempt in 1 2; do
  why="" rc=0
  boot || rc=$?
  if [[ $rc -eq 0 ]]; then exit "$(cat "$run/status")"; fi
  say "THE MACHINE FAILED: $why. The end of its console:"
  tail -n 40 "$run/console" | tr -d '\r' >&2
  cat "$run/qemu" >&2
  cp "$run/console" "$checkout/out/nested/console-failed-$attempt.log"
  if [[ $rc -eq 2 ]]; then exit 124; fi
  if [[ $attempt -eq 1 ]]; then say "STARTED AGAIN, ONCE"; fi
done
say "the machine died twice; its consoles: out/nested/console-failed-*.log"
exit 125
