/** A difference needs a reason, a reason needs a difference, and each is named for a story that is told. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { MODE_NAMES } from '../../src/proxy/model/modes.ts';
import { STORIES } from '../conformance/stories/index.ts';
import { BY_CHANCE, DIFFERENCES } from './differences.ts';
import { rivalStories, type StoryResult } from './kube-proxy-stories.ts';
import { judged, lineOf } from './report.ts';

/** What became of a story in IPv4. */
function result(id: string, differs?: string): StoryResult {
  return { id, family: 'IPv4', differs };
}

/** Stories that differ in iptables mode, and whose end is not a matter of chance. */
const NAMED = Object.keys(DIFFERENCES.iptables).filter((id) => !BY_CHANCE.has(id));

describe('the report of the stories through kube-proxy', () => {
  const [named = ''] = NAMED;

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
    for (const id of BY_CHANCE) assert.equal(judged('iptables', [result(id)]).wrong, 0);
  });
});

describe('the reasons', () => {
  for (const mode of MODE_NAMES)
    it(`are of stories that are told in ${mode} mode`, () => {
      const told = new Set(rivalStories(mode).map(({ story }) => story.id));
      assert.deepEqual(
        Object.keys(DIFFERENCES[mode]).filter((id) => !told.has(id)),
        [],
      );
    });

  it('hold in some mode for each story that says what kube-proxy does, and that real packets can tell', () => {
    const named = new Set(MODE_NAMES.flatMap((mode) => Object.keys(DIFFERENCES[mode])));
    const said = STORIES.filter((story) => story.kubeProxy !== undefined && story.onlyInterpreted === undefined);
    assert.deepEqual(
      said.map(({ id }) => id).filter((id) => !named.has(id)),
      [],
    );
  });
});
