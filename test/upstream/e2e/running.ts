/** Declares the tests of all suites, or of some, against one cluster: those that disturb nobody at the same time, the others after them. */
import { after, before, describe, it } from 'node:test';
import { Cluster, type Mode } from './cluster.ts';
import { run, type Suite } from './jig.ts';
import { DISRUPTIVE, SUITES } from './suites.ts';

/** Tests at the same time: each waits most of its time. */
const AT_ONCE = 8;

/** `chosen`: titles, or all when missing. */
export function testCluster(mode: Mode, isChosen: (title: string) => boolean = () => true): void {
  describe(`the end-to-end tests of Kubernetes for Services, in ${mode} mode`, () => {
    let cluster: Cluster;
    before(async () => {
      cluster = await Cluster.start(mode);
    });
    after(() => cluster?.stop());

    const declare = (suites: Readonly<Record<string, Suite>>, concurrency: number) => {
      for (const [subject, suite] of Object.entries(suites))
        describe(subject, { concurrency }, () => {
          for (const [title, test] of Object.entries(suite)) if (isChosen(title)) it(title, () => run(cluster, test));
        });
    };
    declare(SUITES, AT_ONCE);
    declare(DISRUPTIVE, 1);
  });
}
