import type { Delivery, Subscription } from '../contracts/index.ts'

/** A queue of pings that readers share, and the outcome of each. */
export interface Feed {
  readonly subscription: Subscription
  /** The ids that were acknowledged, in order. */
  readonly acked: readonly string[]
  /** How many readers are open. */
  readonly readers: number
  add(ids: readonly string[]): void
}

type Receive = (deliveries: readonly Delivery[]) => void

/**
 * A queue with pings of these ids. What a reader has not acknowledged when it closes is for the others; what it puts back comes again
 * soon.
 */
export function feed(ids: readonly string[], options: { readonly redelivered?: boolean } = {}): Feed {
  return new Queue(ids, options.redelivered ?? false)
}

class Queue implements Feed {
  readonly acked: string[] = []
  readonly #waiting: string[]
  readonly #redelivered: boolean
  /** What each open reader has in hand. */
  readonly #open = new Map<Receive, Set<string>>()

  constructor(ids: readonly string[], redelivered: boolean) {
    this.#waiting = [...ids]
    this.#redelivered = redelivered
  }

  get readers(): number {
    return this.#open.size
  }

  readonly subscription: Subscription = {
    name: 'a feed',
    features: { ordersKeys: true, marksRedelivered: true, horizonMs: undefined, limitsRejects: true },
    open: async ({ receive }) => {
      this.#open.set(receive, new Set())
      this.#handOut()
      return { horizonMs: undefined, pause: async () => {}, close: async () => this.#close(receive) }
    },
  }

  /** In turn, so that each reader gets a share. */
  add(ids: readonly string[]): void {
    this.#waiting.push(...ids)
    this.#handOut()
  }

  #handOut(): void {
    const readers = [...this.#open]
    for (let at = 0; readers.length > 0 && this.#waiting.length > 0; at++) {
      const [receive, inHand] = readers[at % readers.length] as [Receive, Set<string>]
      const id = this.#waiting.shift() as string
      inHand.add(id)
      receive([this.#delivery(id, inHand, receive)])
    }
  }

  #close(receive: Receive): void {
    const inHand = this.#open.get(receive)
    this.#open.delete(receive)
    this.add([...(inHand ?? [])])
    inHand?.clear()
  }

  #delivery(id: string, inHand: Set<string>, receive: Receive): Delivery {
    const body = Buffer.from('{"n":1}')
    const attributes = { specversion: '1.0', id, source: '/sender', type: 'ping' }
    const redelivered = this.#redelivered
    const arrival = { body, contentType: 'application/json', attributes, headers: {}, properties: {}, redelivered }
    const ack = (): void => void (inHand.delete(id) && this.acked.push(id))
    const again = (): void => {
      setTimeout(() => {
        if (this.#open.has(receive) && inHand.has(id)) receive([this.#delivery(id, inHand, receive)])
      }, 20).unref()
    }
    return {
      arrival: { ...arrival, refused: undefined },
      bytes: body.length,
      ack,
      retry: again,
      reject: again,
    }
  }
}
