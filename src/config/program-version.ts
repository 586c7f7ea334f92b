/** `slicewire version`. */
import packageJson from '../../package.json' with { type: 'json' };

export function version(): string {
  return packageJson.version;
}

/** User-Agent of requests to the API server, in the form of other Kubernetes programs. */
export function userAgent(part: 'agent' | 'shadow' | 'controller' | 'fleet' | 'kubectl'): string {
  const architecture = process.arch === 'x64' ? 'amd64' : process.arch;
  return `slicewire/${version()} (${process.platform}/${architecture}) ${part}`;
}

export function versionText(): string {
  return `slicewire ${version()} (Node.js ${process.versions.node})`;
}
