#!/bin/sh
# /init of a test guest. What it does is on the kernel's command line: test.do=poweroff, reboot, panic or shell.
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mark 2
for module in $(cat /modules/order 2> /dev/null); do insmod "/modules/$module" || echo "TEST insmod $module failed"; done
word() { tr ' ' '\n' < /proc/cmdline | sed -n "s/^$1=//p"; }
echo "TEST kernel $(uname -r)"
echo "TEST cpus $(grep -c ^processor /proc/cpuinfo)"
echo "TEST memory $(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo)"
echo "TEST clocksource $(cat /sys/devices/system/clocksource/clocksource0/current_clocksource)"
echo "TEST x2apic $(dmesg | grep -c 'x2apic: enabled\|x2apic enabled\|Switched APIC routing to physical x2apic\|APIC: Switched APIC routing to: physical x2apic')"
echo "TEST acpi $(ls /sys/firmware/acpi/tables | tr '\n' ' ')"
echo "TEST pci $(cat /sys/bus/pci/devices/*/vendor | tr '\n' ' ')"
echo "TEST hwrng $(cat /sys/class/misc/hw_random/rng_current) $(timeout 20 dd if=/dev/hwrng bs=16 count=1 2> /dev/null | wc -c)"
echo "TEST uptime $(cut -d' ' -f1 /proc/uptime)"
dmesg | grep -iE 'acpi.*(error|warning)|firmware bug|\[firmware|BUG:|WARNING:|unable to' | sed 's/^/TEST complaint /'
echo "TEST userspace"
case $(word test.do) in
  poweroff) poweroff -f ;;
  reboot) reboot -f ;;
  panic) echo c > /proc/sysrq-trigger ;;
  shell) while :; do setsid cttyhack sh; done ;;
  *) echo "TEST nothing to do"; sleep 1000000 ;;
esac
sleep 60
