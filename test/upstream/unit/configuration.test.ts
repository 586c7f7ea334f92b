/** A KubeProxyConfiguration is right or wrong, as the tables of kube-proxy's validation have it; rows have their names. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { API_VERSION } from '../../../src/config/config-file.ts';
import { ConfigError } from '../../../src/config/flags.ts';
import { configFromFlags } from '../../../src/config/from-flags.ts';
import { flagsFromText } from '../../helpers/cluster/documents/documents.ts';

type Fields = Readonly<Record<string, unknown>>;
/** Fields, and what is wrong with them: a field and a value that the message names. Nothing: they are right. */
type Row = readonly [fields: Fields, ...wrong: string[]];

const BASE: Fields = {
  bindAddress: '192.168.59.103',
  healthzBindAddress: '0.0.0.0:10256',
  metricsBindAddress: '127.0.0.1:10249',
  detectLocalMode: 'ClusterCIDR',
  clusterCIDR: '192.168.59.0/24',
  configSyncPeriod: '1s',
  iptables: { masqueradeAll: true, syncPeriod: '5s', minSyncPeriod: '2s' },
  conntrack: { maxPerCore: 1, min: 1, tcpEstablishedTimeout: '5s', tcpCloseWaitTimeout: '5s' },
  logging: { format: 'text' },
};
const addresses = (...nodePortAddresses: string[]): Fields => ({ nodePortAddresses });
const excluded = (...excludeCIDRs: string[]): Fields => ({ mode: 'ipvs', ipvs: { excludeCIDRs } });
const health = (healthzBindAddress: string): Fields => ({ healthzBindAddress });
const conntrack = (fields: Fields): Fields => ({ conntrack: { maxPerCore: 1, min: 1, ...fields } });

const CIDRS: Readonly<Record<string, readonly string[]>> = {
  'valid 1': ['127.0.0.0/8'],
  'valid 2': ['0.0.0.0/0'],
  'valid 3': ['::/0'],
  'valid 4': ['127.0.0.1/32', '1.2.3.0/24'],
  'valid 5': ['127.0.0.1/32'],
  'valid 6': ['::1/128'],
  'valid 7': ['1.2.3.4/32'],
  'valid 8': ['10.20.30.0/24'],
  'valid 9': ['10.20.0.0/16', '100.200.0.0/16'],
  'valid 10': ['10.0.0.0/8'],
  'valid 11': ['2001:db8::/32'],
};
const WRONG_CIDRS: Readonly<Record<string, readonly [all: readonly string[], wrong: string]>> = {
  'invalid foo address': [['foo'], 'foo'],
  'invalid octet address': [['10.0.0.0/0', '1.2.3'], '1.2.3'],
  'address cannot be 0': [['127.0.0.1/32', '0', '1.2.3.0/24'], '0'],
  'address missing subnet range': [['127.0.0.1/32', '10.20.30.40', '1.2.3.0/24'], '10.20.30.40'],
  'missing ipv6 subnet ranges': [['::0', '::1', '2001:db8::/32'], '::0'],
  'invalid ipv6 ip format': [['::1/128', '2001:db8::/32', '2001:db8:xyz/64'], '2001:db8:xyz/64'],
};

/** The rows of a list of CIDRs in a field. */
function cidrRows(field: string, of: (...cidrs: string[]) => Fields): Record<string, Row> {
  const right = Object.entries(CIDRS).map(([title, cidrs]): [string, Row] => [title, [of(...cidrs)]]);
  const wrong = Object.entries(WRONG_CIDRS).map(([title, [cidrs, bad]]): [string, Row] => [
    title,
    [of(...cidrs), field, bad],
  ]);
  return Object.fromEntries([...right, ...wrong]);
}

