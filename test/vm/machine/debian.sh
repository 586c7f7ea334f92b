#!/bin/sh
# Debian's packages of another suite or platform, unpacked and not installed, beside the machine's own kernel.
#
#   debian.sh kernel SUITE ARCHITECTURE        the newest kernel of the suite; says its release
#   debian.sh files SUITE arm64 PACKAGE…       programs of the platform with all that they need, for its machine
#
# apt checks the signature of the suite and the hash of each package. It has a configuration, lists and packages of its own; of the host's it
# takes the proxy.
set -eu
CACHE=${SLICEWIRE_VM_CACHE:-/var/cache/slicewire-vm}
MIRROR=${SLICEWIRE_VM_MIRROR:-http://deb.debian.org/debian}

what=${1:-}
case "$what" in kernel | files) ;; *) sed -n '4,5s/^# *//p' "$0" >&2; exit 2 ;; esac
suite=$2
arch=$3
shift 3
own=$CACHE/apt-$suite-$arch

say() { echo "slicewire vm: $*" >&2; }

# $1: a tool of apt.
apt() {
  tool=$1
  shift
  APT_CONFIG="$own/apt.conf" "$tool" -q "$@"
}

# Run a command, and show what it printed when it fails.
quietly() {
  "$@" >"$own/log" 2>&1 && return
  cat "$own/log" >&2
  say "Debian's $suite for $arch cannot be read at $MIRROR"
  exit 1
}

mkdir -p "$own/state/lists/partial" "$own/cache/archives/partial"
exec 9>"$CACHE/lock"
flock 9
: >"$own/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $MIRROR $suite main" >"$own/sources.list"
cat >"$own/apt.conf" <<END
$(apt-config dump | grep -i '^Acquire::[a-z]*::Proxy' || true)
Dir::Etc::Main "/dev/null";
Dir::Etc::Parts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
Dir::Etc::SourceList "$own/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State "$own/state";
Dir::State::Status "$own/status";
Dir::Cache "$own/cache";
APT::Architecture "$arch";
APT::Architectures { "$arch"; };
APT::Sandbox::User "root";
APT::Install-Recommends "false";
APT::Update::Error-Mode "any";
Acquire::Languages "none";
Acquire::Check-Valid-Until "false";
END
quietly apt apt-get update

# Unpack packages into a folder in which /bin, /lib and /sbin lead to /usr, as everywhere in Debian today.
unpack() {
  to=$1
  shift
  for part in bin lib sbin; do
    mkdir -p "$to/usr/$part"
    ln -sfn "usr/$part" "$to/$part"
  done
  for package in "$@"; do dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$to"; done
}

kernel() {
  # «linux-image-amd64» depends on that of today, which since 6.17 depends on two others with the files.
  today=$(apt apt-cache depends "linux-image-$arch" | sed -n "s/^ *Depends: linux-image-\([0-9].*\)/\1/p" | head -n 1)
  [ -n "$today" ] || { say "Debian's $suite has no kernel for $arch"; exit 1; }
  if [ ! -e "$CACHE/$today/lib/modules/$today/modules.dep" ]; then
    say "fetching the kernel $today"
    new=$CACHE/$today.new
    rm -rf "$new"
    mkdir -p "$new/packages"
    parts="linux-image-$today $(apt apt-cache depends "linux-image-$today" | sed -n "s/^ *Depends: \(linux-\(base\|binary\|modules\)-[0-9].*\)/\1/p")"
    # shellcheck disable=SC2086 # each package is a word
    (cd "$new/packages" && quietly apt apt-get download $parts)
    unpack "$new" "$new"/packages/*.deb
    rm -rf "$new/packages"
    [ -e "$new/boot/vmlinuz-$today" ] || { mkdir -p "$new/boot" && cp "$new/lib/modules/$today/vmlinuz" "$new/boot/vmlinuz-$today"; }
    depmod -b "$new" "$today"
    rm -rf "${CACHE:?}/$today"
    mv "$new" "$CACHE/$today"
  fi
  echo "$today"
}

files() {
  into=$CACHE/files-$arch
  asked="$suite $*"
  [ "$(cat "$into/.asked" 2>/dev/null)" = "$asked" ] && return
  say "fetching programs of $suite for $arch"
  rm -rf "$own/cache/archives" "$into.new"
  mkdir -p "$own/cache/archives/partial"
  quietly apt apt-get install -y --download-only "$@"
  unpack "$into.new" "$own"/cache/archives/*.deb
  rm -rf "$own/cache/archives"
  # What the packages would do when they are installed.
  for name in iptables ip6tables; do
    for tool in '' -save -restore; do ln -sfn "$name-nft$tool" "$into.new/usr/sbin/$name$tool"; done
  done
  mkdir -p "$into.new/etc/alternatives" "$into.new/root" "$into.new/dev" "$into.new/proc" "$into.new/sys" "$into.new/run" "$into.new/tmp"
  echo 'root:x:0:0:root:/root:/bin/sh' >"$into.new/etc/passwd"
  echo 'root:x:0:' >"$into.new/etc/group"
  [ -e "$into.new/bin/sh" ] || ln -s dash "$into.new/usr/bin/sh"
  echo "$asked" >"$into.new/.asked"
  rm -rf "$into"
  mv "$into.new" "$into"
}

"$what" "$@"
