/**
 * A process that looks at the packets of a question, in the network namespace in which it runs. The question is its only argument, as
 * JSON. It writes a line `ready`, and at the end the answer as a line of JSON; `aborts` milliseconds after `ready` it aborts itself.
 */
import { type LiveQuestion, look } from '../../../src/agent/questions/explain-live.ts';
import { realCommands } from '../../../src/kernel/commands.ts';
import { IptablesTools, type IptablesVariant } from '../../../src/kernel/iptables-tools.ts';

export interface LiveInput {
  readonly question: LiveQuestion;
  readonly mode: 'iptables' | 'ipvs' | 'nftables';
  readonly backend: IptablesVariant;
  readonly milliseconds: number;
  readonly aborts?: number;
}

const { question, mode, backend, milliseconds, aborts } = JSON.parse(process.argv[2] ?? '') as LiveInput;
const stop = new AbortController();
const tools = new IptablesTools(realCommands, question.family, backend);
await tools.version(stop.signal);
const onReady = () => {
  process.stdout.write('ready\n');
  if (aborts !== undefined) setTimeout(() => stop.abort(new Error('aborted')), aborts);
};
try {
  const seen = await look(question, { mode, tools: [tools], milliseconds, signal: stop.signal, onReady });
  process.stdout.write(`${JSON.stringify(seen)}\n`);
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`);
  process.exitCode = 1;
}
