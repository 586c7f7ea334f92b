/** The targets by name. Each is loaded when it is asked for. */
import type { Target } from '../target.ts';

const TARGETS: Readonly<Record<string, () => Promise<Target>>> = {
  json: async () => (await import('./json.ts')).json,
  watch: async () => (await import('./watch.ts')).watch,
  kubeconfig: async () => (await import('./kubeconfig.ts')).kubeconfig,
  http: async () => (await import('./http.ts')).http,
  answers: async () => (await import('./answers.ts')).answers,
  proc: async () => (await import('./proc.ts')).proc,
  yaml: async () => (await import('./yaml.ts')).yaml,
  config: async () => (await import('./config.ts')).config,
  netlink: async () => (await import('./netlink.ts')).netlink,
  'iptables-save': async () => (await import('./save.ts')).save,
  iptables: async () => (await import('./iptables.ts')).iptables,
  recording: async () => (await import('./recording.ts')).recording,
  frames: async () => (await import('./frames.ts')).frames,
  protobuf: async () => (await import('./protobuf.ts')).protobuf,
};

export const TARGET_NAMES: readonly string[] = Object.keys(TARGETS);

/** Throws RangeError for an unknown name. */
export async function targetNamed(name: string): Promise<Target> {
  const load = Object.hasOwn(TARGETS, name) ? TARGETS[name] : undefined;
  if (load === undefined) throw new RangeError(`no target has the name ${name}; there are ${TARGET_NAMES.join(', ')}`);
  return await load();
}
