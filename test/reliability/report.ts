/** docs/reliability.md, from docs/reliability.json. `node test/reliability/main.ts` writes it again. */

import { table } from '../bench/text.ts';
import type { RecordedTable, Results } from './recorded.ts';
import { soakLines } from './soak-page.ts';

export function page({ soak, versions, simulator, prefixes, mutations, fuzz, kernels }: Results): string {
  const sections = [
    HEAD,
    SIMULATOR,
    recorded(simulator),
    PREFIXES,
    recorded(prefixes),
    MUTATIONS,
    recorded(mutations),
    FUZZ,
    recorded(fuzz),
    SOAK,
    soak === undefined ? NOTHING : soakLines(soak),
    VERSIONS,
    versions === undefined ? NOTHING : versionsLines(versions),
    KERNELS,
    recorded(kernels),
  ];
  return `${sections.join('\n\n')}\n`;
}

const NOTHING = 'Not recorded yet.';

function recorded(part: RecordedTable | undefined): string {
  if (part === undefined) return NOTHING;
  const { ranAt, machine, command, text, head, rows } = part;
  const ran = `Recorded on ${ranAt.slice(0, 10)} by \`${command}\`. Machine: ${machine}.`;
  return [[ran, ...text].join('\n'), ...(rows.length === 0 ? [] : [table(head, rows)])].join('\n\n');
}

const HERE = '`test/reliability/report.ts`';
const AGAIN = '`node test/reliability/main.ts`';

const HEAD = `# Reliability

The agent runs as root on every node, and Services work only while its rules are right.
This page says how slicewire is tested against faults, how to run these tests, and what they found.

The runners write this page and [its figures](reliability.json) when they are started with \`--record\`; do not edit it.
The text comes from ${HERE}, and ${AGAIN} writes the page again.

| test | what is real | what is simulated | command |
| --- | --- | --- | --- |
| [simulator](#simulator) | agent and controller | time, API server, kernel, files, processes, signals | \`npm run sim\` |
| [fuzzing](#fuzzing) | every decoder | its input | \`npm run fuzz\` |
| [soak](#soak) | agent, kernel, packets | the cluster behind the API server | \`npm run soak\` |
| [versions](#versions) | the same, of two versions in turn | the same | \`npm run versions\` |
| [kernels](#kernels) | agent, and kernels of several years and platforms, with packets | the machine | \`npm run test:kernels\` |

Other tests cover what these do not: the stories of \`test/conformance/\` send real packets through each rule of
[semantics.md](semantics.md), and the benchmarks measure speed ([benchmarks.md](benchmarks.md)).`;

function versionsLines({ former, found, tests = [] }: NonNullable<Results['versions']>): string {
  const apart = tests.map(({ name, isRight }) => `- ${isRight ? 'right' : '**wrong**'}: ${name}`);
  const one = apart.length === 0 ? '' : `One version apart:\n\n${apart.join('\n')}\n\n`;
  return `The earlier version: commit ${former}.\n\n${one}The soak:\n\n${soakLines(found)}`;
}

