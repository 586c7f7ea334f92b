/** `slicewire version`. */
import packageJson from '../../package.json' with { type: 'json' };

export function versionText(): string {
  return `slicewire ${packageJson.version} (Node.js ${process.versions.node})`;
}
