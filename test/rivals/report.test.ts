/** A difference needs a reason, a reason needs a difference, and each is named for a story that is told. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { MODE_NAMES } from '../../src/proxy/model/modes.ts';
import { STORIES } from '../conformance/stories/index.ts';
import { otherEnd } from '../conformance/story.ts';
import { rivalStories, type StoryResult } from './kube-proxy-stories.ts';
import { judged, lineOf } from './report.ts';

/** What became of a story in IPv4. */
function result(id: string, differs?: string): StoryResult {
  return { id, family: 'IPv4', differs };
}

/** Stories that end otherwise in iptables mode. */
const OTHERWISE = rivalStories('iptables')
  .map(({ story }) => story)
  .filter((story) => otherEnd(story, 'iptables') !== undefined);
const idOf = (isByChance: boolean) =>
  OTHERWISE.find(({ kubeProxy }) => (kubeProxy?.isByChance === true) === isByChance)?.id ?? assert.fail();

describe('the report of the stories through kube-proxy', () => {
  const named = idOf(false);

  it('is content with a difference that has a reason', () => {
    assert.equal(judged('iptables', [result(named, 'refused')]).wrong, 0);
    assert.match(lineOf('iptables', result(named, 'refused')), /: otherwise \(refused\), for a reason: kube-proxy /);
  });

  it('is not content with one that has none', () => {
    const { wrong, lines } = judged('iptables', [result('node-port-udp', 'refused')]);
    assert.equal(wrong, 1);
    assert.match(lines.join('\n'), /node-port-udp: OTHERWISE, AND NO REASON IS NAMED: refused/);
  });

  it('is not content with a reason where neither family differs', () => {
    const ipv6: StoryResult = { id: named, family: 'IPv6', differs: 'refused' };
    assert.equal(judged('iptables', [result(named), ipv6]).wrong, 0);
    assert.equal(judged('iptables', [result(named)]).wrong, 1);
  });

  it('lets chance decide where kube-proxy has no order', () => {
    assert.equal(judged('iptables', [result(idOf(true))]).wrong, 0);
    assert.equal(judged('iptables', [result(idOf(true), 'refused')]).wrong, 0);
  });
});

describe('the reasons', () => {
  it('are of modes that can tell the story', () => {
    for (const mode of MODE_NAMES) {
      const told = new Set(rivalStories(mode).map(({ story }) => story.id));
      const named = STORIES.filter((story) => story.kubeProxy?.modes?.includes(mode) === true);
      const known = named.filter(({ onlyInterpreted }) => onlyInterpreted === undefined).map(({ id }) => id);
      assert.deepEqual(
        known.filter((id) => !told.has(id)),
        [],
        mode,
      );
    }
  });
});
