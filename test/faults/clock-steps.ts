import { setTimeout as delay } from 'node:timers/promises'
import { type Consumer, defineMessage, type Hapax, type Leased } from 'hapax'
import { insertEffect, type Place, type RigTx } from '../support/databases.ts'

/** A message: handled at once, or only at the second attempt. */
export interface Order {
  readonly id: string
  readonly fails: boolean
}

export const Order = defineMessage<Order>('order')
export const Sms = defineMessage<{ readonly id: string }>('sms')

/** Two consumers that write one row per message each. */
export function shopOn(
  hapax: Hapax<RigTx, unknown>,
  place: Place,
  beforeSms: () => Promise<unknown> = async () => {},
): readonly (Consumer<RigTx> | Leased<RigTx>)[] {
  const retry = { attempts: 100, minDelayMs: 500, maxDelayMs: 1_500 }
  const billing = hapax.consumer('billing', { receive: 'store', concurrency: 4, retry })
  billing.on(Order, async ({ id, fails }, { tx, attempt }) => {
    if (fails && attempt === 1) throw new Error('not yet')
    await delay(20)
    await tx.query(insertEffect(place, 'billing', id))
  })
  const sms = hapax.leased('sms', { leaseMs: 3_000, retry })
  sms.on(Sms, async ({ id }, ctx) => {
    await beforeSms()
    ctx.complete(async (tx) => void (await tx.query(insertEffect(place, 'sms', id))))
  })
  return [billing, sms]
}
