#!/bin/sh
# The demo: here, or, in IPVS mode on a kernel without IPVS, in the virtual machine (test/vm/machine/README.md).
set -eu
cd "$(dirname "$0")/.."
sh scripts/prepare.sh iptables ip sysctl
case " $* " in
  *" --mode=ipvs "* | *" --mode ipvs "*)
    sh scripts/prepare.sh ipset ipvsadm
    if ! sh scripts/has-ipvs.sh; then
      sh scripts/prepare.sh vm
      echo "This kernel has no IPVS: the demo runs in a virtual machine that has it. Its emulation takes a while."
      exec sh test/vm/machine/machine.sh run node_modules/.bin/node --disable-sigusr1 src/main.ts demo "$@"
    fi
    ;;
esac
exec node_modules/.bin/node --disable-sigusr1 src/main.ts demo "$@"
