#!/bin/sh
# The demo, on this machine; in IPVS mode on a kernel without IPVS, in a virtual machine (test/vm/machine/README.md).
set -eu
cd "$(dirname "$0")/.."
# The help needs no tool.
case " $* " in *" --help "* | *" -h "*) tools='' ;; *) tools='iptables ip sysctl' ;; esac
# shellcheck disable=SC2086 # each command is a word
sh scripts/prepare.sh $tools
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
