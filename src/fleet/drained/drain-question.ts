/** The question of `slicewire drained`, from its flags, and from the environment and files of its container. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseAddress } from '../../base/address.ts';
import { parseDuration } from '../../base/duration.ts';
import { type Flags, textFlag } from '../../config/flags.ts';
import { WrongQuestion } from '../../inspect/wire/envelope.ts';

export interface DrainQuestion {
  /** The subject, as parameters of `/drained`. */
  readonly of: { readonly pod: string } | { readonly address: string };
  /** Milliseconds after which the answer is no. */
  readonly timeout: number;
  /** The address of the fleet, without a path. */
  readonly fleet: URL;
  /** undefined when no token is sent. */
  readonly tokenFile: string | undefined;
}

/** The surroundings of the container. */
export interface Container {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The folder of the Pod's ServiceAccount. */
  readonly account: string;
}

export const CONTAINER: Container = { env: process.env, account: '/var/run/secrets/kubernetes.io/serviceaccount' };

/** The same defaults as in the table of commands. */
const DEFAULT_TIMEOUT = '30s';
const DEFAULT_FLEET = 'http://slicewire-fleet.kube-system:10262';
/** The limit of the fleet's own wait. */
const MAX_TIMEOUT_MS = 600_000;
const NAME = '[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?';
const POD = new RegExp(`^${NAME}/${NAME}$`);

/** Throws WrongQuestion with the flag and its value. */
export async function drainQuestion(flags: Flags, container = CONTAINER): Promise<DrainQuestion> {
  return {
    of: await askedOf(flags, container),
    timeout: timeoutOf(textFlag(flags, 'timeout') ?? DEFAULT_TIMEOUT),
    fleet: fleetOf(textFlag(flags, 'fleet') ?? DEFAULT_FLEET),
    tokenFile: await tokenFileOf(flags, container),
  };
}

async function askedOf(flags: Flags, { env, account }: Container): Promise<DrainQuestion['of']> {
  const [pod, address] = [textFlag(flags, 'pod'), textFlag(flags, 'address')];
  if (address !== undefined) {
    if (pod !== undefined)
      throw new WrongQuestion(`--address ${address}: cannot be combined with --pod: both name what ends; give one`);
    if (parseAddress(address) === undefined)
      throw new WrongQuestion(`--address ${address}: must be an IP address, such as 10.244.1.13`);
    return { address };
  }
  const given = pod === undefined ? env.POD_NAME : pod;
  if (given === undefined || given === '')
    throw new WrongQuestion(
      '--pod: name the Pod that ends, or its --address; where neither is given, the environment variable POD_NAME counts',
    );
  const flag = pod === undefined ? 'POD_NAME' : '--pod';
  const key = given.includes('/') ? given : `${await namespaceOf(given, flag, { env, account })}/${given}`;
  if (!POD.test(key)) throw new WrongQuestion(`${flag} ${given}: must be NAME or NAMESPACE/NAME of a Pod`);
  return { pod: key };
}

/** The namespace of this Pod, for a Pod that is named without one. */
async function namespaceOf(name: string, flag: string, { env, account }: Container): Promise<string> {
  if (env.POD_NAMESPACE !== undefined && env.POD_NAMESPACE !== '') return env.POD_NAMESPACE;
  const text = await textOf(join(account, 'namespace'));
  if (text !== undefined) return text.trim();
  throw new WrongQuestion(
    `${flag} ${name}: has no namespace, and ${join(account, 'namespace')} is not there: write NAMESPACE/NAME`,
  );
}

function timeoutOf(text: string): number {
  const timeout = parseDuration(text);
  if (timeout === undefined || timeout <= 0 || timeout > MAX_TIMEOUT_MS)
    throw new WrongQuestion(`--timeout ${text}: must be a duration of more than 0 and at most 10m, such as 30s`);
  return timeout;
}

function fleetOf(text: string): URL {
  const url = URL.parse(text);
  const isBare = url !== null && url.pathname === '/' && url.search === '' && url.hash === '' && url.username === '';
  if (isBare && url.protocol === 'http:') return url;
  throw new WrongQuestion(
    `--fleet ${text}: must be http://HOST:PORT of the fleet, such as http://slicewire-fleet.kube-system:10262`,
  );
}

async function tokenFileOf(flags: Flags, { account }: Container): Promise<string | undefined> {
  const file = textFlag(flags, 'token-file');
  if (file !== undefined && (await textOf(file)) === undefined)
    throw new WrongQuestion(`--token-file ${file}: cannot be read`);
  if (file !== undefined) return file;
  const own = join(account, 'token');
  return (await textOf(own)) === undefined ? undefined : own;
}

/** undefined when the file cannot be read. */
async function textOf(file: string): Promise<string | undefined> {
  return await readFile(file, 'utf8').catch(() => undefined);
}
