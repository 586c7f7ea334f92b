#!/bin/sh
# A shell in the virtual machine whose kernel has IPVS (test/vm/machine/README.md). Wrong arguments are named before anything is installed.
set -eu
cd "$(dirname "$0")/.."
case "${1:-}" in
  '') ;;
  --help | -h)
    printf '%s\n' 'usage: npm run vm -- [OPTION…]' '' \
      'Opens a shell in a virtual machine whose kernel has IPVS, in the folder of the checkout.' \
      'What is written there stays in memory. The command exit powers it off.' '' '  --help  prints this'
    exit 0
    ;;
  *)
    echo "npm run vm: there is no option ${1%%=*}; \"npm run vm -- --help\" says what it takes" >&2
    exit 2
    ;;
esac
sh scripts/prepare.sh iptables ip ipset ipvsadm vm
exec sh test/vm/machine/machine.sh shell
