/** Small sets do what Sets do. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { countOf, type Few, Lists, membersOf, withMember, withoutMember } from '../../../src/cluster/producers/few.ts';

/** Adds and removes of a few members, so that sets grow over the length of a list and shrink again. */
const steps = fc.array(fc.record({ isAdd: fc.boolean(), member: fc.nat(30).map((n) => `member-${n}`) }), {
  maxLength: 200,
});

it('a small set has the members that a Set has', () => {
  fc.assert(
    fc.property(steps, (all) => {
      let few: Few<string>;
      const set = new Set<string>();
      for (const { isAdd, member } of all) {
        few = isAdd ? withMember(few, member) : withoutMember(few, member);
        if (isAdd) set.add(member);
        else set.delete(member);
        assert.deepEqual([...membersOf(few)], [...set]);
        assert.equal(countOf(few), set.size);
      }
    }),
  );
});

it('lists have their members by name, and nothing under a name without members', () => {
  const lists = new Lists<string>();
  lists.add('a', 'one');
  lists.add('a', 'two');
  lists.add('b', 'one');
  lists.remove('b', 'one');
  lists.remove('c', 'one');
  assert.deepEqual([[...lists.get('a')], [...lists.get('b')]], [['one', 'two'], []]);
  assert.deepEqual([lists.count('a'), lists.count('b')], [2, 0]);
});
