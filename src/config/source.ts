/** Where the objects come from: a cluster, or manifests. */
import { NODE_PORTS, type PortRange, parsePortRange, rangeText } from '../proxy/model/port-range.ts';
import { CONTENT_TYPES, type SourceConfig } from './config.ts';
import { isOn, type Reader, readChoice } from './readers.ts';

export function readSource(read: Reader): SourceConfig {
  const path = read.text('manifests');
  // An empty one means «not set», as in kube-proxy.
  const kubeconfig = read.text('kubeconfig') || undefined;
  const master = read.text('master') || undefined;
  const contentType = readChoice(read, 'kube-api-content-type', { initial: CONTENT_TYPES[0], choices: CONTENT_TYPES });
  if (path !== undefined && (kubeconfig !== undefined || master !== undefined)) {
    const other = read.name(kubeconfig !== undefined ? 'kubeconfig' : 'master');
    read.fault('manifests', `cannot be combined with ${other}: both name a source of objects; give one of them`);
  }
  if (path === '') read.fault('manifests', 'must name a folder, a file, or - for standard input');
  const nodePorts = readNodePorts(read);
  const allowsNodeAddressPorts = isOn(read, 'allow-node-address-ports', false);
  if (path !== undefined) return { kind: 'manifests', path, nodePorts, allowsNodeAddressPorts };
  return { kind: 'kubernetes', kubeconfig, master, contentType };
}

function readNodePorts(read: Reader): PortRange {
  const found = parsePortRange(read.text('service-node-port-range') || rangeText(NODE_PORTS));
  if (found === undefined) {
    read.fault(
      'service-node-port-range',
      'must be a range of ports from 1 to 65535, such as 30000-32767 or 30000+2767',
    );
  }
  return found ?? NODE_PORTS;
}
