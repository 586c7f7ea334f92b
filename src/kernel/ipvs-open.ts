/** Opens the kernel's IPVS, and checks that it has the scheduler of the configuration. */
import { causeOf } from '../base/cause.ts';
import type { CommandRunner } from './commands.ts';
import {
  type IpvsKernel,
  type IpvsQuestions,
  type IpvsReader,
  IpvsUnusable,
  type KernelWrite,
  type Server,
  TRIAL_SERVER,
} from './ipvs-kernel.ts';
import type { IpvsSeams } from './ipvs-netlink.ts';

/**
 * Opens IPVS, and runs modprobe when the kernel does not load the module itself. Rejects with IpvsUnusable when the kernel has no IPVS or no
 * sets, or denies permission.
 */
export async function openIpvsKernel(
  commands: CommandRunner,
  signal: AbortSignal,
  seams: IpvsSeams = {},
): Promise<IpvsKernel & { close(): void }> {
  // Loaded only here: other modes need no foreign functions.
  const { NetlinkKernel } = await import('./ipvs-netlink.ts');
  const open = () => NetlinkKernel.open(seams);
  try {
    return open();
  } catch {
    const loading = await commands.run({ file: 'modprobe', args: ['ip_vs'] }, signal).catch((error: Error) => error);
    try {
      return open();
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      const output = (loading instanceof Error ? loading.message : loading.stderr).trim().replaceAll('\n', '; ');
      const hint = output === '' ? '' : `; modprobe ip_vs: ${output}`;
      throw new IpvsUnusable(
        `IPVS cannot be used in this kernel: ${causeOf(error)}${hint}; load the module ip_vs, or use --mode=iptables`,
      );
    }
  }
}

/** `open` opens the kernel's IPVS with sockets of its own, which stay open for as long as the question. */
export function ipvsQuestions(open: () => Promise<IpvsReader & { close(): void }>): IpvsQuestions {
  return {
    async ask(question) {
      const kernel = await open();
      try {
        return await question(kernel);
      } finally {
        kernel.close();
      }
    },
  };
}

/**
 * Checks that the kernel has a scheduler, with a server that no client uses. Rejects with IpvsUnusable when there is none of this name. The
 * device is made before: it says that objects of IPVS mode may be left where a process ends in the middle of this.
 */
export async function checkScheduler(kernel: IpvsKernel, scheduler: string, signal: AbortSignal): Promise<void> {
  if ((await kernel.servers()).some((server) => server.scheduler === scheduler)) return;
  const server: Server = { ...TRIAL_SERVER, scheduler, flags: 0, timeout: 0 };
  const hadDevice = await kernel.hasDevice();
  if (!hadDevice) await kernel.write([{ kind: 'add-device' }], signal);
  const remove: KernelWrite = { kind: 'remove-server', server };
  const attempt = async () => (await kernel.write([{ kind: 'add-server', server }], signal))[0];
  let error = await attempt();
  if (error?.failure === 'exists') {
    // A process that was killed here left it, perhaps with another scheduler.
    await kernel.write([remove], signal);
    error = await attempt();
  }
  // Where the kernel's answer was lost, the server may be there.
  const mayBeThere = error === undefined || error.failure === 'environment';
  const [unremoved] = mayBeThere ? await kernel.write([remove], signal) : [];
  if (error === undefined || error.failure === 'exists') return;
  const isLeft = unremoved !== undefined && unremoved.failure !== 'missing';
  if (!hadDevice && !isLeft) await kernel.write([{ kind: 'remove-device' }], signal);
  throw new IpvsUnusable(`--ipvs-scheduler=${scheduler}: the kernel refuses the scheduler: ${error.message}`);
}
