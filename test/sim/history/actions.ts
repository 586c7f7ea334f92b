/** What happens around the agent in a history, as data: a history can be repeated, printed and made shorter. */

/** The kinds of objects that actors change. */
export type ObjectKind = 'services' | 'slices' | 'nodes' | 'pods';

export type SimMode = 'nftables' | 'iptables' | 'ipvs';

/** The proxy that served before the first agent: a kube-proxy in this mode, or an earlier version of the agent in nftables mode. */
export type Predecessor = SimMode | 'earlier version';

/** The settings of the file that --config names. */
export interface Settings {
  readonly mode: SimMode;
  readonly syncPeriod: number;
  readonly minSyncPeriod: number;
  readonly nodePortAddresses: readonly string[];
  readonly masqueradeAll: boolean;
}

/** Somebody else writes to the kernel. `variant` chooses the object. */
export type ForeignWrite =
  | 'flush-chain'
  | 'delete-rule'
  | 'delete-element'
  | 'delete-chain'
  | 'delete-table'
  | 'flush-nat'
  | 'own-rule'
  | 'hold-lock'
  | 'remove-address'
  | 'remove-server';

export type Action =
  | { readonly kind: 'put'; readonly of: ObjectKind; readonly object: object }
  | { readonly kind: 'delete'; readonly of: ObjectKind; readonly name: string }
  | {
      readonly kind: 'api';
      /** `go-back`: etcd is restored to an earlier version. `forget`: deletions happen while no watch can tell. */
      readonly what: 'go-silent' | 'reset' | 'go-down' | 'come-up' | 'go-back' | 'compact' | 'expire';
    }
  | { readonly kind: 'agent'; readonly what: 'restart' | 'kill' | 'cleanup' | 'hang-up' | 'second' | 'once' }
  | { readonly kind: 'configure'; readonly settings: Partial<Settings>; readonly isSignalled: boolean }
  | { readonly kind: 'foreign'; readonly what: ForeignWrite; readonly variant: number }
  | { readonly kind: 'address'; readonly address: string; readonly isThere: boolean }
  | { readonly kind: 'flows'; readonly variant: number }
  | { readonly kind: 'clock'; readonly by: number }
  /** Nothing on a Node answers from now on, also to probes; undefined: all do again. */
  | { readonly kind: 'silence'; readonly node: string | undefined }
  /** kube-proxy that runs beside the agent ends. */
  | { readonly kind: 'kube-proxy'; readonly what: 'end' }
  /** The disk of --record-dir takes no more, or does again. */
  | { readonly kind: 'disk'; readonly isFull: boolean }
  /** The machine stands still for so many milliseconds, as one that is suspended or moved. */
  | { readonly kind: 'freeze'; readonly milliseconds: number };

/** An action at a time, in milliseconds since the history began. */
export interface Step {
  readonly at: number;
  readonly action: Action;
}

/** One line for people. */
export function stepText({ at, action }: Step): string {
  return `${(at / 1000).toFixed(3).padStart(9)} s  ${actionText(action)}`;
}

export function actionText(action: Action): string {
  switch (action.kind) {
    case 'put':
      return `put ${action.of} ${JSON.stringify(action.object)}`;
    case 'delete':
      return `delete ${action.of} ${action.name}`;
    case 'configure':
      return `configure ${JSON.stringify(action.settings)}${action.isSignalled ? ' and SIGHUP' : ''}`;
    case 'foreign':
      return `another program: ${action.what} (${action.variant})`;
    case 'address':
      return `address ${action.address} ${action.isThere ? 'appears' : 'goes away'}`;
    case 'flows':
      return `clients send (${action.variant})`;
    case 'clock':
      return `somebody sets the clock by ${action.by} ms`;
    case 'silence':
      return action.node === undefined ? 'all Nodes answer again' : `nothing on Node ${action.node} answers`;
    case 'disk':
      return action.isFull ? 'the disk is full' : 'the disk has room again';
    case 'freeze':
      return `the machine stands still for ${action.milliseconds / 1000} s`;
    default:
      return `${action.kind}: ${action.what}`;
  }
}
