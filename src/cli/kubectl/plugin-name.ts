/** Whether the executable was started as the plugin of kubectl. */
import { basename } from 'node:path';

/** kubectl runs the file of this name for `kubectl slicewire` (https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/). */
const PLUGIN = 'kubectl-slicewire';

/**
 * The words after `kubectl slicewire`; undefined: the program was not started as the plugin. `startedAs`: the name that the process was
 * started under (argv[0]). `slicewire kubectl` does the same under any name.
 */
export function pluginArguments(startedAs: string, args: readonly string[]): readonly string[] | undefined {
  if (basename(startedAs) === PLUGIN) return args;
  const [word, ...rest] = args;
  if (word === 'help' && rest[0] === 'kubectl') return [word, ...rest.slice(1)];
  return word === 'kubectl' ? rest : undefined;
}
