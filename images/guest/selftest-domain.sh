#!/bin/busybox sh
# Asks the GPU Domain of this machine for its device, as a front-end does: through Sluice's driver and a worker.
. /usr/lib/sluice/guest.sh
wait_for /run/sluice/gpu.sock || exit 1
driver=/usr/lib/sluice/sluice_icd.x86_64.json
SLUICE_SOCKET=/run/sluice/gpu.sock VK_DRIVER_FILES=$driver VK_ICD_FILENAMES=$driver vulkaninfo --summary > /tmp/vulkaninfo 2>&1
status=$?
grep -E 'deviceName|driverName|driverInfo|apiVersion|ERROR' /tmp/vulkaninfo
[ $status -eq 0 ] || cat /tmp/vulkaninfo /run/sluice/domain.log
exit $status
