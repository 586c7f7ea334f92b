/** SCTP in IPVS mode. */
import { describe } from 'node:test';
import { tellSctp } from '../netns/sctp-telling.ts';
import { kernelIn, rigIn } from './ipvs-in.ts';

describe('SCTP, ipvs', () => {
  tellSctp(async (lab) => rigIn(lab, await kernelIn(lab, 'node')));
});
