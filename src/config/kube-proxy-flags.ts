/**
 * Flags of kube-proxy that have no effect in slicewire, and those that are deprecated. Both are accepted, so that a
 * command line of kube-proxy works unchanged, and a warning names them.
 */
interface IdleFlag {
  readonly name: string;
  /** Why the flag has no effect. */
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

/** Those of kube-proxy 1.37 (k8s.io/kubernetes, cmd/kube-proxy/app/options.go), with the flag that takes their place. They work. */
export const DEPRECATED_FLAGS: readonly { readonly name: string; readonly instead: string }[] = [
  { name: 'healthz-port', instead: 'healthz-bind-address' },
  { name: 'metrics-port', instead: 'metrics-bind-address' },
];
