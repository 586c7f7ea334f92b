#!/bin/sh
# Run a command as root of a user namespace in which the kernel runs programs of another architecture by an emulator, and of which nothing
# is left at its end: binfmt_misc of a user namespace is its own since Linux 6.7.
#   sandbox.sh EMULATOR MAGIC MASK COMMAND…      MAGIC and MASK as Documentation/admin-guide/binfmt-misc.rst has them
set -eu
case "${1:-}" in
  --inside)
    shift
    read -r _ <"$1"
    # From here on the process has the user 0 of its namespace, and its rights.
    exec unshare --pid --fork --mount-proc "$0" --ready "$2" "$3" "$4" "$@"
    ;;
  --ready)
    mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
    # F: the emulator is opened now, so that it is found in any root.
    printf '%s' ":other:M::$3:$4:$2:F" >/proc/sys/fs/binfmt_misc/register
    shift 8
    exec "$@"
    ;;
esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkfifo "$folder/mapped"
unshare --user --mount "$0" --inside "$folder/mapped" "$@" &
pid=$!
while [ "$(readlink "/proc/$pid/ns/user")" = "$(readlink /proc/self/ns/user)" ]; do sleep 0.02; done
# Each user is itself: what the command writes belongs to whom it says.
echo 0 0 65536 >"/proc/$pid/uid_map"
echo 0 0 65536 >"/proc/$pid/gid_map"
echo >"$folder/mapped"
wait "$pid"
