export async function demoCommand(_: { signal: AbortSignal; print: (text: string) => void }): Promise<number> { return 0; }
