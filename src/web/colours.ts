/** Colours of the style sheet for a canvas. */

/** `name`: of a custom property, such as `--ok`; it is read where the element is. */
export function colourOf(name: string, box: HTMLElement): string {
  const probe = document.createElement('span');
  probe.style.color = `var(${name})`;
  box.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
