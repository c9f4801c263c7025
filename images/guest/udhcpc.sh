#!/bin/busybox sh
# What udhcpc calls with an answer in the environment. `interface`, `ip`, `mask` and so on are its names.
# shellcheck disable=SC2154
case $1 in
  deconfig) ip address flush dev "$interface" ;;
  bound | renew)
    ip address replace "$ip/${mask:-24}" dev "$interface"
    for gateway in $router; do ip route replace default via "$gateway" dev "$interface" && break; done
    for server in $dns; do echo "nameserver $server"; done > /run/resolv.conf ;;
esac
