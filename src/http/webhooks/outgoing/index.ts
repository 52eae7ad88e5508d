import type { EndpointDestination } from '../../../contracts/index.ts'
import { WebhooksDestination } from './destination.ts'
import { type WebhooksOptions, webhooksSettings } from './options.ts'

export type { WebhooksOptions } from './options.ts'
export type { BodyFormat } from './request.ts'

/**
 * A destination for a relay whose messages go to registered endpoints, signed as Standard Webhooks. Only addresses on the internet are
 * called, unless the options say otherwise.
 */
export function webhooks(options: WebhooksOptions = {}): EndpointDestination {
  return new WebhooksDestination(webhooksSettings(options))
}
