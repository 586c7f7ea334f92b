/**
 * Flags of kube-proxy (docs/semantics.md 10.5) that slicewire understands but does not act on. They are accepted, so that a
 * command line of kube-proxy works as it stands, and named in a warning, so that nobody takes them for effective.
 */
interface IdleFlag {
  readonly name: string;
  /** Why nothing follows from it. */
  readonly why: string;
}

const flags = (why: string, ...names: string[]): IdleFlag[] => names.map((name) => ({ name, why }));

export const IDLE_FLAGS: readonly IdleFlag[] = [
  ...flags('there are no hidden metrics', 'show-hidden-metrics-for-version'),
  ...flags('requests are a few a minute', 'kube-api-qps', 'kube-api-burst'),
  ...flags('changes come by watch', 'config-sync-period'),
  ...flags(
    'the log is written at once, as lines of one form',
    'log-flush-frequency',
    'vmodule',
    'log-text-split-stream',
    'log-text-info-buffer-size',
    'log-json-split-stream',
    'log-json-info-buffer-size',
  ),
  ...flags('it is read by nothing', 'boot-id-file', 'machine-id-file'),
  ...flags(
    'it belongs to Windows',
    'windows-service',
    'source-vip',
    'network-name',
    'enable-dsr',
    'root-hnsendpoint-name',
    'forward-healthcheck-vip',
  ),
];
