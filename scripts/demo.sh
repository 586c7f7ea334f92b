#!/bin/sh
# The demo, on this machine; in IPVS mode on a kernel without IPVS, in a virtual machine (test/vm/machine/README.md).
set -eu
cd "$(dirname "$0")/.."
sh scripts/prepare.sh iptables ip sysctl
case " $* " in
  *" --mode=ipvs "* | *" --mode ipvs "*)
    sh scripts/prepare.sh ipset ipvsadm
    if ! sh scripts/has-ipvs.sh; then
      sh scripts/prepare.sh vm
      echo "This kernel has no IPVS: the demo runs in a virtual machine that has it, which takes a few minutes to emulate."
      exec sh test/vm/machine/machine.sh run node_modules/.bin/node --disable-sigusr1 --liftoff-only src/main.ts demo "$@"
    fi
    ;;
esac
exec node_modules/.bin/node --disable-sigusr1 --liftoff-only src/main.ts demo "$@"
