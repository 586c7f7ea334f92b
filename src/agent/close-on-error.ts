/** What is opened for something that then cannot be built must not stay open. */
export async function closeOnError<T>(opened: { close(): void }, build: () => Promise<T>): Promise<T> {
  try {
    return await build();
  } catch (error) {
    opened.close();
    throw error;
  }
}
