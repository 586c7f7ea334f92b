/** The kubeconfig. Its credentials are not applied: a plugin that it names would run. */
import { credentialsOf, KubeconfigUnusable, kubeconfigIn } from '../../../src/cluster/api/credentials.ts';
import { corpusFiles } from '../corpus/read.ts';
import { mutateText } from '../mutate/text.ts';
import { soundPrototypes } from '../sound/text.ts';
import { sure, type Target } from '../target.ts';
import { partsOf } from './yaml.ts';

const PATH = '/etc/kubernetes/kubeconfig';

export const kubeconfig: Target = {
  name: 'kubeconfig',
  declared: [KubeconfigUnusable],
  seeds: corpusFiles('kubeconfig'),
  mutate: mutateText,
  async run(input) {
    const file = kubeconfigIn(partsOf(input.toString(), true), PATH);
    const { server } = await credentialsOf(file, { kubeconfig: PATH, master: undefined });
    sure(/^https?:/i.test(new URL(server).protocol), () => `the server is ${server}`);
    soundPrototypes();
  },
};
