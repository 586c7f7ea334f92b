/** The message of a failed system call on a file. */
export function fileProblem(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT') return 'there is no such file or folder';
  if (code === 'EISDIR') return 'it is a folder, not a file';
  return code === 'EACCES' ? 'permission denied' : message;
}
