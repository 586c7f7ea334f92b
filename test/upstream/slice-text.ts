/** EndpointSlices as short texts, for tables: `10.1.1.1 10.1.1.2* 10.1.1.3~ : p11=11 p12=12`. */
import { endpointText } from '../../src/base/address.ts';
import type { EndpointsByPort } from '../../src/proxy/model/endpoints.ts';
import { slice } from '../helpers/cluster/objects.ts';

/** Marks behind an address: on this node, not ready, draining. */
const CONDITIONS: Readonly<Record<string, object>> = {
  '-': { ready: false, serving: false, terminating: false },
  '~': { ready: false, serving: true, terminating: true },
};

/**
 * The slice `namespace/service-N` of a text: endpoints, each with its marks (`*` on this node, `-` not ready, `~` draining), a
 * colon, and its ports as `name=number`. A port without a number has `name=`.
 */
export function sliceOf(key: string, text: string, protocol: 'TCP' | 'UDP' = 'UDP'): object {
  const [namespace = '', name = ''] = key.split('/');
  const [endpoints = [], ports = []] = text.split(':').map((part) => part.split(' ').filter((word) => word !== ''));
  return slice({
    name,
    namespace,
    service: name.replace(/-\w+$/, ''),
    addressType: 'IPv4',
    ports: ports.map((port) => {
      const [portName, number] = port.split('=');
      return { name: portName, protocol, ...(number === '' ? {} : { port: Number(number) }) };
    }),
    endpoints: endpoints.map((word) => {
      const [, address, marks = ''] = /^([\d.]+)(.*)$/.exec(word) ?? [];
      const conditions = [...marks].map((mark) => CONDITIONS[mark]).find((found) => found !== undefined);
      return {
        addresses: [address],
        ...(marks.includes('*') ? { nodeName: 'node' } : {}),
        ...(conditions === undefined ? {} : { conditions }),
      };
    }),
  });
}

/** Endpoints by port as such texts: `p11: 10.1.1.1:11 10.1.1.2:11*`. */
export function textsOf(endpoints: EndpointsByPort): string[] {
  return [...endpoints].sort().map(([port, all]) => {
    const words = all.map(({ endpoint, port: number }) => {
      const { address, nodeName, ready, serving, terminating } = endpoint;
      const mark = ready ? '' : terminating && serving ? '~' : '-';
      return `${endpointText(address, number)}${mark}${nodeName === 'node' ? '*' : ''}`;
    });
    return `${port.split('/')[0]}: ${words.join(' ')}`;
  });
}
