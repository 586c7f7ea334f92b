/** Whole command lines, run as a process that ends before it reads the machine, and its standard error. */
import type { Row } from './row.ts';

export const COMMAND_LINES: readonly Row<readonly string[]>[] = [
  {
    name: 'an unknown command',
    input: ['launch'],
    message:
      'slicewire: unknown command launch; the commands are run, plan, shadow, cleanup, explain, verify, status, history, exposure, record, replay, controller, fleet, drained, demo, completion, version, kubectl and help',
  },
  {
    name: 'the help of an unknown command',
    input: ['help', 'launch'],
    message:
      'slicewire: unknown command launch; the commands are run, plan, shadow, cleanup, explain, verify, status, history, exposure, record, replay, controller, fleet, drained, demo, completion, version, kubectl and help',
  },
  {
    name: 'the plugin of kubectl, asked for one node and for all',
    input: ['kubectl', 'status', '--node', 'node-7', '--all-nodes'],
    message: 'slicewire: --node node-7: cannot be combined with --all-nodes',
  },
  {
    name: 'a namespace of the agents that would be another path of the API',
    input: ['kubectl', 'status', '--namespace', '..'],
    message: 'slicewire: --namespace ..: must be the name of a namespace, such as kube-system',
  },
  {
    name: 'a sender that is no name of a Pod',
    input: ['kubectl', 'explain', 'pod/../nodes', 'svc/shop/web'],
    message: 'slicewire: FROM pod/../nodes: a Pod is written pod/NAMESPACE/NAME',
  },
  {
    name: 'a Pod that ends, without its name',
    input: ['drained'],
    message:
      'slicewire: --pod: name the Pod that ends, or its --address; where neither is given, the environment variable POD_NAME counts',
  },
  {
    name: 'a Pod that ends, by name and by address',
    input: ['drained', '--pod', 'shop/web-1', '--address', '10.244.1.13'],
    message: 'slicewire: --address 10.244.1.13: cannot be combined with --pod: both name what ends; give one',
  },
  {
    name: 'an address that ends and is none',
    input: ['drained', '--address', '10.244.1'],
    message: 'slicewire: --address 10.244.1: must be an IP address, such as 10.244.1.13',
  },
  {
    name: 'a Pod that ends, with too many slashes',
    input: ['drained', '--pod', 'shop/web/1'],
    message: 'slicewire: --pod shop/web/1: must be NAME or NAMESPACE/NAME of a Pod',
  },
  {
    name: 'a wait for the end of a Pod that is too long',
    input: ['drained', '--pod', 'shop/web-1', '--timeout', '1h'],
    message: 'slicewire: --timeout 1h: must be a duration of more than 0 and at most 10m, such as 30s',
  },
  {
    name: 'a fleet without a protocol',
    input: ['drained', '--pod', 'shop/web-1', '--fleet', '10.96.0.99:10262'],
    message:
      'slicewire: --fleet 10.96.0.99:10262: must be http://HOST:PORT of the fleet, such as http://slicewire-fleet.kube-system:10262',
  },
  {
    name: 'a token for the fleet that is not there',
    input: ['drained', '--pod', 'shop/web-1', '--token-file', '/no/such/token'],
    message: 'slicewire: --token-file /no/such/token: cannot be read',
  },
  {
    name: 'the completion of an unknown shell',
    input: ['completion', 'tcsh'],
    message: 'slicewire: unknown shell tcsh; completion knows bash, zsh, fish',
  },
  {
    name: 'an unknown flag',
    input: ['plan', '--no-such-flag'],
    message:
      "slicewire: unknown option '--no-such-flag'\n(slicewire --help lists the commands, slicewire run --help the flags)",
  },
  {
    name: 'a flag without its value',
    input: ['plan', '--manifests'],
    message:
      "slicewire: option '--manifests <path>' argument missing\n(slicewire --help lists the commands, slicewire run --help the flags)",
  },
  {
    name: 'an action that is neither true nor false',
    input: ['--once=perhaps'],
    message: 'slicewire: --once=perhaps: must be true or false',
  },
  {
    name: 'an unknown output format',
    input: ['plan', '--output', 'yaml'],
    message:
      "slicewire: option '-o, --output <form>' argument 'yaml' is invalid. Allowed choices are text, json.\n(slicewire --help lists the commands, slicewire run --help the flags)",
  },
  {
    name: 'a word too many',
    input: ['plan', 'now'],
    message:
      "slicewire: too many arguments for 'plan'. Expected 0 arguments but got 1: now.\n(slicewire --help lists the commands, slicewire run --help the flags)",
  },
  {
    name: 'a flag with a wrong value',
    input: ['plan', '--manifests', '/m', '--mode', 'userspace'],
    message: 'slicewire: --mode=userspace: must be iptables, ipvs, nftables or auto',
  },
  {
    name: 'explain without a destination',
    input: ['explain', '10.244.1.7'],
    message:
      "slicewire: missing required argument 'TO'\n(for example: slicewire explain 10.244.1.13 svc/shop/web; slicewire explain --help has the rest)",
  },
  {
    name: 'a moment that is none',
    input: ['explain', '10.244.1.7', 'svc/shop/web', '--at', 'soon'],
    message:
      'slicewire: --at: soon is not a time in the past: write a time of day such as 12:03:04 or 12:03:04.500, a moment such as 2026-11-22T12:03:04Z, or a duration before now such as -5m',
  },
  {
    name: 'a span that is none',
    input: ['history', '--since', 'ever'],
    message:
      'slicewire: --since: ever is not a time in the past: write a duration such as 10m, or a time of day such as 12:03:04 or 12:03:04.500, a moment such as 2026-11-22T12:03:04Z, or a duration before now such as -5m',
  },
  {
    name: 'real packets of the past',
    input: ['explain', '10.244.1.7', 'svc/shop/web', '--live', '--at', '-5m'],
    message: 'slicewire: --live traces packets of now: it cannot be combined with --at or --recording',
  },
  {
    name: 'a time to trace without a trace',
    input: ['explain', '10.244.1.7', 'svc/shop/web', '--seconds', '5'],
    message: 'slicewire: --seconds 5: has no meaning without --live',
  },
  {
    name: 'a time to trace that is too long',
    input: ['explain', '10.244.1.7', 'svc/shop/web', '--live', '--seconds', '301'],
    message: 'slicewire: --seconds 301: must be a number from 1 to 300',
  },
  {
    name: 'a Service without a namespace',
    input: ['history', 'web'],
    message: 'slicewire: web is no Service: write NAMESPACE/NAME, such as shop/web',
  },
  {
    name: 'two answers',
    input: ['status', '--recording', '/r', '--manifests', '/m'],
    message: 'slicewire: --recording /r: cannot be combined with --manifests: both name what answers; give one of them',
  },
  {
    name: 'history without an agent',
    input: ['history', '--manifests', '/m'],
    message:
      'slicewire: history is kept by an agent that runs, or by a file: leave out the source of objects, or use --recording FILE',
  },
  {
    name: 'watching where no agent runs',
    input: ['status', '--watch', '--manifests', '/m'],
    message: 'slicewire: --watch follows an agent that runs: leave out the source of objects',
  },
  {
    name: 'an agent that does not answer',
    input: ['status', '--metrics-bind-address', '127.0.0.1:1'],
    message:
      'slicewire: no agent answers at 127.0.0.1:1 (nothing listens there): start it, or name its address with --metrics-bind-address; without an agent, use --kubeconfig FILE, --manifests PATH or --recording FILE',
  },
  {
    name: 'a recording of an agent that does not answer',
    input: ['record', '/tmp/never-written', '--metrics-bind-address', '127.0.0.1:1'],
    message:
      'slicewire: no agent answers at 127.0.0.1:1 (nothing listens there): start it, or name its address with --metrics-bind-address',
  },
  {
    name: 'a history of an agent that does not answer',
    input: ['history', '--metrics-bind-address', '127.0.0.1:1'],
    message:
      'slicewire: no agent answers at 127.0.0.1:1 (nothing listens there): start it, or name its address with --metrics-bind-address; without an agent, use --recording FILE',
  },
  {
    name: 'a recording that is not there',
    input: ['replay', '/no/such/file'],
    message: 'slicewire: the recording /no/such/file cannot be read: there is no such file or folder',
  },
  {
    name: 'a recording that is a folder',
    input: ['status', '--recording', '/'],
    message: 'slicewire: the recording / is no file',
  },
  {
    name: 'a recording that is none',
    input: ['replay', 'package.json'],
    message: 'slicewire: package.json: this is not a recording: it does not begin with "slicewire-recording"',
  },
  {
    name: 'a time to record that is none',
    input: ['record', '/tmp/r', '--for', '30'],
    message: 'slicewire: --for 30: must be a duration from 1s to 24h, such as 30s',
  },
];
