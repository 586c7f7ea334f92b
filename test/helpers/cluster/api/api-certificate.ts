/** A certificate for the API server of tests, made by openssl in the test's own folder. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** Writes `tls.key` and `tls.crt`, valid for 127.0.0.1, self-signed: it is its own authority. */
export async function makeCertificate(folder: string, name = 'api-server'): Promise<{ key: string; cert: string }> {
  const [key, cert] = [join(folder, 'tls.key'), join(folder, 'tls.crt')];
  const about = ['-subj', `/CN=${name}`, '-addext', 'subjectAltName=IP:127.0.0.1', '-days', '2'];
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  await promisify(execFile)('openssl', ['req', '-x509', ...kind, ...about, '-keyout', key, '-out', cert]);
  return { key: await readFile(key, 'utf8'), cert: await readFile(cert, 'utf8') };
}
