#!/bin/sh
# The virtual machine with all files in place: load what a node has, run the command, say how it ended, power off.
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM="${TERM:-vt100}"
export SLICEWIRE_VM=1 SLICEWIRE_VM_OUT=/run/slicewire-vm
# Processors are slow here: what Node.js compiled once, the next process need not compile again.
export NODE_COMPILE_CACHE=/run/slicewire-compiled
hostname slicewire-vm
echo 1 >/proc/sys/kernel/printk
ip link set lo up
# As kubeadm asks of a node: packets between pods of one bridge pass the rules.
modprobe -a br_netfilter overlay veth
stty -onlcr 2>/dev/null
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
