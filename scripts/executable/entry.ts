/** The program of the executable, with what the build compiles it for. */
import '../../src/main.ts';

export { warmUp } from './warm-up.ts';
