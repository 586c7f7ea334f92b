/**
 * Flags of kube-proxy (reference 1.5) that slicewire understands but does not act on. They are accepted, so that a
 * command line of kube-proxy works as it stands, and named in a warning, so that nobody takes them for effective.
 */
interface IdleFlag {
  readonly name: string;
  /** Why nothing follows from it. */
  readonly why: string;
}

const flags = (why: string, ...names: string[]): IdleFlag[] => names.map((name) => ({ name, why }));

export const IDLE_FLAGS: readonly IdleFlag[] = [
  ...flags('slicewire has no hidden metrics', 'show-hidden-metrics-for-version'),
  ...flags('the agent sends only a few requests a minute', 'kube-api-qps', 'kube-api-burst'),
  ...flags('changes arrive through watches', 'config-sync-period'),
  ...flags(
    'log lines are written immediately, in one format',
    'log-flush-frequency',
    'vmodule',
    'log-text-split-stream',
    'log-text-info-buffer-size',
    'log-json-split-stream',
    'log-json-info-buffer-size',
  ),
  ...flags('nothing reads it', 'boot-id-file', 'machine-id-file'),
  ...flags(
    'it is for Windows only',
    'windows-service',
    'source-vip',
    'network-name',
    'enable-dsr',
    'root-hnsendpoint-name',
    'forward-healthcheck-vip',
  ),
];
