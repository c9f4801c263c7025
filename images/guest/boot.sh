#!/bin/busybox sh
# First thing in a root image: what /init of the initial file system has not mounted yet, host name, drivers, network.
. /usr/lib/sluice/guest.sh
udhcpc_script=/usr/lib/sluice/udhcpc.sh
mounted() { grep -q " $1 " /proc/mounts 2> /dev/null; }
[ -e /proc/mounts ] || mount -t proc proc /proc
mounted /sys || mount -t sysfs sys /sys
mounted /dev || mount -t devtmpfs dev /dev
mounted /run || mount -t tmpfs -o mode=755 run /run
mkdir -p /dev/pts /dev/shm /run/sluice
mounted /dev/pts || mount -t devpts pts /dev/pts
mounted /dev/shm || mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t tmpfs -o mode=1777 tmp /tmp
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
hostname "$(argument sluice.name "$(cat /etc/hostname)")"
# Drivers of devices on PCI, where this image has modules of the kernel that runs.
if [ -d "/usr/lib/modules/$(uname -r)" ]; then
  for alias in /sys/bus/pci/devices/*/modalias; do modprobe -q "$(cat "$alias")" 2> /dev/null; done
fi
network "$(argument sluice.net dhcp)"
exit 0
