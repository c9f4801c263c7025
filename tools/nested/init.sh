#!/bin/busybox sh
# /init of the nested machine: the host's file system read-only over 9p, with a layer in memory above it for what is
# written, and the checkout's out/ read-write; then inside.sh, found in the checkout like everything else.
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
. /parameters  # CHECKOUT, KERNEL, RUN: absolute paths on the host
fail() {
  echo "nested: $*" > /dev/console
  poweroff -f
}
while read -r module; do insmod "/modules/$module" || fail "insmod $module"; done < /modules/order
# With one processor, waiting for a halted guest in a loop only takes time from whoever would wake it.
echo 0 > /sys/module/kvm/parameters/halt_poll_ns

nine="trans=virtio,version=9p2000.L,msize=524288"
mount -t 9p -o "ro,$nine,cache=loose" hostroot /lower || fail "no root over 9p"
mount -t tmpfs -o mode=755 tmpfs /rw
mkdir /rw/upper /rw/work
mount -t overlay -o lowerdir=/lower,upperdir=/rw/upper,workdir=/rw/work overlay /root || fail "no overlay"
mount -t 9p -o "rw,$nine,cache=mmap" hostout "/root$CHECKOUT/out" || fail "no out/ over 9p"
mkdir -p /root/lib/modules
mount -o bind "/root$KERNEL/lib/modules" /root/lib/modules
mkdir -p /root/proc /root/sys /root/dev /root/run/nested
for directory in proc sys dev; do mount -o move "/$directory" "/root/$directory"; done
cp /bin/busybox /root/run/nested/busybox
exec switch_root /root /bin/bash "$CHECKOUT/tools/nested/inside.sh" "$CHECKOUT" "$RUN"