const SIMULATOR = `## Simulator

The simulator runs the real agent and the real controller in a world that is made of memory.
One seed gives one history, always the same.
Faults come at every call to the outside: the call fails before it works, or after it worked, it is slow, it is cut, or the agent is
killed at it and starts again.
The simulated kernel is spoken to in the bytes of netlink, so sends, answers and the parts of listings fail one by one.
After each commit of the simulated kernel a packet engine checks that no wanted frontend is refused, that no packet goes to an address
that is not its endpoint, and that what belongs to others is unchanged.

Some histories have more:

| share | what | what must hold beside the rest |
| --- | --- | --- |
| 30 % | the agent counts connections of each Service (\`--service-metrics\`), and its metrics are read | |
| 40 % of those with an API server | a program that writes an object asks \`/programmed\` whether it is in the kernel | after a yes no packet meets an older version |
| 20 % | a send to nftables takes 16 kB, so that few Services need several transactions | |
| 1 of 8 | kube-proxy served before the first agent, in one of its three modes, or an earlier version of the agent did | what kube-proxy served stays served, and nothing of either is left |
| 10 % | the agent looks for Nodes that do not answer (\`--failover=confirm\`), and Nodes fall silent | in the end all endpoints are used again |
| 1 of 8 | the machine stands still for up to a minute | |
| 10 % | \`--mode=auto\` | |
| 6 % | kube-proxy runs beside the agent for a while, in one of its three modes, and writes its rules again after each change | meanwhile nothing of others but kube-proxy changes; in the end packets are right, and nothing of kube-proxy is left |
| 15 % | the agent keeps its history on a disk (\`--record-dir\`), which is full for a while | in the end changes are recorded again, each recording can be read, and they take no more than they may |
| 20 % of those with an API server | the server has no HTTP/2: each watch has a connection of its own, which ends or falls silent without the others | |
| 15 % | node ports on loopback, where the mode itself has none, are relayed by the agent | in the end each leads to an endpoint of its Service, and the agent listens on no other |
| 10 % of those with an API server | three nodes with an agent each, and a fleet that hooks of Pods ask (\`/drained\`) | after a yes no node sends a new connection to that Pod |

\`npm run sim\` runs histories for three minutes, \`npm run sim -- --hours 8\` for longer, and \`npm run sim -- --seed N\` repeats one.
A failing history is made shorter before it is printed. \`npm run sim -- --every-call\` puts each fault at each call of a short history.
As root, the writes of every 50th history are repeated by a real kernel, which must accept, refuse and list the same.

Its finds in the agent are mended, and each has a test:

- After a restore of etcd the agent could resume a watch from a version that was given out again, and keep objects that never were.
- A file of manifests that could not be read at the start counted as empty, and its Services were refused.
- One failure of an iptables tool at the start left an address family without rules for as long as the process ran.
- Facts of the machine that could not be read counted as missing: no IPv6, no legacy tables.
- In IPVS mode rules were replaced although servers could not be written; a cluster IP that changed its Service led to the wrong one.
- A changed configuration that could not be used once, because the API server was away, was never tried again.
- The order of our jumps in the built-in chains was not repaired.
- One slow reading of the kernel kept the agent from looking at the rules for half an hour.
- Sockets stayed open when another one could not be opened, and in nftables mode those that looked for a predecessor's rules.
- A mode that could not serve a family removed the rules by which its predecessor served it, and the device of IPVS mode with its addresses.
- A file of the configuration that was changed back within a tenth of a second after a SIGHUP was not followed any more.
- A mode that wrote for the first time while the next one was prepared was left in the kernel beside it.
- Rules that IPVS mode wrote before it was killed in the middle of its first write kept its sets, and the next mode was not healthy for good.
- \`/programmed\` and the fleet said yes for a family whose tools worked again, before the agent had written there.
- A changed configuration that could not be read once was never read again.
- In IPVS mode an address of the node that came was not served on node ports when nothing else changed.
- An agent that was killed while it tried a scheduler of IPVS left a server for ever.
- \`run --once\` in another mode than the agent's wrote its rules beside it, and they stayed.
- IPVS mode that took over led to endpoints which an interrupted takeover had left in its servers.
- A folder of manifests that was not followed any more had files read a second time.
- In a list after a restore of etcd an endpoint that had moved to another slice was in none for a moment, and its Service was refused.
- In IPVS mode packets of Services of policy Local were dropped for a moment while rules that another program had flushed were written again.
- An agent that lost the kernel's answer while it tried a scheduler of IPVS left a server for ever.
- A frontend that went after an interrupted takeover from IPVS mode was served by the servers of that mode for a moment.
- An agent that stood still while etcd was restored went on from a version that the restored store had not reached, and kept objects that never were.
- A takeover from an older kube-proxy in IPVS mode, which lacks the set of its addresses, never ended.
- Servers of a kube-proxy in IPVS mode stayed for ever when somebody had removed their address.
- \`/programmed\` and the fleet said yes in nftables mode while legacy rules of a former proxy, whose tool failed, led to endpoints that were gone.
- After a restore of etcd the fleet forgot what agents had said of the restored store, and said no until something changed;
  and it could believe an agent that had not seen the restore.
- An agent with a folder of manifests that waited for a file at its start served again what had gone meanwhile, for a fifth of a second.
- \`/programmed\` said yes of a deleted slice while its family was not served, and rules of a former proxy led to its endpoints.
- An address of IPVS mode that came back led to servers that an interrupted sync had left, until they were removed.
- iptables mode that took over from IPVS mode led for a moment to endpoints of a Service that had none any more.
- After a failed call in the middle of a listing the kernel refused the agent each further listing over that socket, and so each reading of its table.
- Jumps that two agents had written at the same time stayed, and kept the rules of a former mode.
- A mode removed its predecessor although another program had flushed the new rules meanwhile.
- \`--mode=auto\` chose iptables mode on a node where IPVS mode had been killed within its first write.
- A recording whose writer was killed at its first bytes made questions about the past fail.
- A folder of \`--record-dir\` that could not be looked at once was never used again.
- A takeover never ended where kube-proxy, which still ran, wrote its rules again while its sets were removed.
- Servers that such a kube-proxy wrote again after a removal that was put off lost their sets, and one without its address stayed for ever.`;

