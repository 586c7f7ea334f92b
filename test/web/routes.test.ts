/** Links of the page carry the question of a view. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { linkTo, questionOf, routeOf } from '../../src/web/routes.ts';

describe('a link of the page', () => {
  it('leads to the view with its question, whatever text that is', () => {
    const route = fc.oneof(
      fc.record({ view: fc.constant('services' as const), search: fc.string() }),
      fc.record({ view: fc.constant('service' as const), name: fc.string({ unit: 'grapheme' }) }),
      fc.record({ view: fc.constant('explain' as const), from: fc.string(), to: fc.string({ unit: 'binary-ascii' }) }),
      fc.record({ view: fc.constant('exposure' as const), search: fc.string() }),
    );
    fc.assert(fc.property(route, (one) => assert.deepEqual(routeOf(linkTo(one)), { ...one })));
  });

  it('has no script, element or other address in it, whatever text it carries', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary-ascii' }), (name) =>
        assert.match(linkTo({ view: 'service', name }), /^#\/service(?:\?[\w.*+%=&-]*)?$/),
      ),
    );
  });

  it('is the overview when there is none, and says so when it is unknown', () => {
    for (const fragment of ['', '#', '#/']) assert.deepEqual(routeOf(fragment), { view: 'overview' });
    assert.deepEqual(routeOf('#/nowhere?x=1'), { view: 'unknown', path: '/nowhere' });
    assert.equal(linkTo({ view: 'overview' }), '#/');
  });

  it('asks the agent with encoded parameters', () => {
    assert.equal(questionOf('/services', { search: 'a&b=c', offset: 0 }), '/services?search=a%26b%3Dc&offset=0');
  });
});
