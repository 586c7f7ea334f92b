/** `node test/fleet/simulate.ts [AGENTS [CHANGES]]` prints the CPU that the fleet's parts take with so many agents and changes a second. */
import { manyAgents } from './many-agents.ts';

const [agents = 5000, changesPerSecond = 100] = process.argv.slice(2).map(Number);
const seconds = 60;
const options = { agents, changesPerSecond, seconds, services: 1000, endpoints: 100, questionsPerSecond: 10 };
const { events, spent, floor, ...rest } = await manyAgents(options);
const share = (milliseconds: number) => `${((100 * milliseconds) / (seconds * 1000)).toFixed(2)} % of a core`;
process.stdout.write(
  `${agents} agents, ${changesPerSecond} changes a second, ${seconds} s: ${events} events; ${share(spent)}, ` +
    `of which JSON.parse ${share(floor)}; ${JSON.stringify(rest)}\n`,
);
