import { createHapax, defineMessage, type Store, silentLogger } from 'hapax'
import { mysql } from 'hapax/mysql'
import { postgres } from 'hapax/postgres'
import { sqlite } from 'hapax/sqlite'
import { expect, it } from 'vitest'
import { type DurableStore, durableStores, makePlace, type Place } from '../support/databases.ts'

const Ping = defineMessage<unknown>('ping')
const ping = (id: string) => ({ id, source: '/sender', type: 'ping', data: 1 })

/** Stores that open what they need, and so have it to close. */
const opening: Record<DurableStore, (place: Place) => Store<unknown, never>> = {
  postgres: ({ url, schema }) => postgres({ url, schema }) as Store<unknown, never>,
  mysql: ({ url }) => mysql({ url }) as Store<unknown, never>,
  sqlite: ({ url }) => sqlite({ path: url }) as Store<unknown, never>,
}

it.for(durableStores())(
  'H11: on %s, close waits for what is being handled before it closes what it opened',
  async (name) => {
    await using checker = await makePlace(name)
    const hapax = createHapax({ store: opening[name](checker.place), source: '/test', logger: silentLogger })
    const begun = Promise.withResolvers<void>()
    const go = Promise.withResolvers<void>()
    const consumer = hapax.consumer('billing').on(Ping, async (_, { message }) => {
      begun.resolve()
      await go.promise
      if (message.id === 'b') throw new Error('no')
    })
    const handled = Promise.all(['a', 'b'].map((id) => consumer.handle(ping(id))))
    await begun.promise
    const closed = hapax.close()
    go.resolve()
    expect((await handled).map(({ status }) => status)).toEqual(['processed', 'retrying'])
    await closed
    await expect(consumer.handle(ping('c'))).rejects.toMatchObject({ code: 'closed' })
  },
)

it.for(durableStores())('H11: on %s, closing a store that is closed changes nothing', async (name) => {
  await using checker = await makePlace(name)
  const store = opening[name](checker.place)
  expect(await store.schema.migrations()).not.toEqual([])
  await Promise.all([store.close(), store.close()])
  await store.close()
})

it.for(durableStores())(
  'on %s, a store that was closed is reported as closed, also if it was never used',
  async (name) => {
    await using checker = await makePlace(name)
    for (const use of [(store: Store<unknown, never>) => store.schema.migrations(), async () => {}]) {
      const store = opening[name](checker.place)
      await use(store)
      await store.close()
      await expect(store.admin.status()).rejects.toMatchObject({ code: 'closed' })
      await expect(store.schema.migrate()).rejects.toMatchObject({ code: 'closed' })
    }
  },
)
