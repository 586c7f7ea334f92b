/** docs/architecture.svg shows the imports as they are. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { architecturePicture, folderGraph } from '../../scripts/architecture-picture.ts';

const PICTURE = new URL('../../docs/architecture.svg', import.meta.url);

/** The vertical position of a folder's box. */
function top(picture: string, folder: string): number {
  return Number(new RegExp(` y="(\\d+)">${folder}</text>`).exec(picture)?.[1]);
}

describe('docs/architecture.svg', () => {
  it('is what scripts/architecture-picture.ts draws of the source', () => {
    const isFresh = readFileSync(PICTURE, 'utf8') === architecturePicture(folderGraph());
    assert.ok(isFresh, 'the imports between folders changed: run node scripts/architecture-picture.ts');
  });

  it('has a box for each folder, below all that import it', () => {
    const graph = folderGraph();
    const picture = architecturePicture(graph);
    assert.ok([...graph.values()].filter(({ size }) => size > 0).length > 8);
    for (const [name, imports] of graph) {
      for (const other of imports) {
        const [above, below] = [name, other].map((folder) =>
          top(picture, folder === 'main.ts' ? folder : `${folder}/`),
        );
        assert.ok((above ?? NaN) < (below ?? NaN), `${name} at ${above}, ${other} at ${below}`);
      }
    }
  });

  it('leaves out a line that others imply', () => {
    const graph = new Map([
      ['agent', new Set(['kernel', 'proxy'])],
      ['proxy', new Set(['kernel'])],
      ['kernel', new Set<string>()],
    ]);
    const picture = architecturePicture(graph);
    assert.equal(picture.match(/<path d=/g)?.length, 2);
    assert.match(picture, /<title>src\/agent\/ imports kernel, proxy<\/title>/);
  });

  it('cannot be drawn of a circle, or of a folder without a description', () => {
    const circle = new Map([
      ['kernel', new Set(['proxy'])],
      ['proxy', new Set(['kernel'])],
    ]);
    assert.throws(() => architecturePicture(circle), /a circle of imports: kernel → proxy → kernel/);
    assert.throws(() => architecturePicture(new Map([['attic', new Set<string>()]])), /does not describe attic/);
  });
});
