#!/bin/sh
# Start a program of this repository when all that it needs is there.
#
#   start.sh "COMMANDS" [--built] PROGRAM [ARGUMENT…]
#
# COMMANDS: as for prepare.sh. --built: the executable is built before. For its help a program needs neither, and wrong arguments are
# named before anything is installed (scripts/arguments.ts).
set -eu
cd "$(dirname "$0")/.."
commands=$1
shift
built=no
if [ "$1" = --built ]; then built=yes; shift; fi
case " $* " in *" --help "* | *" -h "*) commands='' built=no ;; esac
if [ "$commands$built" != no ] && [ $# -gt 1 ]; then
  sh scripts/prepare.sh
  SLICEWIRE_CHECK_ARGUMENTS=1 node_modules/.bin/node "$@"
fi
# shellcheck disable=SC2086 # each command is a word
sh scripts/prepare.sh $commands
[ "$built" = no ] || node_modules/.bin/node scripts/build.ts
# As `npm run slicewire` starts it: no code of WebAssembly is compiled anew in a root process (src/kernel/process.ts).
exec node_modules/.bin/node --disable-sigusr1 --liftoff-only "$@"
