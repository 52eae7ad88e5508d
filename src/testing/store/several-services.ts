import assert from 'node:assert/strict'
import { isHapaxError, type Logger, silentLogger } from '../../base/index.ts'
import type { Case } from './case.ts'
import { TestDestination } from './doubles.ts'
import { type AnyHapax, Ping, Pong, type World } from './world.ts'

/** Keeps the warnings of a hapax. */
function warningsTo(warnings: string[]): Logger {
  return { ...silentLogger, warn: (_, message) => void warnings.push(message) }
}

/** An application with a worker of the consumer billing, and what its worker has warned of. */
async function application(world: World, source: string): Promise<{ hapax: AnyHapax; warnings: readonly string[] }> {
  const warnings: string[] = []
  const hapax = world.hapax({ source, logger: warningsTo(warnings) })
  await world.worker(world.reader(undefined, { hapax }), { takeoverMs: 1_000 })
  return { hapax, warnings }
}

const aboutNames = (message: string): boolean => message.includes('different applications')

export const severalServices: readonly Case[] = [
  {
    name: 'two applications with a consumer of the same name are each warned once, and doctor reports it',
    run: async (world) => {
      const shop = await application(world, '/shop')
      const billing = await application(world, '/billing')
      await world.until(() => shop.warnings.some(aboutNames) && billing.warnings.some(aboutNames))
      // Further services do not cause another warning.
      await application(world, '/billing')
      await world.until(async () => (await shop.hapax.status()).workers.filter(({ alive }) => alive).length === 3)
      for (const { warnings } of [shop, billing]) {
        const [warning = '', ...more] = warnings.filter(aboutNames)
        assert.match(warning, /consumer billing .*\/shop/)
        assert.match(warning, /\/billing/)
        assert.deepEqual(more, [])
      }
      const levels: string[] = []
      // On a busy machine one of them may seem dead for a moment.
      await world.until(async () => {
        const finding = (await shop.hapax.doctor()).find(({ message }) => aboutNames(message))
        if (finding?.message.includes('/billing, /shop')) levels.push(finding.level)
        return levels.length > 0
      })
      assert.deepEqual(levels, ['warning'])
    },
  },
  {
    name: 'a new version of an application that handles one more type is no other application',
    run: async (world) => {
      const old = await application(world, '/shop')
      const warnings: string[] = []
      const hapax = world.hapax({ source: '/shop', logger: warningsTo(warnings) })
      const reader = world.reader(undefined, { hapax })
      reader.consumer.on(Pong, () => {})
      await world.worker(reader, { takeoverMs: 1_000 })
      assert.ok(!(await hapax.doctor()).some(({ message }) => aboutNames(message)))
      // Who is warned of a third one has seen the second.
      const other = await application(world, '/billing')
      await world.until(() => [old.warnings, warnings, other.warnings].every((each) => each.some(aboutNames)))
      assert.ok(![...old.warnings, ...warnings].some((message) => aboutNames(message) && !message.includes('/billing')))
      assert.equal(other.warnings.filter(aboutNames).length, 1)
    },
  },
  {
    name: 'a second service with another default destination is advised to use its own relay, and sends through one',
    run: async (world) => {
      const [shop, billing] = [new TestDestination(undefined, 'shop'), new TestDestination(undefined, 'billing')]
      const first = world.hapax({ source: '/shop' })
      await world.worker({ hapax: first }, { relay: shop })
      const careless = world.hapax({ source: '/billing' })
      const refusal = await world.worker({ hapax: careless }, { relay: billing }).catch((error: unknown) => error)
      assert.ok(isHapaxError(refusal, 'relay-moved'))
      assert.match(
        refusal.message,
        /relay of its own .*createHapax\(\{ relay \}\).*hapax relays move default 'billing'/,
      )

      const second = world.hapax({ source: '/billing', relay: 'billing' })
      await world.worker({ hapax: second }, { relay: billing })
      for (const [hapax, id] of [
        [first, 'of the shop'],
        [second, 'of billing'],
      ] as const) {
        await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }, { id }))
      }
      await world.until(async () => (await world.database.outbox()).length === 0)
      assert.deepEqual([shop.arrived, billing.arrived], [['of the shop'], ['of billing']])
    },
  },
]
