#!/bin/sh
# Ends with 0 when this kernel has IPVS, loaded or to be loaded.
[ -e /proc/net/ip_vs ] && exit 0
PATH="$PATH:/usr/sbin:/sbin" modprobe -q ip_vs 2>/dev/null && [ -e /proc/net/ip_vs ]