const TABLES: Readonly<Record<string, Readonly<Record<string, Row>>>> = {
  TestValidateKubeProxyConfiguration: {
    'basic config, unspecified Mode': [{}],
    'Mode specified, extra mode-specific configs': [{ mode: 'ipvs' }],
    'empty HealthzBindAddress': [health('')],
    IPv6: [
      {
        bindAddress: 'fd00:192:168:59::103',
        healthzBindAddress: '',
        metricsBindAddress: '[::1]:10249',
        clusterCIDR: 'fd00:192:168:59::/64',
      },
    ],
    'alternate healthz port': [health('0.0.0.0:12345')],
    'ClusterCIDR is wrong IP family': [{ clusterCIDR: 'fd00:192:168:59::/64' }],
    'ClusterCIDR is dual-stack': [{ clusterCIDR: '192.168.59.0/24,fd00:192:168::/64' }],
    LocalModeInterfaceNamePrefix: [
      { detectLocalMode: 'InterfaceNamePrefix', detectLocal: { interfaceNamePrefix: 'vethabcde' } },
    ],
    LocalModeBridgeInterface: [{ detectLocalMode: 'BridgeInterface', detectLocal: { bridgeInterface: 'avz' } }],
    'invalid BindAddress': [{ bindAddress: '10.10.12.11:2000' }, 'bindAddress', '10.10.12.11:2000'],
    'ConfigSyncPeriod must be > 0': [{ configSyncPeriod: '-1s' }, 'configSyncPeriod', '-1s'],
    'SyncPeriod must be > 0': [{ iptables: { syncPeriod: '-5s', minSyncPeriod: '2s' } }, 'iptables.syncPeriod', '-5s'],
    'MinSyncPeriod must be > 0': [{ iptables: { syncPeriod: '5s', minSyncPeriod: '-2s' } }, 'minSyncPeriod', '-2s'],
    'SyncPeriod must be >= MinSyncPeriod': [
      { iptables: { syncPeriod: '1s', minSyncPeriod: '5s' } },
      'iptables.minSyncPeriod',
      '5s',
    ],
    'invalid DetectLocalMode': [{ detectLocalMode: 'Guess' }, 'detectLocalMode', 'Guess'],
    'invalid logging format': [{ logging: { format: 'unsupported format' } }, 'logging.format', 'unsupported format'],
  },
  TestValidateKubeProxyIPTablesConfiguration: {
    'valid custom MasqueradeBit': [{ iptables: { masqueradeBit: 5 } }],
    'MasqueradeBit cannot be < 0': [{ iptables: { masqueradeBit: -10 } }, 'iptables.masqueradeBit', '-10'],
  },
  TestValidateKubeProxyIPVSConfiguration: {
    'IPVS Timeout can be 0': [{ mode: 'ipvs', ipvs: { tcpTimeout: '0s', tcpFinTimeout: '0s', udpTimeout: '0s' } }],
    'IPVS Timeout > 0': [{ mode: 'ipvs', ipvs: { tcpTimeout: '1s', tcpFinTimeout: '2s', udpTimeout: '3s' } }],
    'TCP,TCPFin,UDP Timeouts < 0': [
      { mode: 'ipvs', ipvs: { tcpTimeout: '-1s', tcpFinTimeout: '-1s', udpTimeout: '-1s' } },
      ...['ipvs.tcpTimeout', 'ipvs.tcpFinTimeout', 'ipvs.udpTimeout'],
    ],
  },
  TestValidateKubeProxyLinuxConfiguration: {
    'valid 5 second timeouts': [
      conntrack({ tcpEstablishedTimeout: '5s', tcpCloseWaitTimeout: '5s', udpTimeout: '5s', udpStreamTimeout: '5s' }),
    ],
    'valid duration equal to 0 second timeout': [
      conntrack({ tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s', udpTimeout: '0s', udpStreamTimeout: '0s' }),
    ],
    'invalid MaxPerCore < 0': [conntrack({ maxPerCore: -1 }), 'conntrack.maxPerCore', '-1'],
    'invalid minimum < 0': [conntrack({ min: -1 }), 'conntrack.min', '-1'],
    'invalid TCPEstablishedTimeout < 0': [
      conntrack({ tcpEstablishedTimeout: '-5s' }),
      'conntrack.tcpEstablishedTimeout',
      '-5s',
    ],
    'invalid TCPCloseWaitTimeout < 0': [
      conntrack({ tcpCloseWaitTimeout: '-5s' }),
      'conntrack.tcpCloseWaitTimeout',
      '-5s',
    ],
    'invalid UDPTimeout < 0': [conntrack({ udpTimeout: '-5s' }), 'conntrack.udpTimeout', '-5s'],
    'invalid UDPStreamTimeout < 0': [conntrack({ udpStreamTimeout: '-5s' }), 'conntrack.udpStreamTimeout', '-5s'],
    'invalid OOMScoreAdj < -1000': [{ oomScoreAdj: -1001 }, 'oomScoreAdj', '-1001'],
    'invalid OOMScoreAdj > 1000': [{ oomScoreAdj: 1001 }, 'oomScoreAdj', '1001'],
  },
  TestValidateClientConnectionConfiguration: {
    'successful 0 value': [{ clientConnection: { burst: 0 } }],
    'successful 5 value': [{ clientConnection: { burst: 5 } }],
    'burst < 0': [{ clientConnection: { burst: -5 } }, 'clientConnection.burst', '-5'],
  },
  TestValidateHostPort: {
    'all IPs': [health('0.0.0.0:10256')],
    localhost: [health('127.0.0.1:10256')],
    'specific IP': [health('10.10.10.10:10256')],
    'digits outside of 1-255': [health('123.456.789.10:12345'), 'healthzBindAddress', '123.456.789.10'],
    'invalid named-port': [health('10.10.10.10:foo'), 'healthzBindAddress', 'foo'],
    'port cannot be 0': [health('10.10.10.10:0'), 'healthzBindAddress', '10.10.10.10:0'],
    'port is greater than allowed range': [health('10.10.10.10:65536'), 'healthzBindAddress', '65536'],
  },
  TestValidateKubeProxyNodePortAddress: {
    'no addresses': [addresses()],
    ...cidrRows('nodePortAddresses', addresses),
    primary: [addresses('primary')],
  },
  TestValidateKubeProxyExcludeCIDRs: { 'no cidrs': [excluded()], ...cidrRows('ipvs.excludeCIDRs', excluded) },
  TestValidateDetectLocalConfiguration: {
    'interfacePrefix is empty': [
      { detectLocalMode: 'InterfaceNamePrefix', detectLocal: { interfaceNamePrefix: '' } },
      'detectLocal.interfaceNamePrefix',
    ],
    'bridgeInterfaceName is empty': [
      { detectLocalMode: 'BridgeInterface', detectLocal: { interfaceNamePrefix: 'eth0' } },
      'detectLocal.bridgeInterface',
    ],
    'invalid number of cluster cidrs': [
      { clusterCIDR: '192.168.59.0/24,fd00:192:168::/64,10.0.0.0/16' },
      'clusterCIDR',
      '10.0.0.0/16',
    ],
    'invalid cluster cidr': [{ clusterCIDR: '192.168.59.0' }, 'clusterCIDR', '192.168.59.0'],
    'empty cluster cidrs with cluster cidr mode': [{ clusterCIDR: '' }],
  },
  TestValidateDualStackCIDRStrings: {
    'single ipv4 cidr': [{ clusterCIDR: '192.168.0.0/16' }],
    'single ipv6 cidr': [{ clusterCIDR: 'fd00:10:96::/112' }],
    'dual stack cidr pair': [{ clusterCIDR: '172.16.200.0/24,fde4:8dba:82e1::/48' }],
    'multiple ipv4 cidrs': [{ clusterCIDR: '10.100.0.0/16,192.168.0.0/16,fde4:8dba:82e1::/48' }, 'clusterCIDR'],
    'multiple ipv6 cidrs': [{ clusterCIDR: 'fd00:10:96::/112,fde4:8dba:82e1::/48' }, 'clusterCIDR'],
    'malformed ipv4 cidr': [{ clusterCIDR: 'fde4:8dba:82e1::/48,172.16.200.0:24' }, 'clusterCIDR', '172.16.200.0:24'],
    'malformed ipv6 cidr': [{ clusterCIDR: 'fd00:10:96::,192.168.0.0/16' }, 'clusterCIDR', 'fd00:10:96::'],
  },
};

function read(fields: Fields): unknown {
  const text = JSON.stringify({ apiVersion: API_VERSION, kind: 'KubeProxyConfiguration', ...BASE, ...fields });
  const { flags, origins } = flagsFromText(text, {});
  return configFromFlags(flags, { origins, file: 'config.conf' });
}

for (const [table, rows] of Object.entries(TABLES)) {
  describe(table, () => {
    for (const [title, [fields, ...wrong]] of Object.entries(rows)) {
      it(title, () => {
        if (wrong.length === 0) {
          assert.ok(read(fields));
          return;
        }
        const namesAll = (error: unknown) =>
          error instanceof ConfigError && wrong.every((words) => error.message.includes(words));
        assert.throws(() => read(fields), namesAll);
      });
    }
  });
}
