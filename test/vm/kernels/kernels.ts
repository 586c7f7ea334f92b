/** The kernels of `npm run test:kernels`: Debian's of several suites, from the oldest that it still has to the newest. */

export interface Kernel {
  readonly name: string;
  /** Of Debian. */
  readonly suite: string;
  /** Debian's word for the platform. */
  readonly architecture: 'amd64' | 'arm64';
}

export const KERNELS: readonly Kernel[] = [
  { name: '5.10', suite: 'bullseye', architecture: 'amd64' },
  { name: '6.1', suite: 'bookworm', architecture: 'amd64' },
  { name: '6.12', suite: 'bookworm-backports', architecture: 'amd64' },
  { name: 'newest', suite: 'sid', architecture: 'amd64' },
  { name: 'newest-arm64', suite: 'sid', architecture: 'arm64' },
];

/** The programs of the arm64 machine are of the suite that the tests are developed on. */
export const FILES_SUITE = 'bookworm';
export const FILES_PACKAGES = [
  'bash',
  'busybox-static',
  'conntrack',
  'coreutils',
  'dash',
  'findutils',
  'grep',
  'hostname',
  'ipset',
  'iproute2',
  'iptables',
  'ipvsadm',
  'kmod',
  'libatomic1',
  'libstdc++6',
  'mount',
  'nftables',
  'procps',
  'sed',
  'util-linux',
] as const;
