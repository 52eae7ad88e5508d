// Where in the console a request goes. The base path may be given, found out, or stripped by a proxy: pages and answers only contain
// relative addresses, so that it is all the same to them.

/** A place in the console. */
export interface Place {
  /** The decoded segments after the base path; empty: the first page. */
  readonly segments: readonly string[]
  /** From the address of the request to the root of the console: `./`, `../`, or `./ops/` where the slash at the end is missing. */
  readonly root: string
}

/** The first segments of the page's own addresses: the page is served there, and finds its way itself. */
export const PAGES: readonly string[] = [
  'consumers',
  'relays',
  'messages',
  'message',
  'failed',
  'keys',
  'effects',
  'workers',
  'retries',
  'operations',
  'audit',
  'health',
]

/** Finds the place of a request. Undefined: its path cannot be decoded, or lies outside. */
export function placeOf(
  pathname: string,
  basePath: string | undefined,
  isKnown: (segments: readonly string[]) => boolean,
): Place | undefined {
  if (basePath === undefined) return foundPlace(pathname, isKnown)
  if (pathname === basePath && basePath !== '') return rootWithoutSlash(pathname)
  // A proxy that strips the prefix shows the rest only.
  return placeAt(pathname.startsWith(`${basePath}/`) ? pathname.slice(basePath.length) : pathname)
}

/** No place of the console has more segments, with the empty one after a slash at the end. */
const MOST_SEGMENTS = 6

/**
 * The longest end of the path that names something of the console. If none does, all of it is where the console is mounted. Only a few
 * ends are looked at: anybody may send a path with thousands of slashes.
 */
function foundPlace(pathname: string, isKnown: (segments: readonly string[]) => boolean): Place | undefined {
  const all = decoded(pathname.slice(1).split('/'))
  if (all === undefined) return undefined
  for (let length = Math.min(MOST_SEGMENTS, all.length); length > 0; length -= 1) {
    const segments = withoutSlash(all.slice(-length))
    if (isKnown(segments)) return { segments, root: rootFrom(length) }
  }
  if (pathname.endsWith('/')) return placeAt('/')
  // A call that does not exist is refused, and not taken for where the console is mounted.
  const call = all.lastIndexOf('api')
  if (call < 0) return rootWithoutSlash(pathname)
  return { segments: all.slice(call), root: rootFrom(all.length - call) }
}

/** `path` begins with a slash. */
function placeAt(path: string): Place | undefined {
  const parts = path.slice(1).split('/')
  const segments = path === '/' ? [] : decoded(parts)
  if (segments === undefined) return undefined
  return { segments: withoutSlash(segments), root: rootFrom(parts.length) }
}

/** Next redirects to addresses with a slash at their end where `trailingSlash` is set, also those of calls. */
function withoutSlash(segments: readonly string[]): readonly string[] {
  return segments.length > 1 && segments.at(-1) === '' ? segments.slice(0, -1) : segments
}

function rootFrom(segments: number): string {
  return '../'.repeat(segments - 1) || './'
}

/** Not redirected to the address with the slash: frameworks such as Next redirect that one back. */
function rootWithoutSlash(pathname: string): Place {
  return { segments: [], root: `.${pathname.slice(pathname.lastIndexOf('/'))}/` }
}

function decoded(parts: readonly string[]): readonly string[] | undefined {
  try {
    return parts.map((each) => decodeURIComponent(each))
  } catch {
    return undefined
  }
}

/** The named parts of a path that fits a pattern such as `api/failed/:seq`; undefined: it does not. */
export function matched(pattern: string, segments: readonly string[]): Readonly<Record<string, string>> | undefined {
  const words = pattern.split('/')
  if (words.length !== segments.length) return undefined
  const named: Record<string, string> = {}
  for (const [index, word] of words.entries()) {
    const segment = segments[index] ?? ''
    if (word.startsWith(':')) named[word.slice(1)] = segment
    else if (word !== segment) return undefined
  }
  return named
}
