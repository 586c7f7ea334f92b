#!/bin/sh
# A virtual machine with this machine's files and a kernel that has IPVS (README.md beside this file).
#
#   machine.sh run COMMAND [ARGUMENT…]       run it in there, in this folder; ends with its exit status
#   machine.sh shell                         a shell in there
#   machine.sh systemd COMMAND [ARGUMENT…]   as run, with systemd as first process: it starts the command when it is up
#
# What runs in there sees all files of this machine, and writes to memory: nothing is changed. What it leaves in
# $SLICEWIRE_VM_OUT is kept, in the folder of the same name here. $SLICEWIRE_VM_KERNEL names another kernel, which debian.sh has fetched.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
OURS=6.1.0-56-amd64
KERNEL=${SLICEWIRE_VM_KERNEL:-$OURS}
CACHE=${SLICEWIRE_VM_CACHE:-/var/cache/slicewire-vm}
case "$KERNEL" in *-arm64) ARCH=arm64 QEMU=qemu-system-aarch64 ;; *) ARCH=amd64 QEMU=qemu-system-x86_64 ;; esac
MEMORY=${SLICEWIRE_VM_MEMORY:-4096}
CPUS=${SLICEWIRE_VM_CPUS:-2}
# A machine that only powers off does so within a second or two; one that hangs is given up after this.
KVM_SECONDS=15

say() { echo "slicewire vm: $*" >&2; }

