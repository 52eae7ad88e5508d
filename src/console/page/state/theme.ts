import { effect, signal } from '@preact/signals'

type Theme = 'system' | 'light' | 'dark'

const KEY = 'hapax-theme'

/** Light or dark, or as the system has it. */
const theme = signal<Theme>(stored())
/** Changes whenever colours may have: charts draw again. */
export const colours = signal(0)

const dark = matchMedia('(prefers-color-scheme: dark)')
dark.addEventListener('change', () => {
  colours.value += 1
})

effect(() => {
  const chosen = theme.value
  if (chosen === 'system') delete document.documentElement.dataset['theme']
  else document.documentElement.dataset['theme'] = chosen
  try {
    localStorage.setItem(KEY, chosen)
  } catch {
    // A browser that keeps nothing forgets this, too.
  }
  colours.value = colours.peek() + 1
})

/** The other one of what is shown now. */
export function toggleTheme(): void {
  const shown = theme.peek() === 'system' ? (dark.matches ? 'dark' : 'light') : theme.peek()
  theme.value = shown === 'dark' ? 'light' : 'dark'
}

function stored(): Theme {
  try {
    const found = localStorage.getItem(KEY)
    return found === 'light' || found === 'dark' ? found : 'system'
  } catch {
    return 'system'
  }
}
