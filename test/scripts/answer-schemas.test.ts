/** docs/reference/schemas has the forms of the answers as they are. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { schemaTexts } from '../../scripts/answer-schemas.ts';

const FOLDER = new URL('../../docs/reference/schemas/', import.meta.url);

describe('docs/reference/schemas', () => {
  it('is what scripts/answer-schemas.ts makes of the forms that answers are checked with', () => {
    const texts = schemaTexts();
    assert.deepEqual(readdirSync(FOLDER).sort(), [...texts.keys()].sort());
    for (const [name, text] of texts) {
      const isFresh = readFileSync(new URL(name, FOLDER), 'utf8') === text;
      assert.ok(isFresh, `docs/reference/schemas/${name} is stale: run node scripts/answer-schemas.ts`);
    }
  });

  it('has every answer that a command prints with -o json', () => {
    // The messages of /live have no kind.
    const kinds = [...schemaTexts().values()].flatMap((text) => {
      const { properties } = JSON.parse(text) as { properties: { kind?: { const: string } } };
      return properties.kind?.const ?? [];
    });
    const printed = [
      'Explanation',
      'Exposure',
      'History',
      'Nodes',
      'Problem',
      'Replay',
      'Shadow',
      'Status',
      'Verification',
    ];
    const served = ['Drained', 'FleetProgrammed', 'Programmed', 'Service', 'Services'];
    assert.deepEqual(kinds.sort(), [...printed, ...served].sort());
  });

  it('describes every field that is not plain from its name', () => {
    const { properties } = JSON.parse(schemaTexts().get('status.json') ?? '') as { properties: Record<string, object> };
    assert.deepEqual(Object.keys(properties).slice(0, 3), ['apiVersion', 'kind', 'by']);
    assert.ok('description' in (properties.syncs ?? {}));
  });
});
