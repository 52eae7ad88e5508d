import type { Destination, Subscription } from 'hapax'

/** What a rig does wrong on purpose, so that its checker can be seen to notice. */
export type Sabotage = 'acks first' | 'does not wait for confirms' | 'doubles effects'

/** Acknowledges what arrives before anybody has handled it. */
export function ackingFirst(subscription: Subscription): Subscription {
  return {
    name: subscription.name,
    features: subscription.features,
    open: (options) =>
      subscription.open({
        ...options,
        receive: (deliveries) => {
          for (const delivery of deliveries) delivery.ack()
          options.receive(deliveries)
        },
      }),
  }
}

/** Takes everything for confirmed that it has sent. */
export function unconfirmed(destination: Destination): Destination {
  return {
    name: destination.name,
    features: destination.features,
    prepare: () => destination.prepare(),
    publish: (messages, _, settle) => {
      destination.publish(messages, new AbortController().signal, () => {})
      for (const index of messages.keys()) settle(index, { status: 'confirmed' })
    },
    close: () => destination.close(),
  }
}
