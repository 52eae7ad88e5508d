import { atomicity } from './atomicity.ts'
import { type Case, skipReason } from './case.ts'
import { cleanup } from './cleanup.ts'
import { connections } from './connections.ts'
import { deadWorkers } from './dead-workers.ts'
import { endings } from './endings.ts'
import { failedStore } from './failed-store.ts'
import { failures } from './failures.ts'
import { groups } from './groups.ts'
import type { HarnessFeatures, StoreHarness } from './harness.ts'
import { heldKeys } from './held-keys.ts'
import { identity } from './identity.ts'
import { keptOrder } from './kept-order.ts'
import { known } from './known.ts'
import { latePublishes } from './late-publishes.ts'
import { leases } from './leased.ts'
import { local } from './local.ts'
import { migrations } from './migrations.ts'
import { mismatches } from './mismatches.ts'
import { names } from './names.ts'
import { neighbours } from './neighbours.ts'
import { order } from './order.ts'
import { outgoing } from './outgoing.ts'
import { payloads } from './payloads.ts'
import { poison } from './poison.ts'
import { publishing } from './publishing.ts'
import { receipts } from './receipts.ts'
import { relays } from './relays.ts'
import { reusedNumbers } from './reused-numbers.ts'
import { severalServices } from './several-services.ts'
import { sharing } from './sharing.ts'
import { stopping } from './stopping.ts'
import { stuck } from './stuck.ts'
import { stuckKeys } from './stuck-keys.ts'
import { tools } from './tools.ts'
import { workers } from './workers.ts'
import { World } from './world.ts'

const topics: Readonly<Record<string, readonly Case[]>> = {
  receipts,
  atomicity,
  connections,
  'ended transactions': endings,
  failures,
  'failed store': failedStore,
  'held keys': heldKeys,
  'stuck keys': stuckKeys,
  'outgoing messages': outgoing,
  'known consumers and relays': known,
  'inputs of tools': tools,
  cleanup,
  groups,
  publishing,
  'late publishes': latePublishes,
  'local delivery': local,
  identity,
  mismatches,
  payloads,
  'poison messages': poison,
  workers,
  names,
  neighbours,
  stopping,
  'used-up pools': stuck,
  'dead workers': deadWorkers,
  order,
  'kept order': keptOrder,
  relays,
  'several services': severalServices,
  'reused numbers': reusedNumbers,
  leases,
  'shared workers': sharing,
  migrations,
}

/** Whether a store can show a case, and why not. */
export interface StoreSupport {
  readonly topic: string
  readonly name: string
  /** Why this store cannot show it; undefined: it has to pass. */
  readonly skip: string | undefined
}

/** One case for one store. */
export interface StoreCase extends StoreSupport {
  run(): Promise<void>
}

/** Every case for this store, also those that it cannot show: they have a reason in `skip`. */
export function storeCases<T, Own>(harness: StoreHarness<T, Own>): readonly StoreCase[] {
  return listed(harness.features).map(({ topic, name, skip, each, isolation }) => ({
    topic,
    name,
    skip,
    run: async () => {
      const database = await harness.open({ migrated: true, connections: 8, ...each.open })
      const world = new World(database as never, harness.features, isolation)
      try {
        await each.run(world)
      } finally {
        await world.close()
      }
    },
  }))
}

/** What a store with these features has to pass, and what it cannot show; the support table of the docs is made from it. */
export function storeSupport(features: HarnessFeatures): readonly StoreSupport[] {
  return listed(features).map(({ topic, name, skip }) => ({ topic, name, skip }))
}

function listed(features: HarnessFeatures) {
  return Object.entries(topics).flatMap(([topic, cases]) =>
    cases.flatMap((each) =>
      (each.levels ? features.isolationLevels : [undefined]).map((isolation) => ({
        topic,
        name: isolation === undefined ? each.name : `${each.name} (${isolation})`,
        skip: skipReason(each, features),
        each,
        isolation,
      })),
    ),
  )
}
