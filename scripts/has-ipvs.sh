#!/bin/sh
# Exits with 0 when this kernel has IPVS, loaded or as a module.
[ -e /proc/net/ip_vs ] && exit 0
PATH="$PATH:/usr/sbin:/sbin" modprobe -q ip_vs 2>/dev/null && [ -e /proc/net/ip_vs ]
