/** SCTP in IPVS mode. */
import { describe } from 'node:test';
import { testSctp } from '../netns/sctp-stories.ts';
import { kernelIn, rigIn } from './ipvs-under-test.ts';

describe('SCTP, ipvs', () => {
  testSctp(async (lab) => rigIn(lab, await kernelIn(lab, 'node')));
});
