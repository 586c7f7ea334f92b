/** A process that goes on while slicewire runs: lines in, lines out. The demo's hosts and servers are such. */
import { createInterface } from 'node:readline';
import { execa } from 'execa';

export interface Child {
  readonly pid: number | undefined;
  send(line: string): void;
  /** Ask it to end (SIGTERM), then make it (SIGKILL after 2 s); resolves when it is gone. */
  stop(): Promise<void>;
  /** Resolves with the exit status when it ends by itself or is stopped; undefined after a signal. */
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
