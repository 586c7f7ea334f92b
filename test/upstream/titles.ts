/** The titles of tests in a file, as far as its text tells them. */

const LITERAL = /'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"/g;
/** A row of a table by a name without quotes. */
const KEY = /^\s*(\w+): /gm;
const TEMPLATE = /\b(?:it|test|describe)\(\s*`((?:[^`\\]|\\.)*)`/g;
/** An expression of a template; one level of braces inside. */
const EXPRESSION = /\$\{(?:[^{}]|\{[^{}]*\})*\}/;

/**
 * Whether the file has a test, or a suite, of this title: it is a whole text there (tables have titles of tests as
 * texts), or a template is a title and can give it. A title of several parts, `suite > test`, needs every part.
 */
export function hasTitle(source: string, title: string): boolean {
  if (isText(source, title) || isFromTemplate(source, title)) return true;
  return [...title.matchAll(/ > /g)].some(
    ({ index }) => hasTitle(source, title.slice(0, index)) && hasTitle(source, title.slice(index + 3)),
  );
}

function isText(source: string, title: string): boolean {
  const literals = [...source.matchAll(LITERAL)].map(([, single, double]) => unescaped(single ?? double ?? ''));
  return literals.includes(title) || [...source.matchAll(KEY)].some(([, key]) => key === title);
}

function isFromTemplate(source: string, title: string): boolean {
  return [...source.matchAll(TEMPLATE)].some(([, template = '']) => {
    const parts = template.split(EXPRESSION).map((part) => unescaped(part));
    // Expressions alone would give every title.
    if (!parts.some((part) => /[a-z]{2}/i.test(part))) return false;
    return new RegExp(`^${parts.map((part) => RegExp.escape(part)).join('.+')}$`, 's').test(title);
  });
}

const unescaped = (text: string) => text.replace(/\\(.)/g, '$1');