# The kernel's package, unpacked and not installed.
fetch_kernel() {
  [ -e "$CACHE/$KERNEL/lib/modules/$KERNEL/modules.dep" ] && return
  if [ "$KERNEL" != "$OURS" ]; then
    say "the kernel $KERNEL is not in $CACHE; sh test/vm/machine/debian.sh kernel SUITE ARCHITECTURE fetches that of a suite"
    exit 1
  fi
  say "fetching the kernel $KERNEL"
  new=$CACHE/$KERNEL.new
  rm -rf "$new"
  mkdir -p "$new/package"
  if ! (cd "$new/package" && apt-get -o APT::Sandbox::User=root download "linux-image-$KERNEL") >"$new/log" 2>&1 &&
    ! (flock /var/lib/dpkg apt-get update && cd "$new/package" && apt-get -o APT::Sandbox::User=root download "linux-image-$KERNEL") >"$new/log" 2>&1; then
    cat "$new/log" >&2
    say "Debian's package linux-image-$KERNEL cannot be fetched"
    exit 1
  fi
  dpkg -x "$new"/package/*.deb "$new"
  rm -rf "$new/package"
  depmod -b "$new" "$KERNEL"
  rm -rf "${CACHE:?}/$KERNEL"
  mv "$new" "$CACHE/$KERNEL"
}

# What the kernel starts with: busybox, the modules that reach the files of this machine, and init.
build_initramfs() {
  initramfs=$CACHE/initramfs-$KERNEL-$(cat "$here/init" "$0" | cksum | cut -d' ' -f1)
  [ -e "$initramfs" ] && return
  root=$(mktemp -d)
  mkdir -p "$root/bin" "$root/modules"
  case "$ARCH" in
    arm64)
      cp "$CACHE/files-arm64/usr/bin/busybox" "$root/bin/busybox" || {
        say "the programs of arm64 are not in $CACHE; npm run test:kernels fetches them"
        exit 1
      }
      ;;
    *) cp "$(command -v busybox)" "$root/bin/busybox" ;;
  esac
  cp "$here/init" "$root/init"
  chmod 755 "$root/init"
  number=100
  modprobe -d "$CACHE/$KERNEL" -S "$KERNEL" --show-depends -a virtio_pci 9pnet_virtio 9p overlay |
    while read -r how path _; do
      # The others are a part of the kernel.
      [ "$how" = insmod ] || continue
      [ -n "$(find "$root/modules" -name "*-$(basename "$path" .xz)")" ] && continue
      number=$((number + 1))
      case "$path" in
        *.xz) xz -dc "$path" >"$root/modules/$number-$(basename "$path" .xz)" ;;
        *) cp "$path" "$root/modules/$number-$(basename "$path")" ;;
      esac
    done
  rm -f "$CACHE/initramfs-$KERNEL"-*
  (cd "$root" && find . | cpio -o -H newc --quiet) >"$CACHE/new.$$"
  rm -rf "$root"
  mv "$CACHE/new.$$" "$initramfs"
}

# KVM when a machine boots with it, else emulation. A /dev/kvm that can be opened proves nothing: where virtual machines are
# nested, KVM may refuse the processor or spin for ever. One that only powers off is tried once each time the host has booted.
choose_accelerator() {
  accelerator='-accel tcg,thread=multi'
  [ "$ARCH" = amd64 ] || return 0
  tried=$CACHE/accelerator
  boot_id=$(cat /proc/sys/kernel/random/boot_id)
  if [ "$(head -n 1 "$tried" 2>/dev/null)" != "$boot_id" ]; then
    if [ -w /dev/kvm ]; then
      say "trying KVM"
      root=$(mktemp -d)
      mkdir "$root/bin"
      cp "$(command -v busybox)" "$root/bin/busybox"
      printf '#!/bin/busybox sh\n/bin/busybox echo KVM-BOOTS\n/bin/busybox poweroff -f\n' >"$root/init"
      chmod 755 "$root/init"
      (cd "$root" && find . | cpio -o -H newc --quiet) >"$CACHE/probe.$$"
      rm -rf "$root"
      if (timeout -k 1 "$KVM_SECONDS" qemu-system-x86_64 -m 256 -accel kvm -cpu max -nodefaults -display none -no-reboot \
        -kernel "$CACHE/$KERNEL/boot/vmlinuz-$KERNEL" -initrd "$CACHE/probe.$$" -append "console=ttyS0 quiet panic=-1" \
        -serial stdio </dev/null | grep -q KVM-BOOTS) 2>/dev/null; then
        accelerator='-accel kvm'
      else
        say "no machine boots with KVM here: its processors are emulated, which is about ten times slower"
      fi
      rm -f "$CACHE/probe.$$"
    fi
    printf '%s\n%s\n' "$boot_id" "$accelerator" >"$tried"
  fi
  accelerator=$(sed -n 2p "$tried")
}

# $1: run, shell or systemd; the command is in $out/command.
boot() {
  share() { echo "-virtfs local,path=$1,mount_tag=$2,security_model=none,multidevs=remap$3"; }
  # Programs of another platform have files of their own, and this checkout.
  case "$ARCH" in
    arm64)
      machine='-machine virt' console=ttyAMA0 files=$CACHE/files-arm64
      checkout=$(cd "$here/../../.." && pwd)
      also="$(share "$checkout" checkout ,readonly=on) $(share "$CACHE" cache ,readonly=on)"
      ;;
    *) machine='' console=ttyS0 files=/ checkout='' also='' ;;
  esac
  # shellcheck disable=SC2046,SC2086 # each share is several words
  set -- "$1" -m "$MEMORY" -smp "$CPUS" $machine $accelerator -cpu max -nodefaults -display none -no-reboot \
    -kernel "$CACHE/$KERNEL/boot/vmlinuz-$KERNEL" -initrd "$initramfs" \
    -append "console=$console quiet panic=-1 mitigations=off kernel=$KERNEL cache=$CACHE checkout=$checkout inside=$here/inside.sh what=$1" \
    $(share "$files" host ,readonly=on) $(share "$out" out '') $also
  what=$1
  shift
  if [ "$what" = shell ]; then
    say "a shell follows; it ends with «exit»"
    $QEMU "$@" -serial stdio
  else
    # Whoever ends this script ends the machine too: a shell that waits for a program in the foreground would leave it behind.
    $QEMU "$@" -serial stdio </dev/null &
    qemu=$!
    trap 'kill "$qemu" 2>/dev/null || true' INT TERM
    # A signal ends the first wait, and not yet the machine.
    wait "$qemu" || wait "$qemu"
  fi
}

quote() { printf "'%s' " "$(printf %s "$1" | sed "s/'/'\\\\''/g")"; }

what=${1:-}
case "$what" in run | shell | systemd) shift ;; *) sed -n '4,6s/^# *//p' "$0" >&2; exit 2 ;; esac
mkdir -p "$CACHE"
# Machines may start side by side: one of them makes what all of them start with.
exec 9>"$CACHE/lock"
flock 9
fetch_kernel
build_initramfs
choose_accelerator
flock -u 9
keep=${SLICEWIRE_VM_OUT:-}
out=${keep:-$(mktemp -d)}
mkdir -p "$out"
{
  echo "cd $(quote "$PWD")"
  for word in "$@"; do quote "$word"; done
  echo
} >"$out/command"
rm -f "$out/status"
boot "$what" || true
status=$(cat "$out/status" 2>/dev/null || echo missing)
if [ -z "$keep" ]; then rm -rf "$out"; else rm -f "$out/command" "$out/status"; fi
if [ "$status" = missing ]; then
  say "the machine ended without a result"
  exit 1
fi
exit "$status"
