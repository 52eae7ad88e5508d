import { job, say } from '../support/child.ts'
import { type Moment, type OrdersPlace, order, takeOrders } from './redis-orders.ts'

/** A process that takes one order, and stops at a moment of it, to be killed there. */
export interface OrdersJob {
  readonly place: OrdersPlace
  readonly key: string
  readonly moment: Moment
}

const { place, key, moment } = job<OrdersJob>()
const { post } = takeOrders(place, async (now) => {
  if (now !== moment) return
  await say({ now })
  await new Promise(() => {})
})
await post(order(key))
