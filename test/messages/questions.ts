/** FROM and TO of `slicewire explain` that cannot be answered, on a node with a few Services. */
import type { Row } from './row.ts';

export interface AskedWrongly {
  readonly from: string;
  readonly to: string;
  /** With Pods of manifests, instead of an agent that knows none. */
  readonly knowsPods?: boolean;
}

const to = (text: string): AskedWrongly => ({ from: 'node', to: text });
const from = (text: string, more: Partial<AskedWrongly> = {}): AskedWrongly => ({
  from: text,
  to: '10.96.0.10:80',
  ...more,
});

export const QUESTIONS: readonly Row<AskedWrongly>[] = [
  {
    name: 'a Service that does not exist, and one that is near',
    input: to('svc/shop/wbe'),
    message: 'no Service shop/wbe; did you mean shop/web?',
  },
  {
    name: 'a Service of another namespace',
    input: to('svc/default/cart'),
    message: 'no Service default/cart; did you mean shop/cart?',
  },
  {
    name: 'a Service that does not exist, and none that is near',
    input: to('svc/shop/inventory'),
    message: 'no Service shop/inventory; headless Services and those of type ExternalName are not served',
  },
  {
    name: 'a Service that is set aside',
    input: to('svc/shop/broken'),
    message:
      'Service shop/broken is set aside, and nothing of it is programmed: Service shop/broken: spec.ports[0].port: 70000: must be a whole number from 1 to 65535 (object set aside)',
  },
  {
    name: 'a headless Service',
    input: to('svc/shop/headless'),
    message:
      "Service shop/headless is not served: it has EndpointSlices, but it is headless, of type ExternalName, another proxy's, or deleted",
  },
  {
    name: 'a Service with several ports',
    input: to('svc/shop/web'),
    message: 'Service shop/web has ports http (80/TCP) and metrics (9090/TCP): name one, such as svc/shop/web:http',
  },
  {
    name: 'a port that the Service does not have',
    input: to('svc/shop/web:8080'),
    message: 'Service shop/web has ports http (80/TCP) and metrics (9090/TCP), not 8080',
  },
  {
    name: 'a name of a port that is near',
    input: to('svc/shop/web:metrisc'),
    message:
      'Service shop/web has ports http (80/TCP) and metrics (9090/TCP), not metrisc; did you mean svc/shop/web:metrics?',
  },
  {
    name: 'a protocol that the port does not have',
    input: to('svc/shop/web:http/udp'),
    message:
      'Service shop/web has ports http (80/TCP) and metrics (9090/TCP), not http/udp; did you mean svc/shop/web:http?',
  },
  {
    name: 'a Service with an unknown protocol',
    input: to('svc/shop/web:http/icmp'),
    message: 'TO svc/shop/web:http/icmp: icmp is no protocol; write /tcp, /udp or /sctp',
  },
  {
    name: 'a Service without a namespace',
    input: to('svc/web'),
    message:
      'TO svc/web: a Service is written svc/NAMESPACE/NAME, or svc/NAMESPACE/NAME:PORT; did you mean svc/shop/web?',
  },
  {
    name: 'a Service without svc',
    input: to('shop/web:80'),
    message: 'TO shop/web:80 is no destination; a Service is written svc/shop/web:80',
  },
  {
    name: 'an address without a port',
    input: to('10.96.0.10'),
    message: 'TO 10.96.0.10: the port is missing; write 10.96.0.10:80, for example',
  },
  {
    name: 'a port that is no number',
    input: to('10.96.0.10:http'),
    message: 'TO 10.96.0.10:http: port http must be a number from 1 to 65535',
  },
  {
    name: 'a port that is too large',
    input: to('10.96.0.10:65536'),
    message: 'TO 10.96.0.10:65536: port 65536 must be a number from 1 to 65535',
  },
  {
    name: 'a protocol that does not exist',
    input: to('10.96.0.10:80/http'),
    message: 'TO 10.96.0.10:80/http: http is no protocol; write /tcp, /udp or /sctp',
  },
  {
    name: 'a name instead of an address',
    input: to('web.shop.svc:80'),
    message:
      'TO web.shop.svc is a name, and names are not looked up; write ADDRESS:PORT, svc/NAMESPACE/NAME[:PORT] or nodeport:PORT',
  },
  {
    name: 'no address at all',
    input: to('10.96.0.300:80'),
    message: 'TO 10.96.0.300 is not an IP address; write ADDRESS:PORT, svc/NAMESPACE/NAME[:PORT] or nodeport:PORT',
  },
  {
    name: 'an IPv6 address without brackets',
    input: to('fd00:96::10:80'),
    message: 'TO fd00:96::10:80: an IPv6 address is written in brackets before its port, such as [fd00:96::10]:80',
  },
  {
    name: 'an IPv6 address without a port',
    input: to('[fd00:96::10]'),
    message: 'TO [fd00:96::10]: the port is missing; write [fd00:96::10]:80, for example',
  },
  {
    name: 'no destination',
    input: to(''),
    message:
      'TO "" is no destination; write ADDRESS:PORT, [IPV6]:PORT, svc/NAMESPACE/NAME[:PORT] or nodeport:PORT, each with /udp or /sctp if it is not TCP',
  },
  {
    name: 'a node port that is no number',
    input: to('nodeport:http'),
    message: 'TO nodeport:http: port http must be a number from 1 to 65535',
  },
  {
    name: 'a sender that is no word of a question',
    input: from('nod'),
    message: 'FROM nod is no sender; did you mean node?',
  },
  {
    name: 'a name of a sender',
    input: from('web-1'),
    message:
      'FROM web-1 is a name, and names are not looked up; write pod/NAMESPACE/NAME, an IP address, node or outside',
  },
  {
    name: 'no sender',
    input: from(''),
    message: 'FROM "" is not an IP address; write pod/NAMESPACE/NAME, an IP address, node or outside',
  },
  {
    name: 'a Pod, where Pods are not known',
    input: from('pod/shop/web-1'),
    message:
      "pod/shop/web-1: this agent does not know Pods; use the Pod's address (kubectl get pod -n shop web-1 -o wide)",
  },
  {
    name: 'a Pod that does not exist',
    input: from('pod/shop/web-9', { knowsPods: true }),
    message: 'FROM pod/shop/web-9: there is no Pod shop/web-9',
  },
  {
    name: 'a Pod without a namespace',
    input: from('pod/web-1', { knowsPods: true }),
    message: 'FROM pod/web-1: a Pod is written pod/NAMESPACE/NAME',
  },
  {
    name: 'a Pod without an address',
    input: from('pod/shop/new', { knowsPods: true }),
    message: 'FROM pod/shop/new: the Pod has no address yet',
  },
  {
    name: 'a Pod of the other family',
    input: { from: 'pod/shop/web-1', to: '[fd00:96::10]:80', knowsPods: true },
    message:
      'FROM pod/shop/web-1 sends by IPv4 only, and TO [fd00:96::10]:80 has IPv6 only: a connection needs both in one family',
  },
  {
    name: 'a sender of the other family',
    input: { from: '10.244.1.9', to: '[fd00:96::10]:80' },
    message:
      'FROM 10.244.1.9 sends by IPv4 only, and TO [fd00:96::10]:80 has IPv6 only: a connection needs both in one family',
  },
  {
    name: 'a Service of the other family',
    input: { from: 'fd00:244::9', to: 'svc/shop/cart' },
    message:
      'FROM fd00:244::9 sends by IPv6 only, and TO svc/shop/cart has IPv4 only: a connection needs both in one family',
  },
];
