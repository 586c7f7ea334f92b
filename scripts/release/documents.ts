/** Manual pages, and completions as the executable prints them. */
import { manPages } from '../man-pages.ts';
import { run } from './run.ts';

/** The names under which shells look for completions. */
const COMPLETIONS = { bash: 'slicewire', zsh: '_slicewire', fish: 'slicewire.fish' } as const;

/** Texts by their paths in the archive. `executable`: one that runs on this machine; `epoch`: seconds since 1970. */
export async function documentsOf(executable: string | undefined, epoch: number): Promise<ReadonlyMap<string, string>> {
  if (executable === undefined) throw new Error('no executable of this machine was built');
  const completions = Object.entries(COMPLETIONS).map(
    async ([shell, name]): Promise<[string, string]> => [
      `completions/${shell}/${name}`,
      await run(executable, ['completion', shell]),
    ],
  );
  const date = new Date(epoch * 1000).toISOString().slice(0, 10);
  const pages = [...manPages(date)].map(([file, text]): [string, string] => [`man/man8/${file}`, text]);
  return new Map([...pages, ...(await Promise.all(completions))]);
}
