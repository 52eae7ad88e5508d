import type { KeyObject } from 'node:crypto'
import { oneOf } from '../../../base/index.ts'
import type { WebhookRequest } from '../../../contracts/index.ts'
import { contentOf } from './content.ts'
import { headersOf } from './headers.ts'
import { BAD_SIGNATURE, HOUR_MS, missing, type Scheme, type Verdict } from './scheme.ts'
import {
  anyMatches,
  hmacs,
  isSecrets,
  onlyOptions,
  resendsOption,
  type SchemeOptions,
  type Secrets,
  textKeys,
} from './signatures.ts'

/** Options of `shopify`. */
export interface ShopifyOptions extends SchemeOptions {
  /**
   * `webhook` takes each delivery of a subscription once. `event` takes an event once, although several subscriptions of the app deliver
   * it. @default 'webhook'
   */
  readonly id?: 'webhook' | 'event'
}

/**
 * Shopify. The secret is the client secret of the app. The id is the header `X-Shopify-Webhook-Id`, the type is the topic, for example
 * `orders/create`. The headers of Events, which have no `X-`, are understood as well. Shopify tries eight times within four hours.
 */
export function shopify(given: ShopifyOptions | Secrets): Scheme {
  const options: ShopifyOptions = isSecrets(given) ? { secrets: given } : given
  onlyOptions('shopify', options, ['id'])
  const id = oneOf('id', ['webhook', 'event'], options.id, 'webhook')
  const keys = textKeys(options.secrets)
  return {
    name: 'shopify',
    resendsForMs: resendsOption(options.resendsForMs, 4 * HOUR_MS),
    verify: (request) => verified(request, keys, `${id}-id`),
  }
}

function verified({ headers, body }: WebhookRequest, keys: readonly KeyObject[], idName: string): Verdict {
  const prefix = headers.get('shopify-topic') === null ? 'x-shopify-' : 'shopify-'
  const headerOf = (name: string): string => headers.get(prefix + name) ?? ''
  for (const name of ['hmac-sha256', idName, 'topic']) if (headerOf(name) === '') return missing(prefix + name)
  if (!anyMatches([headerOf('hmac-sha256')], hmacs(keys, [body], { encoding: 'base64' }))) return BAD_SIGNATURE
  return {
    kind: 'verified',
    id: headerOf(idName),
    type: headerOf('topic'),
    time: headerOf('triggered-at') || undefined,
    headers: headersOf(
      headers,
      KEPT.map((name) => prefix + name),
    ),
    content: contentOf(body, headers.get('content-type')),
  }
}

const KEPT = ['shop-domain', 'api-version', 'event-id', 'webhook-id', 'name', 'sub-topic', 'handle', 'action'] as const
