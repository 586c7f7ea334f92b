/** docs/reliability.md, from docs/reliability.json. `node test/reliability/main.ts` writes it again. */

import { table } from '../bench/text.ts';
import { historiesTable } from './histories.ts';
import type { RecordedTable, Results } from './recorded.ts';
import { soakLines } from './soak-page.ts';

export function page({
  soak,
  versions,
  simulator,
  prefixes,
  mutations,
  fuzz,
  kernels,
  stories,
  rivals,
}: Results): string {
  const sections = [
    HEAD,
    SIMULATOR,
    recorded(simulator && historiesTable(simulator)),
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
    STORIES,
    recorded(stories),
    RIVALS,
    recorded(rivals),
  ];
  return `${sections.join('\n\n')}\n`;
}

const NOTHING = 'Not recorded yet.';

function recorded(part: RecordedTable | undefined): string {
  if (part === undefined) return NOTHING;
  const { ranAt, machine, commit, command, text, head, rows } = part;
  const ran = `Recorded on ${ranAt.slice(0, 10)} by \`${command}\`. Commit ${commit}. Machine: ${machine}.`;
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
| [stories](#stories) | modes, kernel, packets, kube-proxy | the cluster behind the API server | \`npm run test:stories\`, \`npm run test:rivals\` |

The benchmarks measure speed ([benchmarks.md](benchmarks.md)).`;

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

The simulator found faults of these kinds in the agent. All are mended. Each fault has a test, and each kind has more tests than those named:

| kind | before | now | some of the tests |
| --- | --- | --- | --- |
| between two writes | Packets were dropped or refused for a moment although their Service was served before and after: in IPVS mode when a Service became local, got a load balancer or changed its type, and during takeovers. | Each packet meets the outcome of before or of after. [ipvs.md](ipvs.md) and [iptables.md](iptables.md) name the exceptions. | \`sim/tier/prefixes\`, \`proxy/modes/ipvs/policy-local\` |
| astray | Packets met an address that was no endpoint, or none any more: a node port of IPVS mode led to the cluster IP, and a takeover led to servers and rules that an interrupted one had left. | What an interrupted write may have left goes before anything leads to it. | \`sim/world/takeover-faults\`, \`proxy/modes/ipvs/faults\` |
| left for good | Chains, sets, servers or the device of a former mode or of kube-proxy stayed, or a takeover never ended. | Each object has a sign by which any later agent finds it, and the sign goes last. | \`sim/world/predecessor\`, \`sim/world/unserved-predecessor\`, \`sim/world/cleanup\` |
| removed too early | The rules of a former mode went although the new ones could not be written, or another program had removed these. | A predecessor is removed when a reading shows that the new rules stand. | \`proxy/modes/handover\`, \`proxy/modes/ipvs/blocked-rules\` |
| a restored etcd | After a restore of etcd the agent kept objects that never were, for good, or refused a Service for a moment. | A version that went back begins a new list for all kinds. [semantics.md](semantics.md) says what no client can know. | \`cluster/api/reflector\`, \`fleet/agent-state\` |
| a false yes | \`/programmed\` or \`/drained\` said yes for a family that the agent could not write, for a store that an agent had not seen, or while a notice of another program's write was not looked at yet. | A yes is about what is written, in each family that may have rules. A sync asks first what the notices tell. | \`sim/world/unserved-predecessor\`, \`fleet/answers\`, \`agent/kernel-watch\` |
| a failure taken for a fact | What could not be read once (a file, a setting, a table, a tool) counted as missing or empty, and often for good. | A failure is a failure. It is tried again, and what stands is kept. | \`sim/world/unserved\`, \`sim/world/reloads\`, \`sim/world/files\` |
| repaired late | What another program removed was repaired minutes later, or its order was not repaired. | A check that failed, or that came too early, is made again at once. | \`netns/drift\`, \`sim/world/takeover-faults\` |
| held up | A call that hung (a tool, a disk, a reading of all rules) held up what had nothing to do with it: a repair, a scrape, an explanation of now. | Each goes on beside the others, and no more than one of a kind hangs. | \`agent/kernel-watch\`, \`agent/metrics-feed\`, \`agent/recording/hung-disk\` |
| leaks | Sockets, timers or processes outlived a generation of the agent. | Each ends with its generation. | \`sim/tier/restarts\`, \`proxy/modes/families\` |
| the past | A torn recording, or a folder that failed once, ended the recording or the questions about it. | Each segment stands alone, and the folder is tried again. | \`agent/recording/record-folder-failures\` |`;

const PREFIXES = `### Between two writes

\`npm run sim -- --prefixes\` goes from one random state of one or two Services to another, in each mode and from mode to mode, and walks packets of
pods, of the node, of an endpoint and from outside through the kernel after each write that it sees as one.
A packet must meet the same as before the change, or the same as after it, and the end must be as [semantics.md](semantics.md) says. A minute of it is part of \`npm run test:sim\`.
\`npm run sim -- --all-pairs MODE\` goes both ways between all 391 states of one Service that differ in type, external address, policies, source ranges
and endpoints; it takes some hours.
nftables mode has no exception, iptables mode one, and IPVS mode those of [ipvs.md](ipvs.md).`;

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
- In the end, for a third of the time but at most half an hour, the agent runs without a restart, so that a leak can show.

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

The page says what was found. A probe that was lost or wrong counts, a difference that \`slicewire verify\` finds, and what cleanup leaves.
So do a write of another program that lasted for more than a second, or, where it removed all rules, for longer than the bare tool takes to
write them again (for 10,000 Services 3 s in nftables mode and 10 s in iptables mode, measured by \`npm run bench -- drift\`), a minute without health, \`verify\` that gave no answer,
and memory without restarts that grew by more than 5 %.

\`npm run soak -- --hours N\` runs it as root; \`npm run soak -- --help\` has the options.
A whole day, \`npm run soak -- --hours 24 --log FILE\`, is for a machine with four processors or more and nothing else to do: it has
1,400 restarts and 280 writes of other programs in 23 hours and a half, and then half an hour without.
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

const STORIES = `## Stories

A story of \`test/conformance/\` is about a rule of [semantics.md](semantics.md): it has objects, packets, and what must become of each packet ([conformance](reference/conformance.md)).
\`npm run test:kernel\` sends the packets of all stories in iptables and nftables mode, and \`npm run test:stories\` those in IPVS mode.`;

const RIVALS = `### Beside kube-proxy

\`npm run test:rivals -- --kube-proxy PATH\` gives the same objects to a real kube-proxy and sends the same packets.
A story that ends otherwise must say so and why, for the modes where it is so; [conformance](reference/conformance.md) repeats it.
A story that says so and ends alike fails, too, unless it says that chance decides.`;
