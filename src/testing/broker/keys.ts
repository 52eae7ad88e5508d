import assert from 'node:assert/strict'
import { RetryAfter } from '../../base/index.ts'
import { until } from '../wait.ts'
import type { Case } from './case.ts'
import { KeyedPing } from './shop.ts'

/** Longer than later messages take to arrive. */
const LATER_MS = 3_000

export const keys: readonly Case[] = [
  {
    name: 'with order, messages that arrive without a key get the key of their type, and none overtakes another',
    needs: ['plain client'],
    run: async (world) => {
      const shop = world.shop()
      const late = ({
        message,
        attempt,
      }: {
        readonly message: { readonly id: string }
        readonly attempt: number
      }): void => {
        if (message.id === 'a1' && attempt === 1) throw new RetryAfter(LATER_MS)
      }
      const consumer = shop.consumer({ order: 'wait' }, late, KeyedPing)
      const single = world.can('single reader') ? { single: true } : {}
      const subscription = await world.broker.subscription('billing', single)
      await shop.work({ consume: [consumer.from(subscription)] })
      const send = (id: string): Promise<void> =>
        world.broker.send({
          body: Buffer.from(JSON.stringify({ id })),
          contentType: 'application/json',
          attributes: { specversion: '1.0', id, source: '/legacy', type: 'ping' },
        })
      await send('a1')
      await until(() => shop.calls.length > 0, 'the first message fails')
      for (const id of ['a2', 'b1']) await send(id)
      await shop.untilEffects(['a1', 'a2', 'b1'])
      assert.deepEqual(shop.effects, ['b1', 'a1', 'a2'])
      if (world.can('counting')) await world.untilNothingWaits('billing')
    },
  },
]
