/** The manifests source: a folder, a file, or standard input, without a cluster. Folders and files are followed. */
import { normalize } from 'node:path';
import type { Source } from '../../../proxy/model/events.ts';
import { FolderFollower, type ManifestsOptions, ManifestsUnusable } from './folder-follower.ts';

export { ManifestsUnusable };

export function manifestsSource(options: ManifestsOptions): Source {
  const path = options.path === '-' ? '-' : normalize(options.path).replace(/(?<=.)\/+$/, '');
  let follower: FolderFollower | undefined;
  return {
    watches: () => follower?.watches ?? [],
    pod: (key) => Promise.resolve(follower?.store.pod(key)),
    run: (emit, signal) => {
      follower = new FolderFollower({ ...options, path }, emit);
      return follower.run(signal);
    },
  };
}
