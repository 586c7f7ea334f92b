/**
 * A lock of iptables for this process and those that it starts. The legacy variant takes one lock on the whole machine,
 * /run/xtables.lock, in every network namespace: a test that holds it would hold up the tests beside it. iptables takes the
 * name of another file from XTABLES_LOCKFILE (iptables/xshared.c).
 */
import { rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const OWN_LOCK = join(tmpdir(), `slicewire-xtables-${process.pid}.lock`);

process.env.XTABLES_LOCKFILE = OWN_LOCK;
process.on('exit', () => rmSync(OWN_LOCK, { force: true }));
