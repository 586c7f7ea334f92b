/** Manual pages and completions, as the executable prints them. */
import { run } from './run.ts';

/** The names under which shells look for completions. */
const COMPLETIONS = { bash: 'slicewire', zsh: '_slicewire', fish: 'slicewire.fish' } as const;

/** Texts by their paths in the archive. `executable`: one that runs on this machine. */
export async function documentsOf(executable: string | undefined): Promise<ReadonlyMap<string, string>> {
  if (executable === undefined) throw new Error('no executable of this machine was built');
  const completions = Object.entries(COMPLETIONS).map(
    async ([shell, name]): Promise<[string, string]> => [
      `completions/${shell}/${name}`,
      await run(executable, ['completion', shell]),
    ],
  );
  return new Map(await Promise.all(completions));
}
