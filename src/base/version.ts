import { readFileSync } from 'node:fs'

let known: string | undefined

/** The version of hapax; `unknown` where a bundler has left its package.json behind. */
export function version(): string {
  known ??= read()
  return known
}

function read(): string {
  try {
    const found = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
    return found.name === 'hapax' ? String(found.version) : 'unknown'
  } catch {
    return 'unknown'
  }
}
