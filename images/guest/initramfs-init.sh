#!/bin/busybox sh
# /init of the initial file system: modules for the devices that are there, then a root image, a task or a shell, as the
# kernel's command line says (images/README.md).
export PATH=/bin HOME=/ TERM=linux
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t tmpfs -o mode=755 run /run
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
. /lib/guest.sh
udhcpc_script=/lib/udhcpc.sh

# insert LIST: the modules of a list that are not there yet.
insert() {
  [ -e "/modules/$1" ] || return 0
  while read -r module; do
    case $inserted in *" $module "*) continue ;; esac
    insmod "/modules/$module" || say "insmod $module failed"
    inserted="$inserted$module "
  done < "/modules/$1"
}
inserted=' '
insert always
for device in /sys/bus/virtio/devices/*; do
  [ -e "$device/device" ] && read -r type < "$device/device" && insert "device-$((type))"
done
if [ -n "$(argument sluice.modules)" ]; then for list in /modules/device-*; do insert "${list##*/}"; done; fi

shell() {
  say "${1:-no root= and nothing to run: a shell}"
  while :; do setsid cttyhack sh; done
}

# file_system DEVICE: its type by its magic number.
file_system() {
  [ "$(dd if="$1" bs=4 count=1 2> /dev/null)" != hsqs ] || { echo squashfs; return; }
  [ "$(dd if="$1" bs=1 skip=1024 count=4 2> /dev/null | hexdump -v -e '1/1 "%02x"')" != e2e1f5e0 ] || { echo erofs; return; }
  [ "$(dd if="$1" bs=1 skip=1080 count=2 2> /dev/null | hexdump -v -e '1/1 "%02x"')" != 53ef ] || { echo ext4; return; }
}

# mount_drive DEVICE WHERE OPTIONS [TYPE]
mount_drive() {
  local type=${4:-}
  wait_for "$1" || return 1
  [ -n "$type" ] || type=$(file_system "$1")
  [ -n "$type" ] || { say "$1 holds no squashfs, erofs or ext4; rootfstype= names another"; return 1; }
  insert "filesystem-$type"
  mount -t "$type" -o "$3" "$1" "$2"
}

root=$(argument root)
if [ -z "$root" ]; then
  net=$(argument sluice.net off)
  network "$net"
  find_task && run_task
  shell
fi

access=ro
[ -z "$(argument rw)" ] || access=rw
overlay=$(argument sluice.overlay)
mkdir -p /lower /upper /root
case $root in
  9p:*) insert device-9 && insert filesystem-9p &&
    mount -t 9p -o "$access,trans=virtio,version=9p2000.L,msize=524288" "${root#9p:}" /lower ;;
  virtiofs:*) insert device-26 && mount -t virtiofs -o "$access" "${root#virtiofs:}" /lower ;;
  *) mount_drive "$root" /lower "$access" "$(argument rootfstype)" ;;
esac || shell "root=$root cannot be mounted"

# What cannot be written gets a layer above it that can.
if [ -z "$overlay" ]; then
  overlay=none
  [ $access = rw ] || overlay=tmpfs
fi
case $overlay in
  none) mount -o move /lower /root ;;
  *)
    insert filesystem-overlay
    case $overlay in
      tmpfs) mount -t tmpfs -o mode=755 tmpfs /upper ;;
      tmpfs:*) mount -t tmpfs -o "mode=755,size=${overlay#tmpfs:}" tmpfs /upper ;;
      *) mount_drive "$overlay" /upper rw ;;
    esac || shell "sluice.overlay=$overlay cannot be mounted"
    mkdir -p /upper/files /upper/work
    mount -t overlay -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work overlay /root || shell "no overlay" ;;
esac

# Libraries that are mapped page by page take a request for each few pages; read from end to end they take one for many.
if [ -n "$(argument sluice.preload)" ]; then
  find /root/usr/lib -xdev -type f -size +2000k -name '*.so*' | while read -r file; do dd if="$file" of=/dev/null bs=1M 2> /dev/null; done
fi
init=$(argument init /sbin/init)
for directory in proc sys dev run; do
  mkdir -p "/root/$directory" && mount -o move "/$directory" "/root/$directory"
done
exec switch_root /root "$init"
