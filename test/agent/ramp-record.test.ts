/** The record of endpoints whose weights grow: what another process left, whatever it is, harms nothing. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { RampRecord } from '../../src/agent/ramp-record.ts';
import type { Address } from '../../src/base/address.ts';
import type { RecordFile } from '../../src/kernel/record-file.ts';
import type { Ramp } from '../../src/proxy/model/ramps.ts';
import type { Log } from '../../src/telemetry/log.ts';

const RAMP: Ramp = { service: 'default/web', address: '10.244.1.11' as Address, since: 1000 };

class Kept {
  text: string | undefined;
  place = 'here';
  refuses = false;
  readonly warned: string[] = [];
  readonly file: RecordFile = {
    path: () => '/run/slicewire/slow-start-1',
    place: () => this.place,
    read: () => this.text,
    write: (text) => {
      if (this.refuses) throw new Error('EROFS');
      this.text = text;
    },
    remove: () => {
      this.text = undefined;
      return true;
    },
  };

  get record(): RampRecord {
    return new RampRecord(this.file, { warn: (text: string) => this.warned.push(text) } as unknown as Log);
  }
}

describe('the record of a slow start', () => {
  it('is read by the next process', () => {
    const kept = new Kept();
    kept.record.save([RAMP]);
    assert.deepEqual(kept.record.read(), [RAMP]);
  });

  it('does not count in another boot or network namespace', () => {
    const kept = new Kept();
    kept.record.save([RAMP]);
    kept.place = 'there';
    assert.deepEqual([kept.record.read(), kept.warned], [[], []]);
  });

  it('is removed when no endpoint grows any more, and is not written for none', () => {
    const kept = new Kept();
    const { record } = kept;
    record.save([]);
    assert.equal(kept.text, undefined);
    record.save([RAMP]);
    record.save([]);
    assert.equal(kept.text, undefined);
  });

  for (const text of ['', '{', '{}', '{"place":"here","ramps":7}', '{"place":"here","ramps":[null]}'])
    it(`of other content counts as none, with a warning: ${text}`, () => {
      const kept = new Kept();
      kept.text = text;
      assert.deepEqual(kept.record.read(), []);
      assert.equal(kept.warned.length, text === '{}' ? 0 : 1);
    });

  it('leaves out what is no endpoint', () => {
    const kept = new Kept();
    const ramps = [RAMP, { ...RAMP, address: 'nowhere' }, { ...RAMP, since: 'soon' }, { ...RAMP, service: 1 }];
    kept.text = JSON.stringify({ place: 'here', ramps });
    assert.deepEqual(kept.record.read(), [RAMP]);
  });

  it('that cannot be written is told once', () => {
    const kept = new Kept();
    kept.refuses = true;
    const { record } = kept;
    for (let n = 0; n < 3; n++) record.save([RAMP]);
    assert.equal(kept.warned.length, 1);
    assert.match(kept.warned[0] ?? '', /EROFS/);
  });
});
