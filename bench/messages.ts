import { randomUUID } from 'node:crypto'
import { defineMessage, type IncomingMessage } from 'hapax'

export interface Order {
  readonly orderId: string
  readonly amount: number
}

export const OrderPlaced = defineMessage<Order>('order.placed')

const SOURCE = '/shop'

/** Messages as a broker would hand them over, with UUIDv7-like ids that rise. */
export function messages(count: number): readonly (IncomingMessage & { readonly id: string; readonly data: Order })[] {
  return Array.from({ length: count }, () => {
    const id = risingId()
    return { id, type: OrderPlaced.type, source: SOURCE, data: { orderId: id.slice(-12), amount: 42 } }
  })
}

let counter = 0

function risingId(): string {
  counter += 1
  const time = (Date.now() * 4096 + counter).toString(16).padStart(15, '0')
  const random = randomUUID()
  return `${time.slice(0, 8)}-${time.slice(8, 12)}-7${time.slice(12, 15)}-${random.slice(19)}`
}
