import { audited } from './admin/audited.ts'
import { cleanup } from './admin/cleanup.ts'
import { failedStore } from './admin/failed-store.ts'
import { heldKeys } from './admin/held-keys.ts'
import { lists } from './admin/lists.ts'
import { migrations } from './admin/migrations.ts'
import { purge } from './admin/purge.ts'
import { status } from './admin/status.ts'
import { tools } from './admin/tools.ts'
import { waiting } from './admin/waiting.ts'
import { reasons } from './admin/why.ts'
import { type Case, skipReason } from './case.ts'
import { connections } from './connections/index.ts'
import { outgoingWebhooks } from './endpoints/index.ts'
import type { HarnessFeatures, StoreHarness } from './harness.ts'
import { histories } from './histories.ts'
import { atomicity } from './inbox/atomicity.ts'
import { automaticGroups } from './inbox/automatic-groups.ts'
import { endings } from './inbox/endings.ts'
import { failures } from './inbox/failures.ts'
import { groups } from './inbox/groups.ts'
import { identity } from './inbox/identity.ts'
import { local } from './inbox/local.ts'
import { mismatches } from './inbox/mismatches.ts'
import { names } from './inbox/names.ts'
import { neighbours } from './inbox/neighbours.ts'
import { payloads } from './inbox/payloads.ts'
import { poison } from './inbox/poison.ts'
import { receipts } from './inbox/receipts.ts'
import { known } from './known.ts'
import { leases } from './leased/leased.ts'
import { onFailed } from './on-failed.ts'
import { freezing } from './operations/freezing.ts'
import { operationLeases } from './operations/leases.ts'
import { pauses } from './operations/pauses.ts'
import { samples } from './operations/samples.ts'
import { operationSteps } from './operations/steps.ts'
import { ambient } from './outbox/ambient.ts'
import { causes } from './outbox/causes.ts'
import { latePublishes } from './outbox/late-publishes.ts'
import { outgoing } from './outbox/outgoing.ts'
import { publishing } from './outbox/publishing.ts'
import { relays } from './outbox/relays.ts'
import { reusedNumbers } from './outbox/reused-numbers.ts'
import { routing } from './outbox/routing.ts'
import { endpoints } from './requests/endpoints.ts'
import { expiry } from './requests/expiry.ts'
import { httpRequests } from './requests/http.ts'
import { leasedRequests } from './requests/leased-http.ts'
import { looks } from './requests/looks.ts'
import { responses } from './requests/responses.ts'
import { severalServices } from './several-services.ts'
import { outages } from './telemetry/outages.ts'
import { times } from './telemetry/times.ts'
import { unknownTypes } from './unknown-types.ts'
import { unserved } from './unserved.ts'
import { bulkOperations } from './workers/bulk-operations.ts'
import { deadWorkers } from './workers/dead-workers.ts'
import { enabled } from './workers/enabled.ts'
import { keptOrder } from './workers/kept-order.ts'
import { minutes } from './workers/minutes.ts'
import { once } from './workers/once.ts'
import { order } from './workers/order.ts'
import { pausing } from './workers/pausing.ts'
import { promptness } from './workers/promptness.ts'
import { sampling } from './workers/sampling.ts'
import { sharing } from './workers/sharing.ts'
import { stopping } from './workers/stopping.ts'
import { stuck } from './workers/stuck.ts'
import { stuckKeys } from './workers/stuck-keys.ts'
import { workers } from './workers/workers.ts'
import { World } from './world.ts'

const topics: Readonly<Record<string, readonly Case[]>> = {
  receipts,
  atomicity,
  connections,
  'ended transactions': endings,
  failures,
  'histories of failures': histories,
  'final failures': onFailed,
  'unknown types': unknownTypes,
  'failed store': failedStore,
  'held keys': heldKeys,
  'stuck keys': stuckKeys,
  'outgoing messages': outgoing,
  'causes and traces': causes,
  'known consumers and relays': known,
  status,
  'inputs of tools': tools,
  cleanup,
  'lists of receipts and effects': lists,
  'lists of what waits': waiting,
  'the audit': audited,
  'why messages wait': reasons,
  purges: purge,
  'rows of operations': freezing,
  'leases of operations': operationLeases,
  'steps of operations': operationSteps,
  pauses,
  'samples of workers': samples,
  groups,
  'automatic groups': automaticGroups,
  publishing,
  'publishes without tx': ambient,
  'late publishes': latePublishes,
  'local delivery': local,
  'relays and local delivery': routing,
  identity,
  mismatches,
  payloads,
  'poison messages': poison,
  workers,
  promptness,
  'enabled consumers': enabled,
  names,
  neighbours,
  stopping,
  'worked once': once,
  'used-up pools': stuck,
  'dead workers': deadWorkers,
  'paused consumers and relays': pausing,
  'work on operations': bulkOperations,
  'minutes of workers': minutes,
  order,
  'kept order': keptOrder,
  relays,
  'outgoing webhooks': outgoingWebhooks,
  'several services': severalServices,
  'missing workers': unserved,
  'samples of the database': sampling,
  'times of events': times,
  'outages told by events': outages,
  'reused numbers': reusedNumbers,
  leases,
  'responses to requests': responses,
  'expiry of responses': expiry,
  'HTTP requests': httpRequests,
  'HTTP requests under leases': leasedRequests,
  'looks at requests': looks,
  'endpoints of webhooks': endpoints,
  'shared workers': sharing,
  migrations,
}

/** Whether a case applies to a store, and why not. */
export interface StoreSupport {
  readonly topic: string
  readonly name: string
  /** Why it does not apply to this store; undefined if it must pass. */
  readonly skip: string | undefined
  /** Whether it is a part of the suite of connections: it depends on the way to the database, and not on the database alone. */
  readonly connection: boolean
}

/** One case for one store. */
export interface StoreCase extends StoreSupport {
  run(): Promise<void>
}

/** Every case for this store. Those that do not apply to it have a reason in `skip`. */
export function storeCases<T, Own>(harness: StoreHarness<T, Own>): readonly StoreCase[] {
  return listed(harness.features).map(({ topic, name, skip, connection, each, isolation }) => ({
    topic,
    name,
    skip,
    connection,
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

/** The cases that a store with these features must pass, and those that do not apply. The docs build their support table from it. */
export function storeSupport(features: HarnessFeatures): readonly StoreSupport[] {
  return listed(features).map(({ topic, name, skip, connection }) => ({ topic, name, skip, connection }))
}

function listed(features: HarnessFeatures) {
  return Object.entries(topics).flatMap(([topic, cases]) =>
    cases.flatMap((each) =>
      (each.levels ? features.isolationLevels : [undefined]).map((isolation) => ({
        topic,
        name: isolation === undefined ? each.name : `${each.name} (${isolation})`,
        skip: skipReason(each, features),
        connection: each.connection ?? false,
        each,
        isolation,
      })),
    ),
  )
}
