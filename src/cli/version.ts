/** `slicewire version`. */
import packageJson from '../../package.json' with { type: 'json' };

export function version(): string {
  return packageJson.version;
}

export function versionText(): string {
  return `slicewire ${version()} (Node.js ${process.versions.node})`;
}
