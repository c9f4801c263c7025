#!/bin/busybox sh
# The GPU Domain's service: sluice-domain on a socket in this machine. busybox init starts it again when it ends.
. /usr/lib/sluice/guest.sh
. /etc/profile
# Without a GPU only lavapipe can answer; every other driver that the loader tries costs start time.
if ! ls /dev/dri/renderD* > /dev/null 2>&1; then
  for driver in /usr/share/vulkan/icd.d/lvp_icd*.json; do export VK_DRIVER_FILES="$driver" VK_ICD_FILENAMES="$driver"; done
fi
ulimit -n 65536
rm -f /run/sluice/gpu.sock
exec sluice-domain --listen=/run/sluice/gpu.sock --name="$(argument sluice.name "$(cat /etc/hostname)")" \
  --os="$(argument sluice.os linux)" > /run/sluice/domain.log 2>&1
