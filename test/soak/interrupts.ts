/** Ctrl-C reaches all processes of the terminal. Those of a soak leave it to their parent, which lets them end in order. */
process.on('SIGINT', () => undefined);
