import { computed, signal } from '@preact/signals'
import { base } from './api.ts'

/** A place in the console: the path below its mount, such as `failed/12`, and the query. */
export interface Place {
  readonly path: string
  readonly query: URLSearchParams
}

const here = signal(location.href)

/** Where the viewer is. */
export const place = computed<Place>(() => {
  const { pathname, searchParams } = new URL(here.value)
  const below = pathname.startsWith(base.pathname) ? pathname.slice(base.pathname.length) : ''
  return { path: below.replace(/\/$/, ''), query: searchParams }
})

/** The address of a place. */
export function href(path: string): string {
  return base.pathname + path
}

/** Goes there without loading the page again. `replace`: the back button does not return to the place before. */
export function go(path: string, { replace = false }: { readonly replace?: boolean } = {}): void {
  history[replace ? 'replaceState' : 'pushState'](null, '', href(path))
  here.value = location.href
  if (!replace) {
    scrollTo(0, 0)
    const from = document.activeElement
    // Readers are told where they are, and the next Tab begins there; unless the person has gone on in the meantime.
    requestAnimationFrame(() => {
      const stays = document.activeElement === from || document.activeElement === document.body
      if (stays) document.querySelector<HTMLElement>('h1')?.focus({ preventScroll: true })
    })
  }
}

/** Sets parameters of the query; an empty text removes one. */
export function setQuery(values: Readonly<Record<string, string>>, options: { readonly replace?: boolean } = {}): void {
  const { path, query } = place.peek()
  const next = new URLSearchParams(query)
  for (const [name, value] of Object.entries(values)) {
    if (value === '') next.delete(name)
    else next.set(name, value)
  }
  const text = next.toString()
  go(text === '' ? path : `${path}?${text}`, options)
}

/** Follows links of the console in place, as the browser would: not with a modifier, not to elsewhere. */
export function followLinks(): void {
  addEventListener('popstate', () => {
    here.value = location.href
  })
  document.addEventListener('click', (event) => {
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey
    const link = event.target instanceof Element ? event.target.closest('a') : null
    if (!plain || event.defaultPrevented || link === null || link.target !== '' || link.hasAttribute('download')) return
    const to = new URL(link.href)
    if (to.origin !== location.origin || !to.pathname.startsWith(base.pathname)) return
    // A link within the page, such as the one that skips the navigation.
    if (to.pathname === location.pathname && to.search === location.search && to.hash !== '') return
    event.preventDefault()
    go(to.pathname.slice(base.pathname.length) + to.search)
  })
}

/** Matches `failed/:seq` with a path; undefined: it is another one. */
export function match(pattern: string, path: string): Readonly<Record<string, string>> | undefined {
  const wanted = pattern.split('/')
  const given = path.split('/')
  if (wanted.length !== given.length) return undefined
  const found: Record<string, string> = {}
  for (const [index, word] of wanted.entries()) {
    const part = given[index] ?? ''
    if (word.startsWith(':')) found[word.slice(1)] = decoded(part)
    else if (word !== part) return undefined
  }
  return found
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
