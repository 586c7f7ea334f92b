/** Dark or light: the system's theme, or the chosen one. */
import { useEffect, useState } from 'preact/hooks';

const CHOICES = ['auto', 'light', 'dark'] as const;
type Theme = (typeof CHOICES)[number];

const KEY = 'slicewire-theme';
const DARK = '(prefers-color-scheme: dark)';

export interface Themes {
  readonly chosen: Theme;
  /** The theme that is shown. */
  readonly seen: 'light' | 'dark';
  /** Chooses the next one. */
  next(): void;
}

export function useTheme(): Themes {
  const [chosen, setChosen] = useState(stored);
  const [isSystemDark, setSystemDark] = useState(matchMedia(DARK).matches);
  useEffect(() => {
    const media = matchMedia(DARK);
    const onChange = () => setSystemDark(media.matches);
    media.addEventListener('change', onChange);
    return () => media.removeEventListener('change', onChange);
  }, []);
  return {
    chosen,
    seen: chosen === 'auto' ? (isSystemDark ? 'dark' : 'light') : chosen,
    next() {
      const theme = CHOICES[(CHOICES.indexOf(chosen) + 1) % CHOICES.length] ?? 'auto';
      show(theme);
      setChosen(theme);
    },
  };
}

/** To be called before the first drawing, so that nothing flashes. */
export function showStoredTheme(): void {
  show(stored());
}

function show(theme: Theme): void {
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // A browser that stores nothing shows the theme until the page is left.
  }
}

function stored(): Theme {
  try {
    const text = localStorage.getItem(KEY);
    return CHOICES.find((theme) => theme === text) ?? 'auto';
  } catch {
    return 'auto';
  }
}

/** A colour of the style sheet for a canvas. `name`: a custom property such as `--ok`, read inside `box`. */
export function colourOf(name: string, box: HTMLElement): string {
  const probe = document.createElement('span');
  probe.style.color = `var(${name})`;
  box.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
