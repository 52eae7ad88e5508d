import type { KeyObject } from 'node:crypto'
import type { WebhookRequest } from '../../../contracts/index.ts'
import { bodyHash } from './body-hash.ts'
import { contentOf, textAt, timeAt } from './content.ts'
import { BAD_SIGNATURE, BAD_TIMESTAMP, DAY_MS, missing, type Scheme, type Verdict } from './scheme.ts'
import { anyMatches, hmacs, isNear, type Secrets, type TimedSchemeOptions } from './signatures.ts'
import { timedScheme } from './timed.ts'

/** Options of `slack`. */
export type SlackOptions = TimedSchemeOptions

/**
 * Slack: events, commands and interactions. The secret is the signing secret of the app. The id of an event is its `event_id`, the type
 * is that of the inner event, for example `app_mention`; what has no `event_id` is identified by its bytes, in which Slack puts a trigger
 * of its own. Answers the check of the address. Slack waits for 3 seconds, and tries again at once, after a minute and after five; the
 * rest of the day that is asked for is a margin.
 */
export function slack(given: SlackOptions | Secrets): Scheme {
  return timedScheme('slack', given, DAY_MS, verified)
}

function verified({ headers, body, nowMs }: WebhookRequest, keys: readonly KeyObject[], toleranceMs: number): Verdict {
  const signature = headers.get('x-slack-signature')
  const timestamp = headers.get('x-slack-request-timestamp')
  if (!signature) return missing('x-slack-signature')
  if (!timestamp) return missing('x-slack-request-timestamp')
  const signatures = hmacs(keys, [`v0:${timestamp}:`, body]).map((each) => `v0=${each}`)
  if (!anyMatches([signature], signatures)) return BAD_SIGNATURE
  if (!isNear(timestamp, nowMs, toleranceMs)) return BAD_TIMESTAMP
  const content = contentOf(body, headers.get('content-type'))
  const { event } = content
  const [type, challenge] = [textAt(event, 'type'), textAt(event, 'challenge')]
  return {
    kind: 'verified',
    id: textAt(event, 'event_id') ?? bodyHash(body),
    type: type === 'event_callback' ? textAt(event, 'event.type') : (type ?? textAt(event, 'command')),
    time: timeAt(event, 'event_time'),
    // Not a duplicate: what was sent before may have failed.
    redelivered: headers.get('x-slack-retry-num') !== null,
    content,
    ...(type === 'url_verification' && challenge !== undefined && { challenge }),
  }
}
