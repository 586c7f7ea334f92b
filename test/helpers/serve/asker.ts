/**
 * Asks an agent over HTTP from the network namespace in which it runs, round after round until it is stopped: asker.ts BASE PATH…
 * The questions of a round are asked together. For each answer there is a line of JSON: path, status, and the text.
 */
const [base = '', ...paths] = process.argv.slice(2);

/** An answer to one question. */
export interface Told {
  readonly path: string;
  readonly status: number;
  readonly text: string;
}

async function ask(path: string): Promise<Told> {
  try {
    // The agent closes a connection that is idle for long, and on a slow machine a round may last as long.
    const answer = await fetch(`${base}${path}`, { headers: { connection: 'close' } });
    return { path, status: answer.status, text: await answer.text() };
  } catch (error) {
    return { path, status: 0, text: String((error as Error).cause ?? error) };
  }
}

for (;;) {
  for (const told of await Promise.all(paths.map(ask))) process.stdout.write(`${JSON.stringify(told)}\n`);
}
