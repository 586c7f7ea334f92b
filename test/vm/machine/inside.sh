#!/bin/sh
# The virtual machine with all files in place: load what a node has, run the command, say how it ended, power off.
#
#   inside.sh run | shell   as the first process
#   inside.sh systemd       the same, with systemd as the first process: it starts this again, as
#   inside.sh command       with the node made already
set -u
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM="${TERM:-vt100}"
export SLICEWIRE_VM=1 SLICEWIRE_VM_OUT=/run/slicewire-vm
# Processors are slow here: what Node.js compiled once, the next process need not compile again.
export NODE_COMPILE_CACHE=/run/slicewire-compiled
export NODE_OPTIONS="--require $(dirname "$0")/no-tier-up.cjs"

make_node() {
  mount -t proc proc /proc
  mount -t sysfs sys /sys
  mkdir -p /dev/pts /dev/shm
  mount -t devpts devpts /dev/pts
  mount -t tmpfs shm /dev/shm
  hostname slicewire-vm
  echo 1 >/proc/sys/kernel/printk
  ip link set lo up
  # As kubeadm asks of a node: packets between pods of one bridge pass the rules.
  modprobe -a br_netfilter overlay veth
}

# What a boot needs not here: it takes time, writes to what it should not (/tmp may hold the checkout), or starts
# programs of the host (timers).
NOT_HERE='systemd-tmpfiles-setup.service systemd-tmpfiles-setup-dev.service systemd-sysusers.service systemd-firstboot.service
  systemd-repart.service systemd-random-seed.service systemd-journal-flush.service systemd-machine-id-commit.service
  systemd-update-utmp.service systemd-timesyncd.service systemd-binfmt.service kmod-static-nodes.service timers.target
  paths.target cryptsetup.target integritysetup.target veritysetup.target proc-sys-fs-binfmt_misc.automount
  dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount sys-kernel-tracing.mount'

start_systemd() {
  units=/run/systemd/system
  mkdir -p "$units"
  for unit in $NOT_HERE; do ln -s /dev/null "$units/$unit"; done
  cat >"$units/slicewire-vm.service" <<END
[Unit]
Description=The command of the virtual machine
Requires=basic.target
AllowIsolate=yes
FailureAction=poweroff-force

[Service]
Type=exec
ExecStart=/bin/sh $0 command
END
  # The host may be a container; the machine is none, and systemd does some things otherwise in one.
  rm -f /.dockerenv /run/.containerenv
  exec /lib/systemd/systemd --show-status=error --unit=slicewire-vm.service
}

[ "$1" = command ] || make_node
[ "$1" = systemd ] && start_systemd
stty -onlcr </dev/console 2>/dev/null
if [ "$1" = shell ]; then
  cd "$(sed -n "s/^cd '\(.*\)' $/\1/p" /run/slicewire-vm/command)" || cd /
  setsid -c bash -i </dev/console >/dev/console 2>&1
  echo 0 >/run/slicewire-vm/status
else
  sh /run/slicewire-vm/command </dev/null >/dev/console 2>&1
  echo $? >/run/slicewire-vm/status
fi
sync
busybox poweroff -f
