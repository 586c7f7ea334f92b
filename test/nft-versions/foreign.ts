/**
 * Tables of other programs with what the newest nft and kernels know. Each is loaded by itself, because a kernel may lack one. Their names
 * are those of their subjects, and one has slicewire's name in a family of its own.
 */
export const FOREIGN: Readonly<Record<string, string>> = {
  'typeof maps': `table inet typeofs {
  map pool { typeof ip saddr . th dport : ip daddr . th dport; flags interval; elements = { 10.0.0.0/8 . 1-1024 : 192.0.2.1 . 80 }; }
  map marks { typeof iifname . meta mark : meta priority; elements = { "eth0" . 0x1 : 1:2 }; }
  set cts { typeof ct original ip saddr . ct mark; size 128; flags dynamic,timeout; timeout 1m; }
  chain c { type filter hook prerouting priority -150; meta l4proto sctp add @cts { ct original ip saddr . ct mark }; }
}`,
  'ranges in concatenations': `table ip concatenations {
  set s { type ipv4_addr . inet_proto . inet_service; flags interval; auto-merge; elements = { 10.1.0.0/16 . tcp . 1-65535, 10.2.0.1-10.2.0.9 . udp . 53 }; }
  map v { type ipv4_addr . inet_service : verdict; flags interval; counter; elements = { 10.0.0.0/8 . 22 counter : accept, 10.0.0.0/8 . 80-90 counter : drop }; }
  chain c { type filter hook input priority 1; ip saddr . meta l4proto . th dport @s counter; ip saddr . tcp dport vmap @v; }
}`,
  times: `table inet times {
  chain c { type filter hook input priority 2; meta time "2030-01-01 00:00:00"-"2030-12-31 00:00:00" counter; meta hour "08:00"-"17:00" meta day { "Monday", "Friday" } counter; last; }
}`,
  synproxy: `table ip synproxies {
  synproxy main { mss 1460; wscale 7; timestamp sack-perm; }
  chain c { type filter hook input priority 3; tcp dport 9080 ct state invalid,untracked synproxy name "main"; }
}`,
  'objects of connections': `table inet connections {
  ct helper ftp { type "ftp" protocol tcp; }
  ct timeout short { protocol tcp; l3proto ip; policy = { established: 5m, close: 20s }; }
  ct expectation e { protocol tcp; dport 9876; timeout 1m; size 8; l3proto ip; }
  chain c { type filter hook prerouting priority 4; tcp dport 2121 ct helper set "ftp"; tcp dport 2122 ct timeout set "short"; }
}`,
  'a helper of connections': `table inet helpers {
  ct timeout short { protocol udp; l3proto ip; policy = { unreplied: 10s, replied: 1m }; }
}`,
  flowtables: `table inet offloads {
  flowtable f { hook ingress priority 0; devices = { "lo" }; counter; }
  chain c { type filter hook forward priority 5; meta l4proto { tcp, udp } flow add @f; }
}`,
  'hooks of devices': `table netdev own-devices {
  chain in { type filter hook ingress device "lo" priority 0; ip ttl 0 drop; }
  chain out { type filter hook egress device "lo" priority 0; meta mark 0x99 counter; }
}`,
  'an ingress hook of inet': `table inet ingresses {
  chain c { type filter hook ingress device "lo" priority 6; udp dport 9999 counter; }
}`,
  'quotas, limits and counters': `table inet own-limits {
  quota q { over 10 mbytes }
  limit l { rate 400/minute burst 5 packets }
  counter n { }
  chain c { type filter hook output priority 7; quota name "q" drop; limit name "l"; counter name tcp dport map { 80 : "n" }; ct count over 20 counter; }
}`,
  'limits of connections': `table inet own-counts {
  set per { type ipv4_addr; size 1024; flags dynamic; }
  chain c { type filter hook input priority 8; tcp dport 9022 add @per { ip saddr ct count over 20 } drop; limit rate over 1 mbytes/second counter; }
}`,
  'inner headers': `table netdev inners {
  chain c { type filter hook ingress device "lo" priority 10; udp dport 4789 vxlan ip saddr 10.0.0.0/8 counter; udp dport 6081 geneve tcp dport 80 counter; }
}`,
  tunnels: `table netdev own-tunnels {
  tunnel t { id 10; ip saddr 192.168.2.10; ip daddr 192.168.2.11; sport 10; dport 20; ttl 10; }
}`,
  'routes and sockets': `table inet routes {
  chain p { type filter hook prerouting priority mangle; fib saddr . iif oif missing counter; socket transparent 1 meta mark set 0x1 accept; rt ip nexthop 192.0.2.1 counter; }
  chain q { type filter hook output priority mangle; ct status dnat counter; tcp option maxseg size set rt mtu; }
}`,
  'headers of every kind': `table inet headers {
  chain c { type filter hook forward priority 9; sctp chunk init exists counter; ip6 nexthdr ipv6-icmp icmpv6 type nd-neighbor-solicit counter; tcp option sack0 left 1 counter; ip option rr exists counter; @th,160,16 0x1234 counter; }
}`,
  hashes: `table ip hashes {
  map m { type mark : ipv4_addr; elements = { 0 : 192.0.2.1, 1 : 192.0.2.2 }; }
  chain c { type nat hook prerouting priority dstnat + 5; tcp dport 9090 dnat to jhash ip saddr . tcp sport mod 2 seed 0xdeadbeef map @m; udp dport 9091 redirect to :9092; }
}`,
  bridges: `table bridge bridges {
  chain c { type filter hook forward priority 0; ether type vlan vlan id 5 counter; ether type arp arp operation request counter; }
}`,
  arp: `table arp arps {
  chain c { type filter hook input priority 0; arp saddr ip 192.0.2.1 counter; }
}`,
  'another table of our name': `table inet slicewire {
  comment "not of slicewire"
  map services { type ipv4_addr . inet_proto . inet_service : verdict; elements = { 10.96.0.10 . tcp . 80 : accept }; }
  chain services { type filter hook prerouting priority 20; ip daddr . meta l4proto . th dport vmap @services; }
}`,
  'a table of somebody who keeps it': `table ip keepers {
  flags persist, owner
}`,
};
