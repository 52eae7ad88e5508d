import { hash } from 'node:crypto'

/** An id for an event that has none: equal bytes are the same event. */
export function bodyHash(body: Uint8Array): string {
  return `sha256:${hash('sha256', body, 'hex')}`
}
