/** The switch of generations: it reports the ServicePorts that the next generation lacks, once, when that one has written. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { GenerationSwitch } from '../../src/agent/observers.ts';
import type { ServicePort } from '../../src/proxy/model/service-port.ts';

const modelOf = (...keys: readonly string[]) => ({
  ports: new Map(keys.map((key) => [key, { key } as ServicePort])),
});

describe('a switch of generations', () => {
  it('reports nothing for the first generation, nor while one works', async () => {
    const generations = new GenerationSwitch();
    generations.begin(modelOf('a', 'b'));
    assert.deepEqual([...(await generations.written())], []);
    assert.deepEqual([...(await generations.written())], []);
  });

  it('reports the ServicePorts that the next generation lacks, once', async () => {
    const generations = new GenerationSwitch();
    generations.begin(modelOf('a', 'b', 'c'));
    generations.begin(modelOf('b', 'd'));
    assert.deepEqual(
      [...(await generations.written())],
      [
        ['a', undefined],
        ['c', undefined],
      ],
    );
    assert.deepEqual([...(await generations.written())], []);
  });

  it('reports those of a generation that never wrote, and of the one before it', async () => {
    const generations = new GenerationSwitch();
    generations.begin(modelOf('a'));
    generations.begin(modelOf('b'));
    generations.begin(modelOf('c'));
    assert.deepEqual([...(await generations.written()).keys()].sort(), ['a', 'b']);
  });
});
