#!/usr/bin/env bash
# smoke.sh KERNELS MACHINE_RUN [KERNEL...]: boots Debian's kernels in machines, on a host whose KVM runs Linux.
#   KERNELS      build/linux, made by prepare.sh
#   MACHINE_RUN  build/release/bin/machine_run
#   KERNEL       which of them (default: all that are there)
# Per kernel: bzImage and vmlinux with 1 vCPU and vmlinux with 2 to power-off; a shell that reboots the machine in place and then
# powers it off; a panic. Prints a line per boot and, at the end, PASSED, FAILED. Logs: out/linux.
set -uo pipefail
[[ $# -ge 2 ]] || { sed -n '2,7s/^# //p' "${BASH_SOURCE[0]}" >&2; exit 2; }
kernels=$1 machine_run=$2
shift 2
[[ $# -gt 0 ]] || set -- $(cd "$kernels" && for d in */bzImage; do echo "${d%/*}"; done)
logs=out/linux
mkdir -p "$logs"
# What makes a boot quick where an exit to user space is slow; none of it is needed to boot.
options="console=ttyS0 quiet pci=noearly tsc=reliable mitigations=off random.trust_cpu=on cryptomgr.notests panic=-1 ${LINUX_OPTIONS:-}"
passed=0 failed=0

verdict() {  # NAME LOG RC FAILURE
  local ms
  ms=$(sed -n 's/^machine_run: *\([0-9.]*\) ms mark 2$/\1/p' "$2" | head -n 1)
  if [[ -z $4 ]]; then
    passed=$((passed + 1))
    echo "PASS $1: user space after ${ms:-?} ms, guest clock $(sed -n 's/^TEST uptime //p' "$2" | head -n 1 | tr -d '\r') s"
  else
    failed=$((failed + 1))
    echo "FAIL $1: $4 (exit code $3); the log:"
    tail -n 60 "$2"
  fi
}

# Every line must be in the log.
missing() {
  local log=$1 line
  shift
  for line in "$@"; do
    grep -aqE "$line" "$log" || { echo "no line like '$line'"; return; }
  done
}

boot() {  # NAME KERNEL IMAGE VCPUS WHAT RC LINES...
  local name=$1 kernel=$2 image=$3 vcpus=$4 what=$5 want=$6 log rc
  shift 6
  log=$logs/$name.log
  timeout 180 "$machine_run" --kernel="$kernels/$kernel/$image" --initramfs="$kernels/$kernel/initramfs.cpio" --no-gpu --rng --mem-mib=256 \
    --vcpus="$vcpus" --timeline --timeout=170 "$options test.do=$what" > "$log" 2>&1 < /dev/null
  rc=$?
  local why
  why=$(missing "$log" "TEST cpus $vcpus" "TEST clocksource kvm-clock" "TEST hwrng virtio_rng.0 16" "TEST userspace" "$@")
  [[ $rc -eq $want ]] || why="${why:+$why; }wanted exit code $want"
  verdict "$name" "$log" "$rc" "$why"
}

# A shell on the serial port: `reboot` boots again in the same process, `poweroff` ends it.
shell() {
  local name=$1 kernel=$2 log=$logs/$1.log rc why="" prompts=0 line
  coproc VM { exec timeout 180 "$machine_run" --kernel="$kernels/$kernel/vmlinux" --initramfs="$kernels/$kernel/initramfs.cpio" --no-gpu --rng \
    --mem-mib=256 --vcpus=2 --timeline --timeout=170 --stdin --on-reset=restart "$options test.do=shell" 2>&1; }
  local pid=$VM_PID
  : > "$log"
  while IFS= read -r line <&"${VM[0]}"; do
    echo "$line" >> "$log"
    [[ $line == *"TEST userspace"* ]] || continue
    prompts=$((prompts + 1))
    if [[ $prompts -eq 1 ]]; then
      echo 'echo "sum $((40 + 2))"; reboot -f' >&"${VM[1]}"
    else
      echo 'poweroff -f' >&"${VM[1]}"
    fi
  done
  wait "$pid"
  rc=$?
  why=$(missing "$log" "^sum 42" "restart 1" "guest power-off")
  [[ $(grep -ac "TEST hwrng virtio_rng.0 16" "$log") -eq 2 ]] || why="${why:+$why; }no random numbers from the device in each boot"
  [[ $prompts -eq 2 ]] || why="${why:+$why; }$prompts boots"
  [[ $rc -eq 0 ]] || why="${why:+$why; }exit code $rc"
  verdict "$name" "$log" "$rc" "$why"
}

for kernel in "$@"; do
  boot "$kernel-bzimage-1" "$kernel" bzImage 1 poweroff 0 "guest power-off"
  boot "$kernel-vmlinux-1" "$kernel" vmlinux 1 poweroff 0 "guest power-off"
  boot "$kernel-vmlinux-2" "$kernel" vmlinux 2 reboot 125 "guest reset"
  boot "$kernel-panic" "$kernel" vmlinux 1 panic 125 "sysrq triggered crash|Kernel panic" "guest panic"
  shell "$kernel-shell" "$kernel"
done
echo "linux: $passed passed, $failed failed"
[[ $failed -eq 0 ]]
