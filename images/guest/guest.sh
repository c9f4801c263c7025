# What the initial file system and the root images share: arguments, network, the end. Sourced by a POSIX shell (busybox).
say() { echo "sluice: $*" > /dev/console; }

# argument NAME [DEFAULT]: a value of the kernel's command line: NAME=value or NAME="several words"; a bare NAME is 1.
argument() {
  local line
  line=" $(cat /proc/cmdline) "
  case $line in
    *" $1=\""*) line=${line#*" $1=\""} && line=${line%%\"*} ;;
    *" \"$1="*) line=${line#*" \"$1="} && line=${line%%\"*} ;;
    *" $1="*) line=${line#*" $1="} && line=${line%% *} ;;
    *" $1 "*) line=1 ;;
    *) line=${2:-} ;;
  esac
  printf '%s\n' "$line"
}

# network MODE: every Ethernet interface. MODE as in images/README.md, sluice.net.
network() {
  local mode=$1 path name rest address gateway names
  ip link set lo up
  [ "$mode" != off ] || return 0
  for path in /sys/class/net/*; do
    [ -e "$path/device" ] || continue
    name=${path##*/}
    ip link set "$name" up
    case $mode in
      dhcp)
        udhcpc -q -n -t 5 -T 1 -i "$name" -s "$udhcpc_script" > /dev/null 2>&1 && continue
        say "$name: no answer to DHCP, taking QEMU's user network for granted"
        mode=slirp ;;
    esac
    case $mode in
      slirp) rest=10.0.2.15/24,10.0.2.2,10.0.2.3 ;;
      *) rest=$mode ;;
    esac
    address=${rest%%,*} gateway='' names=''
    case $rest in *,*) rest=${rest#*,} && gateway=${rest%%,*} ;; esac
    case $rest in *,*) names=${rest#*,} ;; esac
    ip address add "$address" dev "$name" || say "$name: bad address '$address'"
    [ -z "$gateway" ] || ip route add default via "$gateway" dev "$name"
    [ -z "$names" ] || echo "nameserver $names" > /run/resolv.conf
    return 0  # a fixed address fits one interface
  done
}

# What sluice.run or sluice.script want to be run, as /run/sluice/run. False: nothing.
find_task() {
  local drive
  mkdir -p /run/sluice
  drive=$(argument sluice.script)
  if [ -n "$drive" ]; then
    wait_for "$drive" || end 125
    tr -d '\000' < "$drive" > /run/sluice/run
  else
    [ -n "$(argument sluice.run)" ] || return 1
    argument sluice.run > /run/sluice/run
  fi
  chmod 755 /run/sluice/run
}

# Runs /run/sluice/run (with its own interpreter if it names one) and ends the machine with its status.
run_task() {
  local first='' output
  output=$(argument sluice.output /dev/console)
  wait_for "$output" || end 125
  read -r first < /run/sluice/run
  say "run"
  case $first in
    '#!'*) /run/sluice/run < /dev/null > "$output" 2>&1 ;;
    *) sh /run/sluice/run < /dev/null > "$output" 2>&1 ;;
  esac
  end $?
}

# Waits up to 10 s for a device node.
wait_for() {
  local tries=0
  while [ ! -e "$1" ]; do
    tries=$((tries + 1))
    [ $tries -le 100 ] || { say "$1 does not appear"; return 1; }
    sleep 0.1
  done
}

# end STATUS: says it on the console, tells the hypervisor by the debug exit port, and stops the machine.
end() {
  say "exit $1"
  sync
  case $(argument sluice.end off) in shell) exec setsid cttyhack sh ;; esac
  # shellcheck disable=SC2059 # the format is the byte
  printf "\\$(printf %03o "$1")" | dd of=/dev/port bs=1 seek=244 count=1 conv=notrunc 2> /dev/null
  if [ -d /sys/firmware/acpi/tables ] && [ "$(argument sluice.end off)" != reset ]; then poweroff -f; else reboot -f; fi
}
