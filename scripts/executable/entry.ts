/** The program of the executable, with the warm-up that the build runs. */
import '../../src/main.ts';

export { warmUp } from './warm-up.ts';
