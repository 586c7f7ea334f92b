/** How often a view asks the agent. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { pauseAfter, whenSeen } from '../../src/web/hooks.ts';

describe('a view that follows changes', () => {
  it('asks at once again after quick answers, and seldom after long ones', () => {
    assert.deepEqual([0, 5, 40, 100, 500, 30_000].map(pauseAfter), [400, 400, 400, 1000, 5000, 10_000]);
  });

  it('asks nothing while nobody sees the tab', async () => {
    const tab = Object.assign(new EventTarget(), { visibilityState: 'hidden' as DocumentVisibilityState });
    const leaving = new AbortController();
    let isAsked = false;
    const asked = whenSeen(leaving.signal, tab).then(() => {
      isAsked = true;
    });
    tab.dispatchEvent(new Event('visibilitychange'));
    await setImmediate();
    assert.equal(isAsked, false);
    tab.visibilityState = 'visible';
    tab.dispatchEvent(new Event('visibilitychange'));
    await asked;
    tab.visibilityState = 'hidden';
    const left = whenSeen(leaving.signal, tab);
    leaving.abort();
    await left;
  });
});
