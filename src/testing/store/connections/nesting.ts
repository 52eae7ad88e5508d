import assert from 'node:assert/strict'
import { type Case, parallelOnly } from '../case.ts'
import { assertOutcome, gate, Pong } from '../world.ts'

export const nesting: readonly Case[] = [
  {
    name: 'A17: a nested transaction of the ORM is kept with the handler, and undone alone',
    needs: ['nested transactions'],
    run: async (world) => {
      const { nested } = world.database
      const reader = world.reader(async ({ tx, message }) => {
        await world.database.effect(tx, message.id)
        await nested?.(tx, (inner) => world.database.effect(inner, 'kept'))
        const undone = nested?.(tx, async (inner) => {
          await world.database.effect(inner, 'undone')
          throw new Error('given up')
        })
        await assert.rejects(undone ?? Promise.resolve(), /given up/)
        await world.database.effect(tx, 'after')
      })
      assertOutcome(await reader.deliver('a'), 'processed')
      await world.assertEffects(['a', 'kept', 'after'])
    },
  },
  {
    name: 'A17: a nested transaction of the ORM goes with the handler that fails',
    needs: ['nested transactions'],
    run: async (world) => {
      const reader = world.reader(async ({ tx }) => {
        await world.database.nested?.(tx, (inner) => world.database.effect(inner, 'inner'))
        throw new Error('given up')
      })
      assertOutcome(await reader.deliver('a'), 'retrying')
      await world.assertEffects([])
    },
  },
  {
    name: 'A17: a nested transaction that is still open when the handler fails is undone with it, and does nothing afterwards',
    needs: ['nested transactions'],
    run: async (world) => {
      const { nested } = world.database
      const [begun, over] = [gate(), gate()]
      let inner: Promise<unknown> = Promise.resolve()
      let fails = true
      const reader = world.reader(async ({ tx, message }) => {
        await world.database.effect(tx, message.id)
        if (!fails) return
        fails = false
        inner = (
          nested?.(tx, async (handle) => {
            await world.database.effect(handle, 'inner')
            begun.open()
            await over.passed
            await world.database.effect(handle, 'late')
          }) ?? Promise.resolve()
        ).catch(() => {})
        await Promise.all([inner, begun.passed.then(() => Promise.reject(new Error('given up')))])
      })
      assertOutcome(await reader.deliver('a'), 'retrying')
      over.open()
      await Promise.race([inner, world.drain(reader)])
      await world.drain(reader)
      await world.assertEffects(['a'])
    },
  },
  {
    name: 'A9: a nested transaction that the handler does not await keeps it from being committed, or ends with it',
    needs: ['nested transactions'],
    run: async (world) => {
      const { nested } = world.database
      const [begun, over] = [gate(), gate()]
      let inner: Promise<unknown> = Promise.resolve()
      let forgets = true
      const reader = world.reader(async ({ tx, message }) => {
        await world.database.effect(tx, message.id)
        if (!forgets) return
        forgets = false
        inner = (
          nested?.(tx, async (handle) => {
            begun.open()
            await over.passed
            await world.database.effect(handle, 'late')
          }) ?? Promise.resolve()
        ).catch(() => {})
        await begun.passed
      })
      const { status } = await reader.deliver('a')
      over.open()
      await Promise.race([inner, world.drain(reader)])
      await world.drain(reader)
      // Either way it took effect once, and what came late did not.
      assert.ok(['processed', 'retrying'].includes(status), status)
      await world.assertEffects(['a'])
      assert.equal((await reader.deliver('a')).status, 'duplicate')
    },
  },
  {
    name: 'A17: a publish in a nested transaction of the ORM goes with it',
    needs: ['nested transactions'],
    run: async (world) => {
      const { nested } = world.database
      const hapax = world.hapax()
      await hapax.transaction(async (tx) => {
        await nested?.(tx, (inner) => hapax.publish(inner, Pong, { n: 1 }, { id: 'kept' }))
        const undone = nested?.(tx, async (inner) => {
          await hapax.publish(inner, Pong, { n: 1 }, { id: 'undone' })
          throw new Error('given up')
        })
        await assert.rejects(undone ?? Promise.resolve(), /given up/)
      })
      assert.deepEqual(await world.database.outbox(), ['kept'])
    },
  },
  {
    name: 'a transaction that is opened in another one ends by itself: each keeps what it wrote, or not',
    skip: parallelOnly,
    run: async (world) => {
      const hapax = world.hapax()
      const outer = hapax.transaction(async (tx) => {
        await world.database.effect(tx, 'outer')
        await hapax.transaction((inner) => world.database.effect(inner, 'inner'))
        throw new Error('given up')
      })
      await assert.rejects(outer, /given up/)
      await hapax.transaction(async (tx) => {
        await world.database.effect(tx, 'kept')
        const inner = hapax.transaction(async (other) => {
          await world.database.effect(other, 'gone')
          throw new Error('given up')
        })
        await assert.rejects(inner, /given up/)
      })
      await world.assertEffects(['inner', 'kept'])
    },
  },
]
