/** One message: what is given, and the whole of what is said. */
export interface Row<Input> {
  readonly name: string;
  readonly input: Input;
  readonly message: string;
}
