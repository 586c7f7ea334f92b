/** Something that must hold in every history does not. */
export class Violation extends Error {
  readonly code = 'VIOLATION';
  /** The same for the same kind of fault: a shorter history must fail in the same way. */
  readonly kind: string;

  constructor(kind: string, text: string) {
    super(text);
    this.kind = kind;
  }
}
