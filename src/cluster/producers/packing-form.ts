/** The form of packed data: the first byte of each value. */

/** A byte from `FIRST_WORD` on is a word. */
export const NULL = 0;
export const FALSE = 1;
export const TRUE = 2;
export const UNDEFINED = 3;
export const DOUBLE = 4;
export const INTEGER = 5;
export const ARRAY = 6;
export const OBJECT = 7;
/** An object with the fields of an earlier one. */
export const OBJECT_AGAIN = 8;
export const TEXT = 9;
/** A text that was there before. */
export const TEXT_AGAIN = 10;
/** A text that begins as the last one of the same field. */
export const TEXT_ALIKE = 11;
/** Texts with a form of their own (`packing-texts.ts`). */
export const NUMBER = 16;
export const IPV4 = 17;
export const TIME = 18;
export const UUID = 19;
export const FIRST_WORD = 32;
