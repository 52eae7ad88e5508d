import type { Delivery, Subscription } from '../core/broker.ts'

/** A subscription that hands out given messages once, and what became of each. */
export interface Feed {
  readonly subscription: Subscription
  /** The ids that were acknowledged. */
  readonly acked: readonly string[]
}

/** A subscription with pings of these ids. */
export function feed(ids: readonly string[], options: { readonly redelivered?: boolean } = {}): Feed {
  const acked: string[] = []
  const deliveries = ids.map((id) => delivery(id, options.redelivered ?? false, () => acked.push(id)))
  const subscription: Subscription = {
    name: 'a feed',
    features: { ordersKeys: true, marksRedelivered: true, horizonMs: undefined, limitsRejects: true },
    open: async ({ receive }) => {
      receive(deliveries)
      return { horizonMs: undefined, pause: async () => {}, close: async () => {} }
    },
  }
  return { subscription, acked }
}

function delivery(id: string, redelivered: boolean, ack: () => void): Delivery {
  const body = Buffer.from('{"n":1}')
  const attributes = { specversion: '1.0', id, source: '/sender', type: 'ping' }
  const contentType = 'application/json'
  const arrival = { body, contentType, attributes, headers: {}, properties: {}, redelivered, refused: undefined }
  return { arrival, bytes: body.length, ack, retry: () => {}, reject: () => {} }
}
