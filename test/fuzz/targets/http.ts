/**
 * Requests to the agent's servers: raw bytes on a socket one time in sixteen, otherwise a request line and headers for the handlers of
 * health, metrics and questions.
 */
import { connect } from 'node:net';
import { NoAnswer, WrongQuestion } from '../../../src/answers/problem.ts';
import { questionsOf } from '../../../src/agent/questions/parameters.ts';
import { readQuestion } from '../../../src/explain/question.ts';
import type { Address } from '../../../src/model/address.ts';
import { Health } from '../../../src/serve/health.ts';
import { healthHandler } from '../../../src/serve/health-server.ts';
import { type Asked, type Handler, HttpServer } from '../../../src/serve/http.ts';
import { metricsHandler } from '../../../src/serve/metrics-server.ts';
import { askedNode } from '../../helpers/asking.ts';
import { FakeClock } from '../../helpers/fake-clock.ts';
import { corpusFiles } from '../corpus/read.ts';
import { mutateText } from '../mutate/text.ts';
import { soundNumber, soundTime } from '../sound/text.ts';
import { sure, type Target } from '../target.ts';
