/** Asks the servers of an agent from inside its node. */
import assert from 'node:assert/strict';
import type { Lab } from '../../src/cli/lab/lab.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** `init`: of fetch, as JavaScript. Throws when nothing answers. */
export async function askNode(lab: Lab, path: string, port = 10_256, init = '{}'): Promise<Answer> {
  const script = `const a = await fetch('http://127.0.0.1:${port}${path}', ${init});
    console.log(JSON.stringify({ status: a.status, headers: Object.fromEntries(a.headers), body: await a.text() }));`;
  const inside = lab.inside('node', process.execPath, ['--input-type=module', '-e', script]);
  const { stdout, stderr } = await shellCommands.run(inside, NEVER);
  return stdout === '' ? assert.fail(stderr) : (JSON.parse(stdout) as Answer);
}
