import type { Store } from 'hapax'
import { mysql } from 'hapax/mysql'
import { postgres } from 'hapax/postgres'
import { expect, it } from 'vitest'
import { LinkProxy } from '../../src/conformance/brokers/link-proxy.ts'
import { durableStores, makePlace, type Place } from '../support/databases.ts'

/** SQLite has no link. */
const stores = durableStores().filter((store) => store !== 'sqlite')

it.concurrent.for(stores)('E8: on %s, links that fall silent cost a while, and not a connection', async (name) => {
  await using checker = await makePlace(name)
  await using proxy = await LinkProxy.open(checker.place.url)
  const store = open(checker.place, proxy.url)
  await Promise.all(useAllLinks(store))
  // As a network does that has forgotten its links: new ones work.
  proxy.freeze()
  proxy.thaw()
  const [first, second, transaction] = await Promise.allSettled(useAllLinks(store))
  // A statement is repeated on another link; of a transaction the caller decides.
  expect([first.status, second.status]).toEqual(['fulfilled', 'fulfilled'])
  expect(transaction).toMatchObject({ status: 'rejected', reason: { code: 'store-unavailable' } })
  await Promise.all(useAllLinks(store))
  proxy.freeze()
  await store.close()
})

function open({ store, schema }: Place, url: string): Pick<Store<unknown>, 'inbox' | 'failed' | 'close'> {
  return store === 'postgres' ? postgres({ url, schema, max: 1 }) : mysql({ url, max: 1 })
}

/** Two statements on the control connections, of which there are two, and a short transaction on the only other one. */
function useAllLinks(store: ReturnType<typeof open>) {
  const leases = [{ seq: '1-1', token: crypto.randomUUID(), fence: 1 }]
  return [
    store.inbox.renew(leases, 1_000),
    store.inbox.renew(leases, 1_000),
    store.failed.discard('1', { actor: 'ada', action: 'discard' }),
  ] as const
}
