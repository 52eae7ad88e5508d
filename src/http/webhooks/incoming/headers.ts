import type { WebhookRequest } from '../../../contracts/index.ts'

/** Those of these headers that came, by their lower-case names. */
export function headersOf(headers: WebhookRequest['headers'], names: readonly string[]): Record<string, string> {
  const found: Record<string, string> = {}
  for (const name of names) {
    const value = headers.get(name)
    if (value !== null) found[name] = value
  }
  return found
}
