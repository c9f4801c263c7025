#!/bin/busybox sh
# On the console: the task of the command line, or a shell.
. /usr/lib/sluice/guest.sh
cd /root || exit 1
. /etc/profile
if find_task; then run_task; fi
exec setsid cttyhack sh -l
