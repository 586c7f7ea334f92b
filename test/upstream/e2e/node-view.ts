/** The endpoints that the agent of a node uses, of the Services and slices that an API server has. */
import assert from 'node:assert/strict';
import { objectKey } from '../../../src/cluster/api/decode/checks.ts';
import { decodeService } from '../../../src/cluster/api/decode/service.ts';
import { decodeSlice } from '../../../src/cluster/api/decode/slice.ts';
import { type Location, servicePorts } from '../../../src/proxy/model/service-port.ts';
import type { ControllerRig } from '../../controller/rig.ts';

/** Backends of policy Cluster as `ip:port`, by the name of the port of the Service. */
export function backendsOn(rig: ControllerRig, service: string, location: Location): Map<string, string[]> {
  const key = `default/${service}`;
  const object = rig.server.objects('Service').find((one) => objectKey(one) === key);
  const read = decodeService(object, key);
  assert.equal(read.kind, 'service');
  assert.ok(read.kind === 'service' && read.service);
  const slices = rig.slices(service).map((one) => {
    const event = decodeSlice(one, objectKey(one) ?? '');
    assert.ok(event.kind === 'slice' && event.slice);
    return event.slice;
  });
  const name = (id: string) => id.slice(key.length + 1);
  return new Map(
    servicePorts(read.service, slices, location).map(({ id, cluster }) => [
      name(id),
      cluster.map(({ text }) => text).sort(),
    ]),
  );
}
