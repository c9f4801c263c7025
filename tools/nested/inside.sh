#!/bin/bash
# inside.sh CHECKOUT RUN: first process of the nested machine once it has its root. Runs RUN/command in CHECKOUT and
# leaves the exit status in RUN/status. RUN lies under out/ and is the host's; the host watches RUN/alive.
checkout=$1 run=$2
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb SLUICE_NESTED=1
cd "$checkout" || exit 1
ulimit -n 65536
/run/nested/busybox ip link set lo up
(while :; do
  read -r up _ < /proc/uptime
  echo "$up" > "$run/alive"
  sleep 5
done) < /dev/null &> /dev/null &

# A library that is mapped page by page over 9p takes a request for each few pages; read from end to end it takes seconds.
if [[ -s $run/preload ]]; then
  while read -r file; do dd if="$file" of=/dev/null bs=4M status=none; done < "$run/preload"
fi

# The command sees a pipe, like under any CI; the port behind it can be opened only once.
mkfifo /run/nested/output
cat /run/nested/output > /dev/vport0p1 &
pump=$!
setsid /bin/bash "$run/command" < /dev/null &> /run/nested/output
status=$?
# Whoever the command left behind may still hold the pipe; then it is not waited for.
for _ in {1..50}; do
  kill -0 "$pump" 2> /dev/null || break
  sleep 0.1
done
echo "$status" > "$run/status.new" && mv "$run/status.new" "$run/status"
sync "$run/status"
exec /run/nested/busybox poweroff -f
