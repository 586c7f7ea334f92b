/** A process that runs beside slicewire and exchanges lines with it, such as a host of the demo. */
import { createInterface } from 'node:readline';
import { execa } from 'execa';

export interface Child {
  readonly pid: number | undefined;
  send(line: string): void;
  /** Sends SIGTERM, and SIGKILL after 2 s; resolves when the process has ended. */
  stop(): Promise<void>;
  /** Resolves with the exit status when the process ends; undefined when a signal ended it. */
  readonly ended: Promise<number | undefined>;
}

export interface ChildOptions {
  readonly file: string;
  readonly args: readonly string[];
  readonly onLine?: (line: string) => void;
  /** Lines of standard error. */
  readonly onErrorLine?: (line: string) => void;
  readonly env?: Readonly<Record<string, string>>;
}

/** Starts the process at once. A program that cannot start ends with the status undefined. */
export function startChild({ file, args, onLine, onErrorLine, env }: ChildOptions): Child {
  const child = execa(file, args, {
    reject: false,
    buffer: false,
    stdin: 'pipe',
    forceKillAfterDelay: 2000,
    ...(env === undefined ? {} : { env }),
  });
  createInterface({ input: child.stdout }).on('line', (line) => onLine?.(line));
  createInterface({ input: child.stderr }).on('line', (line) => onErrorLine?.(line));
  child.stdin.on('error', () => undefined);
  const ended = child.then((result) => result.exitCode);
  return {
    pid: child.pid,
    send: (line) => child.stdin.write(`${line}\n`),
    async stop() {
      child.kill('SIGTERM');
      await ended;
    },
    ended,
  };
}
