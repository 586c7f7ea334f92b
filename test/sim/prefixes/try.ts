import { Random } from '../../helpers/base/random.ts';
import { PrefixWorld } from './prefixes.ts';
import { ABSENT, nextService, randomService, type State } from './states.ts';

const [modes = 'ipvs', seed = '1', count = '200', two = ''] = process.argv.slice(2);
const random = new Random(Number(seed));
const all = modes.split(',') as 'ipvs'[];
const world = new PrefixWorld(all[0] as never);
let state: State = [randomService(random), two ? randomService(random) : ABSENT];
const kinds = new Map<string, { n: number; text: string }>();
const t = performance.now();
for (let i = 0; i < Number(count); i++) {
  for (const b of await world.go(state, random.pick(all))) {
    const what =
      b.packet.includes('192.168') || b.packet.includes('fd00:77') || b.packet.includes('127.')
        ? 'nodeport'
        : /10.96|fd00:96/.test(b.packet)
          ? 'cluster'
          : 'ext';
    const short = (x: string) => x.replace(/balanced \S+/g, 'B').replace(/(, B( masqueraded)?)+/g, '');
    const key = `${b.mode} ${what} | ${short(b.was)} > ${short(b.is)} > ${short(b.becomes)}`;
    const known = kinds.get(key) ?? {
      n: 0,
      text: `${b.before}\n  -> ${b.after}\n  ${b.packet}: ${b.was} > [${b.is}] > ${b.becomes}  cut ${b.cut}/${b.cuts}`,
    };
    known.n += 1;
    kinds.set(key, known);
  }
  state = [nextService(random, state[0]), two ? nextService(random, state[1]) : ABSENT];
}
for (const [key, { n, text }] of [...kinds].sort((a, b) => (a[0] < b[0] ? -1 : 1)))
  process.stdout.write(`${n} × ${key}\n   ${text}\n`);
process.stdout.write(
  `${kinds.size} kinds ${world.cuts} cuts ${((performance.now() - t) / Number(count)).toFixed(1)} ms each ${JSON.stringify([...world.exceptions])}\n`,
);