const PREFIXES = `### Between two writes

\`npm run sim -- --prefixes\` goes from one random state of one or two Services to another, in each mode and from mode to mode, and walks packets of
pods, of the node, of an endpoint and from outside through the kernel after each write that it sees as one.
A packet must meet the same as before the change, or the same as after it, and the end must be as [semantics.md](semantics.md) says. A minute of it is part of \`npm run test:sim\`.
\`npm run sim -- --all-pairs MODE\` goes both ways between all 391 states of one Service that differ in type, external address, policies, source ranges
and endpoints; it takes some hours.
nftables mode has no exception, iptables mode one, and IPVS mode those of [ipvs.md](ipvs.md).

It found, and these are mended: new endpoints of a Service with ClientIP affinity were reached by its former addresses (nftables);
packets of a Service of IPVS mode were dropped, went to endpoints of other nodes without masquerading, or to local endpoints alone, while its policy
changed; clients in the source ranges were dropped, and the node passed them, while iptables mode took over from IPVS mode.`;

const MUTATIONS = `### Does it find faults?

A test that never fails proves nothing.
So the code was broken on purpose, in one place at a time, and a history of the simulator, or the test that is named, had to find it.`;

const FUZZ = `## Fuzzing

The agent reads what others wrote: objects, files, answers of the kernel, text of tools, requests.
Each decoder gets inputs that were made from recorded ones by changing them.
An input must not crash it, keep it busy for more than a second, make it grow by more than 200 MB, or make it return something outside
the type that it declares.

\`npm run fuzz -- --target X\` runs one decoder; a short run of all is part of \`npm run test:long\`.`;

const SOAK = `## Soak

The soak runs the agent for hours on a real kernel, in a node made of network namespaces, and disturbs it:

- An API server in another process has the Services, and changes them all the time: endpoints are replaced, added and removed,
  Services lose all endpoints, get another port, are deleted and come back.
- The agent is restarted once a minute, by SIGTERM and by SIGKILL in turn. It starts again after a second, as under systemd.
- Another program removes rules every five minutes: \`nft\` and \`iptables\` flush chains, delete single rules and elements, and delete
  the whole table.
- nftables mode and iptables mode (nft variant) have a quarter of the time each, in turn. The mode changes in the running agent, by its
  configuration file, and once by a restart.
- In the end the agent runs for a sixth of the time without a restart, so that a leak can show.

Meanwhile probes open TCP connections and ask UDP questions, from a pod to cluster IPs and from outside to a node port.
They ask Services that nobody changes, and one whose endpoints move every two seconds.
Two UDP clients keep their port, as some resolvers do, and two TCP clients ask all their questions over one connection.
An endpoint answers with its own address.
A probe is *lost* when no answer comes within five seconds; the clients never ask twice. A connection that breaks is lost too.
It is *wrong* when an address answers that is no endpoint of that Service, or has been none for 30 seconds in which an agent worked.
A question of a client that keeps its port is *cut* when it was on its way while the agent deleted its flow, because the endpoint left:
the answer comes from an address that the client did not ask. The next question must be answered, by another endpoint.
A probe that was asked while the rules of another program's write were not repaired counts apart;
for clients that keep their port, the time until the next sweep of stale flows belongs to it, at most five seconds.

\`npm run soak -- --hours N\` runs it as root, for a sixth longer than N hours; \`npm run soak -- --help\` has the options.
At the end \`slicewire cleanup\` must leave no rule but those of KUBE-FIREWALL, which the kubelet uses too.
The soak removes everything that it made, also after Ctrl-C.
A soak of a minute is part of \`npm run test:kernel\`.`;

const VERSIONS = `## Versions

\`npm run versions -- --from COMMIT\` builds the executable of an earlier commit, and runs a soak of ten minutes in which the two versions
follow each other: every ten seconds the agent ends, and one of the other version starts, in both modes.
The last sixth of the time belongs to one agent. Further [tests](../test/versions/one-apart.vm.ts) cover IPVS mode, recordings and fleets.
They run in a virtual machine where this machine's kernel has no IPVS.`;

const KERNELS = `## Kernels

\`npm run test:kernels\` starts a virtual machine for each of several kernels of Debian, from the oldest that Debian still has to the newest, and one of arm64.
In each mode it sends packets for the stories that another kernel could fail, and runs the agent:
\`run\`, \`explain\`, \`verify\`, a restart with nothing to do, and \`cleanup\`.

It found, and this is mended: on a node whose kernel had not loaded conntrack before the agent started, the settings of conntrack stayed as they were.`;
