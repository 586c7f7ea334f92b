/** What the tests of constants and layouts share: native/abi-probe.c prints those of the C headers. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import * as conntrack from '../../native/conntrack.ts';
import * as errno from '../../native/errno.ts';
import * as generic from '../../native/generic.ts';
import * as ipset from '../../native/ipset.ts';
import * as ipvs from '../../native/ipvs.ts';
import * as ipvsStatistics from '../../native/ipvs-statistics.ts';
import * as libc from '../../native/libc.ts';
import * as netlink from '../../native/netlink.ts';
import * as netlinkSocket from '../../native/netlink-socket.ts';
import * as networkNamespace from '../../native/network-namespace.ts';
import * as nfnetlink from '../../native/nfnetlink.ts';
import * as nft from '../../native/nft/constants.ts';
import * as nftables from '../../native/nftables.ts';
import * as rtnetlink from '../../native/rtnetlink.ts';
import * as xtables from '../../native/xtables.ts';
import { realCommands } from '../../src/kernel/commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const PROBE = fileURLToPath(new URL('../../native/abi-probe.c', import.meta.url));

/** Offsets and sizes that the code writes as numbers. */
const LAYOUTS: Readonly<Record<string, number>> = {
  'struct sockaddr_un.sun_path': 2,
  'sizeof struct sockaddr_nl': 12,
  'sizeof struct ucred': libc.UCRED,
  'struct ucred.pid': 0,
  'struct ucred.uid': 4,
  'struct sockaddr_nl.nl_pid': 4,
  'sizeof struct sockaddr_in': libc.SOCKADDR_IN,
  'struct sockaddr_in.sin_port': 2,
  'struct sockaddr_in.sin_addr': 4,
  'sizeof struct sockaddr_in6': libc.SOCKADDR_IN6,
  'struct sockaddr_in6.sin6_port': 2,
  'struct sockaddr_in6.sin6_addr': 8,
  'sizeof struct nlmsghdr': netlink.HEADER_LENGTH,
  'struct nlmsghdr.nlmsg_type': 4,
  'struct nlmsghdr.nlmsg_flags': 6,
  'struct nlmsghdr.nlmsg_seq': 8,
  'sizeof struct nlattr': netlink.ATTRIBUTE_HEADER,
  'struct nlattr.nla_type': 2,
  'struct nlmsgerr.msg': 4,
  'sizeof struct nfgenmsg': nfnetlink.NFGENMSG,
  'sizeof struct genlmsghdr': generic.GENERIC_HEADER,
  'struct genlmsghdr.version': 1,
  'sizeof struct ifinfomsg': rtnetlink.IFINFOMSG,
  'struct ifinfomsg.ifi_index': 4,
  'struct ifinfomsg.ifi_flags': 8,
  'struct ifinfomsg.ifi_change': 12,
  'sizeof struct ifaddrmsg': rtnetlink.IFADDRMSG,
  'sizeof struct rtmsg': rtnetlink.RTMSG,
  'struct rtmsg.rtm_table': 4,
  'struct rtmsg.rtm_protocol': 5,
  'struct rtmsg.rtm_scope': 6,
  'struct rtmsg.rtm_type': 7,
  'struct ifaddrmsg.ifa_prefixlen': 1,
  'struct ifaddrmsg.ifa_scope': 3,
  'struct ifaddrmsg.ifa_index': 4,
  'sizeof union nf_inet_addr': ipvs.INET_ADDRESS,
  'sizeof struct ip_vs_flags': 8,
  'struct ip_vs_flags.mask': 4,
  'sizeof struct ipt_getinfo': xtables.TABLE_INFO,
  'sizeof struct ip6t_getinfo': xtables.TABLE_INFO,
  'struct ipt_getinfo.valid_hooks': xtables.XT_TABLE_MAXNAMELEN,
  'struct ip6t_getinfo.valid_hooks': xtables.XT_TABLE_MAXNAMELEN,
  'struct ipt_getinfo.num_entries': xtables.TABLE_INFO_ENTRIES,
  'struct ip6t_getinfo.num_entries': xtables.TABLE_INFO_ENTRIES,
};

const OURS: Readonly<Record<string, unknown>> = {
  ...errno,
  ...libc,
  ...netlink,
  ...netlinkSocket,
  ...networkNamespace,
  ...nfnetlink,
  ...conntrack,
  ...generic,
  ...rtnetlink,
  ...ipvs,
  ...ipvsStatistics,
  ...ipset,
  ...nftables,
  ...nft,
  ...xtables,
};

/**
 * Declares the tests of one architecture. `compiler`: a C compiler for it. `emulator`: the words before one of its programs.
 */
export function describeHeaders(name: string, compiler: string, emulator: () => readonly string[]): void {
  describe(name, () => {
    let folder: string;
    let said: Record<string, number>;
    before(async () => {
      folder = await mkdtemp(join(tmpdir(), 'slicewire-abi-'));
      const program = join(folder, 'probe');
      const built = await realCommands.run({ file: compiler, args: ['-Wall', '-Werror', '-o', program, PROBE] }, NEVER);
      assert.equal(built.exitCode, 0, built.stderr);
      said = JSON.parse(
        (await realCommands.run({ file: 'env', args: [...emulator(), program] }, NEVER)).stdout,
      ) as Record<string, number>;
    });
    after(() => rm(folder, { recursive: true }));

    it('knows every layout that the probe prints', () => {
      const printed = Object.entries(said).filter(([name]) => name.includes(' '));
      assert.deepEqual(Object.fromEntries(printed), LAYOUTS);
    });

    it('has every constant that the probe prints, with its value', () => {
      const printed = Object.entries(said).filter(([name]) => !name.includes(' '));
      assert.ok(printed.length > 40);
      for (const [name, value] of printed) assert.equal(OURS[name], value, name);
    });

    it('exports no number that the probe does not print, apart from sizes of its own', () => {
      const own = new Set(['HEADER_LENGTH', 'ATTRIBUTE_HEADER', 'NFGENMSG', 'MAX_REQUESTS']);
      for (const size of [
        'GENERIC_HEADER',
        'IFINFOMSG',
        'IFADDRMSG',
        'RTMSG',
        'INET_ADDRESS',
        'TABLE_INFO',
        'TABLE_INFO_ENTRIES',
        'SOCKADDR_IN',
        'SOCKADDR_IN6',
        'UCRED',
      ])
        own.add(size);
      const missing = Object.entries(OURS).filter(
        ([name, value]) => typeof value === 'number' && !own.has(name) && !(name in said),
      );
      assert.deepEqual(missing, []);
    });
  });
}
