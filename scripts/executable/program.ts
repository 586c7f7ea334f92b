/** Names and forms that the build and the first code of the executable share. */

export const CLIENT_NODE = '@kubernetes/client-node';

/** Names of the executable's assets. */
export const ASSETS = { program: 'program', compiled: 'compiled', clientNode: 'client-node', ws: 'ws' } as const;

/** Packages that few starts need, each with its asset. */
export const LATE: Readonly<Record<string, string>> = { [CLIENT_NODE]: ASSETS.clientNode, ws: ASSETS.ws };

/** The files of the live pages of agent and fleet, which are assets too, each compressed by gzip. */
export const PAGE_ASSETS = [
  'page.html',
  'page.js',
  'fleet.html',
  'fleet.js',
  'shadow.html',
  'shadow.js',
  'page.css',
  'icon.svg',
] as const;

/** A bundle in CommonJS is the body of such a function. */
export type Program = (load: (name: string) => unknown, module: { exports: object }, exports: object) => void;

export function wrapped(bundle: string): string {
  return `(function(require,module,exports){${bundle}\n})`;
}
