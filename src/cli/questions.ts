/** The commands explain, verify, status, history and exposure. Each resolves with its exit status. */
import { loadConfig } from '../agent/load-config.ts';
import { withQueries } from '../agent/questions/answer-once.ts';
import { seenOf } from '../agent/questions/explain-live.ts';
import type { Answers } from '../agent/questions/queries.ts';
import { openTools } from '../agent/usable-families.ts';
import { realClock } from '../base/clock.ts';
import { type Flags, textFlag } from '../config/flags.ts';
import type { ListenAddress } from '../config/listen.ts';
import { momentOf, WrongQuestion } from '../inspect/wire/envelope.ts';
import { type Explanation, explanationSchema, explanationText } from '../inspect/wire/explanation.ts';
import { type Exposure, exposureSchema, exposureText } from '../inspect/wire/exposure.ts';
import { historySchema } from '../inspect/wire/history.ts';
import { readMoment, readSince, serviceKey } from '../inspect/wire/parse.ts';
import type { AnswerSchema } from '../inspect/wire/read.ts';
import { shadowSchema } from '../inspect/wire/shadow.ts';
import { isRight, shadowText } from '../inspect/wire/shadow-text.ts';
import { type Status, statusSchema } from '../inspect/wire/status.ts';
import { historyText, statusText } from '../inspect/wire/status-text.ts';
import { type Verification, verificationSchema, verificationText } from '../inspect/wire/verification.ts';
import { MODES } from '../proxy/model/modes.ts';
import { shadowFlags } from '../shadow/shadow-flags.ts';
import { askAgent } from './ask-agent.ts';
import { type CommandInput, show } from './command-input.ts';
import { recordedAnswers } from './record-and-replay.ts';
import { watchStatus } from './status-watch.ts';

/** A question for an agent over HTTP, and for the parts in this process. */
interface AnswerableCommand<A> {
  readonly path: string;
  readonly parameters?: Readonly<Record<string, string | undefined>>;
  readonly schema: AnswerSchema<A>;
  answer(answers: Answers, signal: AbortSignal): Promise<A>;
}

async function ask<A>(answerer: Answerer, question: AnswerableCommand<A>, { flags, signal }: CommandInput): Promise<A> {
  const { path, parameters, schema } = question;
  if (answerer.who === 'agent')
    return await askAgent(
      { listen: answerer.listen, path, ...(parameters && { parameters }), mustBeAgent: flags.watch === true, signal },
      schema,
    );
  if (answerer.who === 'recording') return await question.answer(await recordedAnswers(answerer.file), signal);
  return await withQueries(flags, signal, (answers, until) => question.answer(answers, until));
}

export async function explainCommand(input: CommandInput): Promise<number> {
  const { flags, words } = input;
  const [from = '', to = ''] = words;
  const [rules, isLive] = [flags.rules === true, flags.live === true];
  const at = momentFlag(input, 'at');
  if (isLive && (at !== undefined || flags.recording !== undefined)) {
    throw new WrongQuestion('--live traces packets of now: it cannot be combined with --at or --recording');
  }
  const milliseconds = secondsFlag(input);
  const answer = await ask(
    await answererOf(flags),
    {
      path: '/explain',
      parameters: { from, to, rules: String(rules), at: at === undefined ? undefined : momentOf(at) },
      schema: explanationSchema,
      answer: (answers, signal) => answers.explain({ from, to, rules, at }, signal),
    },
    input,
  );
  show(input, isLive ? await withLive(answer, milliseconds, input) : answer, explanationText);
  return answer.verdict.kind === 'balanced' ? 0 : 2;
}

async function withLive(answer: Explanation, milliseconds: number, input: CommandInput): Promise<Explanation> {
  const { flags, signal } = input;
  const { config } = await loadConfig(flags);
  const { tools } = MODES[answer.by.mode].rulesBy === 'nftables' ? { tools: [] } : await openTools(config, signal);
  const seconds = milliseconds / 1000;
  const onReady = () =>
    void process.stderr.write(
      `looking for packets from ${answer.from.text} to ${answer.to.text}, for ${seconds} s: send one now\n`,
    );
  return { ...answer, seen: await seenOf(answer, { tools, milliseconds, signal, onReady }) };
}

function secondsFlag({ flags }: CommandInput): number {
  const text = textFlag(flags, 'seconds');
  if (text === undefined) return 10_000;
  if (flags.live !== true) throw new WrongQuestion(`--seconds ${text}: has no meaning without --live`);
  const seconds = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (seconds < 1 || seconds > 300) throw new WrongQuestion(`--seconds ${text}: must be a number from 1 to 300`);
  return seconds * 1000;
}

function momentFlag({ flags }: CommandInput, flag: string): number | undefined {
  const text = textFlag(flags, flag);
  return text === undefined ? undefined : readMoment(`--${flag}`, text, realClock.wall());
}

const VERIFY: AnswerableCommand<Verification> = {
  path: '/verify',
  schema: verificationSchema,
  answer: (answers, signal) => answers.verify(signal),
};

