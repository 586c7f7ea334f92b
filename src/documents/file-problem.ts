/** Why a file cannot be used, in words. */
export function fileProblem(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT') return 'there is no such file or folder';
  return code === 'EACCES' ? 'permission denied' : message;
}
