import type { KeyObject } from 'node:crypto'
import type { WebhookRequest } from '../../../contracts/index.ts'
import { jsonContent, textAt, timeAt } from './content.ts'
import { BAD_SIGNATURE, BAD_TIMESTAMP, DAY_MS, missing, type Scheme, type Verdict } from './scheme.ts'
import { anyMatches, hmacs, isNear, type Secrets, type TimedSchemeOptions } from './signatures.ts'
import { timedScheme } from './timed.ts'

/** Options of `stripe`. */
export type StripeOptions = TimedSchemeOptions

/**
 * Stripe. The id and the type are those of the event. Stripe sends again for three days by itself; by hand, or with what List Events
 * returns, an event of the last 30 days may come again.
 */
export function stripe(given: StripeOptions | Secrets): Scheme {
  return timedScheme('stripe', given, 3 * DAY_MS, verified)
}

function verified({ headers, body, nowMs }: WebhookRequest, keys: readonly KeyObject[], toleranceMs: number): Verdict {
  const header = headers.get('stripe-signature')
  if (!header) return missing('stripe-signature')
  const items = header.split(',')
  const valuesOf = (name: string): readonly string[] =>
    items.filter((item) => item.startsWith(`${name}=`)).map((item) => item.slice(name.length + 1))
  const [timestamp, ...others] = valuesOf('t')
  // With two of them it would be open which one was signed.
  if (timestamp === undefined || others.length > 0) return BAD_SIGNATURE
  if (!anyMatches(valuesOf('v1'), hmacs(keys, [`${timestamp}.`, body]))) return BAD_SIGNATURE
  if (!isNear(timestamp, nowMs, toleranceMs)) return BAD_TIMESTAMP
  const content = jsonContent(body)
  const { event } = content
  // `created` is a number of seconds in v1 events, and a text in thin events (v2).
  const time = timeAt(event, 'created') ?? textAt(event, 'created')
  return { kind: 'verified', id: textAt(event, 'id'), type: textAt(event, 'type'), time, content }
}
