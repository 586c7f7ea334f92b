/** Whole command lines, run as a process that ends before it reads the machine, and its standard error. */
import type { Row } from './row.ts';

export const COMMAND_LINES: readonly Row<readonly string[]>[] = [
  {
    name: 'an unknown command',
    input: ['launch'],
    message:
      'slicewire: unknown command launch; the commands are run, plan, cleanup, explain, status, history, record, replay, controller, demo, version and help',
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
    message: 'slicewire: --mode=userspace: must be iptables, ipvs or nftables',
  },
];