export async function verifyCommand(input: CommandInput): Promise<number> {
  const answer = await ask(await answererOf(input.flags), VERIFY, input);
  show(input, answer, verificationText);
  return answer.equal ? 0 : 2;
}

export async function historyCommand(input: CommandInput): Promise<number> {
  const { flags, words } = input;
  const [word] = words;
  const service = word === undefined ? undefined : serviceKey(word);
  const sinceText = textFlag(flags, 'since');
  const at = momentFlag(input, 'at');
  const since = sinceText === undefined ? undefined : readSince('--since', sinceText, at ?? realClock.wall());
  const answerer = await answererOf(flags);
  if (answerer.who === 'command') {
    throw new WrongQuestion(
      'history is kept by an agent that runs, or by a file: leave out the source of objects, or use --recording FILE',
    );
  }
  const text = (moment: number | undefined) => (moment === undefined ? undefined : momentOf(moment));
  const answer = await ask(
    answerer,
    {
      path: '/history',
      parameters: { service, since: text(since), at: text(at) },
      schema: historySchema,
      answer: (answers, signal) => answers.history({ service, since, at }, signal),
    },
    input,
  );
  show(input, answer, historyText);
  return 0;
}

const EXPOSURE: AnswerableCommand<Exposure> = {
  path: '/exposure',
  schema: exposureSchema,
  answer: (answers, signal) => answers.exposure(signal),
};

export async function exposureCommand(input: CommandInput): Promise<number> {
  show(input, await ask(await answererOf(input.flags), EXPOSURE, input), exposureText);
  return 0;
}

const STATUS: AnswerableCommand<Status> = {
  path: '/status',
  schema: statusSchema,
  answer: async (answers) => await answers.status(),
};

export async function statusCommand(input: CommandInput): Promise<number> {
  if (input.flags.of !== undefined) return await statusOfOther(input, textFlag(input.flags, 'of') ?? '');
  const answerer = await answererOf(input.flags);
  if (input.flags.watch === true) {
    if (answerer.who !== 'agent') {
      throw new WrongQuestion('--watch follows an agent that runs: leave out the source of objects');
    }
    return await watchStatus(input, async (signal) => await ask(answerer, STATUS, { ...input, signal }));
  }
  const status = await ask(answerer, STATUS, input);
  show(input, status, statusText);
  return status.health.healthy ? 0 : 2;
}

/** The shadow of this node has watched the other proxy, so only it can answer. */
async function statusOfOther(input: CommandInput, of: string): Promise<number> {
  const { flags, signal } = input;
  mustBeKubeProxy(of);
  const other = [...SOURCES, 'recording', 'watch'].find((flag) => flags[flag] !== undefined);
  if (other !== undefined)
    throw new WrongQuestion(`--of ${of}: cannot be combined with --${other}: the shadow of this node answers`);
  const { config } = await loadConfig(flags, undefined, undefined, shadowFlags(flags));
  const question = { listen: config.serve.metrics, path: '/status', program: 'shadow', signal } as const;
  const shadow = await askAgent(question, shadowSchema);
  show(input, shadow, shadowText);
  return isRight(shadow) ? 0 : 2;
}

export { recordCommand, replayCommand } from './record-and-replay.ts';

/** Questions are answered by the agent that runs, by this command from the source and the kernel, or from a recording. */
type Answerer =
  | { readonly who: 'agent'; readonly listen: ListenAddress }
  | { readonly who: 'command' }
  | { readonly who: 'recording'; readonly file: string };

function mustBeKubeProxy(of: string): void {
  if (of !== 'kube-proxy')
    throw new WrongQuestion(`--of ${of}: only the rules of kube-proxy can be read; write kube-proxy`);
}

/** The command reads the rules of the other proxy itself: they are in no recording, and no agent has them. Throws WrongQuestion. */
function aboutOthers(of: string, flags: Flags): Answerer {
  mustBeKubeProxy(of);
  const other = ['recording', 'at', 'live'].find((flag) => flags[flag] !== undefined);
  if (other !== undefined) {
    throw new WrongQuestion(
      `--of ${of}: cannot be combined with --${other}: the answer is about the rules in the kernel now`,
    );
  }
  return { who: 'command' };
}

const SOURCES = ['manifests', 'kubeconfig', 'master'];

/** Throws WrongQuestion when flags name two of them, and ConfigError. */
async function answererOf(flags: Flags): Promise<Answerer> {
  const source = SOURCES.find((flag) => flags[flag] !== undefined);
  const file = textFlag(flags, 'recording');
  if (file !== undefined && source !== undefined) {
    throw new WrongQuestion(
      `--recording ${file}: cannot be combined with --${source}: both name what answers; give one of them`,
    );
  }
  const of = textFlag(flags, 'of');
  if (of !== undefined) return aboutOthers(of, flags);
  if (file !== undefined) return { who: 'recording', file };
  if (source !== undefined) return { who: 'command' };
  return { who: 'agent', listen: (await loadConfig(flags)).config.serve.metrics };
}
