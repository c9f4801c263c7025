#!/usr/bin/env bash
# Starts and stops a small topology N times and counts what is left: processes, files, open files of the whole system, memory.
#   tests/soak/start_stop.sh [N] [PRESET]      default 200 release; every 4th run is interrupted instead of running to its end
# Exit status 0: every run ended as it should and nothing grew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
count=${1:-200}
bin=build/${2:-release}/bin
work=$(mktemp -d /tmp/sluice-soak-XXXXXX)
trap 'rm -rf "$work"' EXIT

cat > "$work/lab.json" <<'JSON'
{"gpu_domains": [{"name": "gpu-a", "os": "linux"}, {"name": "gpu-b", "os": "bare"}],
 "frontends": [
  {"name": "web", "os": "linux", "mem_mib": 32, "firmware": "triangle", "cmdline": "frames=2", "gpu": {"memory_mib": 64, "window_mib": 64}},
  {"name": "panel", "os": "bare", "mem_mib": 32, "firmware": "triangle", "cmdline": "frames=2", "gpu": {"memory_mib": 64, "window_mib": 64}}]}
JSON
sed 's/frames=2/frames=1000000/' "$work/lab.json" > "$work/long.json"

# Ours only: by the path of the program.
processes() { local n=0 p; for p in /proc/[0-9]*; do case $(readlink "$p/exe" 2>/dev/null) in "$PWD/$bin"/*) n=$((n + 1)) ;; esac; done; echo "$n"; }
files() { find /tmp /dev/shm -maxdepth 1 \( -name 'sluice*' -o -name 'vk*' -o -name 'lvp*' \) ! -path "$work" 2>/dev/null | wc -l; }
open_files() { cut -f1 /proc/sys/fs/file-nr; }
shared_kib() { awk '/^Shmem:/ {print $2}' /proc/meminfo; }

wrong=0
one() {
  local i=$1 code=0
  rm -f "$work/log"  # what is waited for below must be of this run
  if (( i % 4 == 3 )); then
    "$bin/sluice" run "$work/long.json" --out "$work/out" > "$work/log" 2>&1 &
    local pid=$!
    for _ in $(seq 300); do grep -q 'panel: running' "$work/log" && break; sleep 0.1; done
    kill -TERM "$pid"
    wait "$pid" || code=$?
    (( code == 1 )) || { echo "run $i: interrupted, ended with $code"; cat "$work/log"; wrong=$((wrong + 1)); }
  else
    "$bin/sluice" run "$work/lab.json" --out "$work/out" > "$work/log" 2>&1 || code=$?
    (( code == 0 )) || { echo "run $i: ended with $code"; cat "$work/log"; wrong=$((wrong + 1)); }
  fi
  rm -rf "$work/out"
}

one 0  # what is made once (caches of the system) is made now
before_processes=$(processes) before_files=$(files) before_open=$(open_files) before_shared=$(shared_kib)
started=$SECONDS
for (( i = 1; i <= count; i++ )); do
  one "$i"
  (( i % 20 )) || echo "$i runs: $(processes) processes, $(files) files, $(open_files) open files, $(shared_kib) KiB shared memory, $wrong wrong"
done
sleep 1
after_processes=$(processes) after_files=$(files) after_open=$(open_files) after_shared=$(shared_kib)
echo "$count runs in $((SECONDS - started)) s, $wrong wrong"
echo "processes $before_processes -> $after_processes, files $before_files -> $after_files," \
  "open files of the system $before_open -> $after_open, shared memory $before_shared -> $after_shared KiB"
rc=0
(( wrong == 0 )) || rc=1
(( after_processes <= before_processes )) || { echo "processes were left behind"; rc=1; }
(( after_files <= before_files )) || { echo "files were left behind"; rc=1; }
# Each run is a process of its own: descriptors that it leaks go with it (supervisor_test runs many in one process and counts).
# The system's number of open files is shown only: other programs live here too. Leaked memory files would be shared memory.
(( after_shared <= before_shared + count * 4 + 8192 )) || { echo "shared memory grew"; rc=1; }
exit $rc
