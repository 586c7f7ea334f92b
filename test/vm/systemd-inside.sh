#!/bin/sh
# Install slicewire's unit where systemd runs, start, stop, starve it, and report what was seen (systemd.test.ts):
# each observation is a line of JSON with a name and the lines that a command said.
#
#   systemd-inside.sh EXECUTABLE
set -eu
executable=$1
cd "$(dirname "$0")/../.."
# Seconds that one thing may take: processors are slow in the virtual machine.
PATIENCE=120

# Standard input, as the observation $1.
observe() {
  lines=$(sed 's/\\/\\\\/g; s/"/\\"/g; s/\t/ /g; s/.*/"&"/' | paste -sd,)
  printf '\n@seen {"name":"%s","lines":[%s]}\n' "$1" "$lines"
}

# Properties of the unit, such as NRestarts=1.
show() { systemctl show slicewire.service --property="$1"; }

# The rules of the Service.
rules() { iptables-save -t nat | grep -E '10\.96\.0\.10/32|10\.244\.1\.11' || true; }

# Wait until the command succeeds.
until_so() {
  left=$PATIENCE
  until "$@"; do
    left=$((left - 1))
    [ "$left" -gt 0 ] || { echo "did not come: $*"; return 1; }
    sleep 1
  done
}

is() { [ "$(show "${1%%=*}")" = "$1" ]; }

flags() { echo "SLICEWIRE_FLAGS=--manifests /etc/slicewire/manifests --hostname-override node $*" >/etc/default/slicewire; }

install_it() {
  install -m 755 "$executable" /usr/local/bin/slicewire
  install -m 644 systemd/slicewire.service /etc/systemd/system/slicewire.service
  mkdir -p /etc/modules-load.d /etc/default /etc/slicewire/manifests
  install -m 644 systemd/slicewire-modules.conf /etc/modules-load.d/slicewire.conf
  cat >/etc/slicewire/manifests/web.yaml <<END
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: 10.96.0.10, ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [10.244.1.11]}]
END
  flags --mode=iptables --conntrack-max-per-core 0
  # Something that runs refers to the unit: what became of it is not forgotten when it stops.
  mkdir -p /run/systemd/system/slicewire-vm.service.d
  printf '[Unit]\nAfter=slicewire.service\n' >/run/systemd/system/slicewire-vm.service.d/refers.conf
  systemctl daemon-reload
  # As the next boot would.
  systemctl restart systemd-modules-load.service
  systemctl --failed --plain --no-legend | observe 'failed units'
  systemd-detect-virt --container | observe 'container'
}

STATE=Type,ActiveState,SubState,StatusText,Result,NRestarts,WatchdogUSec,ExecMainCode,ExecMainStatus

# $1: what the names of its observations begin with.
start() {
  rules | observe "$1: rules before"
  timeout "$PATIENCE" systemctl start slicewire.service || true
  rules | observe "$1: rules"
  show "$STATE" | observe "$1: state"
  is ActiveState=active || { echo "not started: $1"; return 1; }
  pid=$(systemctl show slicewire.service --property=MainPID --value)
  grep -E '^(Cap|NoNewPrivs|Seccomp:)' "/proc/$pid/status" | tr '\t' ' ' | observe "$1: rights"
  awk '$5 ~ "^/(|usr|run)$" { print $5, substr($6, 1, 2) }' "/proc/$pid/mountinfo" | observe "$1: mounts"
  busybox wget -qO- http://127.0.0.1:10256/healthz | observe "$1: health"
}

ping() {
  show WatchdogTimestampMonotonic | observe 'ping: first'
  first=$(show WatchdogTimestampMonotonic)
  has_moved() { [ "$(show WatchdogTimestampMonotonic)" != "$first" ]; }
  until_so has_moved
  show WatchdogTimestampMonotonic | observe 'ping: next'
}

# It hangs: the watchdog is to end it and start it again.
hang() {
  kill -STOP "$(systemctl show slicewire.service --property=MainPID --value)"
  : >/tmp/meanwhile
  is_back() {
    rules | cksum >>/tmp/meanwhile
    is NRestarts=1 && is ActiveState=active
  }
  rules | cksum | observe 'hang: rules'
  until_so is_back
  sort -u /tmp/meanwhile | observe 'hang: rules meanwhile'
  show "$STATE" | observe 'hang: state'
  journalctl -u slicewire.service _PID=1 -o cat --no-pager | observe 'hang: journal'
}

main_pid() { systemctl show slicewire.service --property=MainPID --value; }

reload() {
  main_pid | observe 'reload: pid before'
  status=0
  systemctl reload slicewire.service || status=$?
  echo "$status" | observe 'reload: status'
  says_so() { journalctl -u slicewire.service -o cat --no-pager | grep 'SIGHUP:'; }
  until_so says_so
  until_so is ActiveState=active
  says_so | observe 'reload: log'
  show "$STATE" | observe 'reload: state'
  main_pid | observe 'reload: pid'
}

# SIGINT is a clean end for systemd (systemd.service(5), Restart=); slicewire exits with 0 then.
killed() {
  kill -INT "$(main_pid)"
  is_back() { is NRestarts=2 && is ActiveState=active; }
  until_so is_back
  rules | cksum | observe 'killed: rules'
  show "$STATE" | observe 'killed: state'
}

stop() {
  systemctl stop slicewire.service
  show "$STATE" | observe 'stop: state'
  rules | observe 'stop: rules'
}

# With a small limit of memory: the kernel ends the agent, systemd starts it again, and the rules stay.
outgrow() {
  show MemoryMax | observe 'outgrow: limit'
  systemctl start slicewire.service
  rules | cksum | observe 'outgrow: rules before'
  systemctl set-property --runtime slicewire.service MemoryMax=24M
  ended() { journalctl -u slicewire.service _PID=1 -o cat --no-pager | grep -q "result 'oom-kill'"; }
  until_so ended
  rules | cksum | observe 'outgrow: rules meanwhile'
  systemctl set-property --runtime slicewire.service MemoryMax=1536M
  until_so is ActiveState=active
  rules | cksum | observe 'outgrow: rules'
  systemctl stop slicewire.service
}

# With settings of connection tracking as well: they are written to the kernel, and its table is too small for them.
start_ipvs() {
  flags --mode=ipvs
  echo 16384 >/sys/module/nf_conntrack/parameters/hashsize
  start ipvs
  ipvsadm -Ln | observe 'ipvs: servers'
  cat /proc/sys/net/netfilter/nf_conntrack_max /sys/module/nf_conntrack/parameters/hashsize | observe 'ipvs: table'
}

trap 'journalctl -u slicewire.service -o cat --no-pager | observe journal' EXIT
install_it
start start
ping
hang
reload
killed
stop
outgrow
start_ipvs
