import { audited } from './admin/audited.ts'
import { cleanup } from './admin/cleanup.ts'
import { failedStore } from './admin/failed-store.ts'
import { heldKeys } from './admin/held-keys.ts'
import { lists } from './admin/lists.ts'
import { migrations } from './admin/migrations.ts'
import { purge } from './admin/purge.ts'
import { status } from './admin/status.ts'
import { tools } from './admin/tools.ts'
import { unchecked } from './admin/unchecked.ts'
import { waiting } from './admin/waiting.ts'
import { reasons } from './admin/why.ts'
import { type Case, skipReason } from './case.ts'
import { connections } from './connections/index.ts'
import { deadWorkers } from './crashes/dead-workers.ts'
import { stuck } from './crashes/stuck.ts'
import { suspectNotes } from './crashes/suspect-notes.ts'
import { unresolvedCommits } from './crashes/unresolved.ts'
import { outgoingWebhooks } from './endpoints/index.ts'
import type { HarnessFeatures, StoreHarness } from './harness.ts'
import { histories } from './histories.ts'
import { atomicity } from './inbox/atomicity.ts'
import { automaticGroups } from './inbox/automatic-groups.ts'
import { borders } from './inbox/borders.ts'
import { endings } from './inbox/endings.ts'
import { failures } from './inbox/failures.ts'
import { groups } from './inbox/groups.ts'
import { identity } from './inbox/identity.ts'
import { messageKeys } from './inbox/keys.ts'
import { local } from './inbox/local.ts'
import { lostInARow } from './inbox/lost-in-a-row.ts'
import { mismatches } from './inbox/mismatches.ts'
import { names } from './inbox/names.ts'
import { neighbours } from './inbox/neighbours.ts'
import { oddGroups } from './inbox/odd-groups.ts'
import { payloads } from './inbox/payloads.ts'
import { poison } from './inbox/poison.ts'
import { receipts } from './inbox/receipts.ts'
import { takenOver } from './inbox/taken-over.ts'
import { known } from './known.ts'
import { leases } from './leased/leased.ts'
import { onFailed } from './on-failed.ts'
import { bulkOperations } from './operations/bulk-operations.ts'
import { freezing } from './operations/freezing.ts'
import { operationLeases } from './operations/leases.ts'
import { pauses } from './operations/pauses.ts'
import { samples } from './operations/samples.ts'
import { operationSteps } from './operations/steps.ts'
import { busyInOrder } from './order/busy-in-order.ts'
import { heldRows } from './order/held-rows.ts'
import { keptOrder } from './order/kept-order.ts'
import { order } from './order/order.ts'
import { stuckKeys } from './order/stuck-keys.ts'
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
import { busyDeliveries } from './workers/busy-deliveries.ts'
import { clockSteps } from './workers/clock-steps.ts'
import { enabled } from './workers/enabled.ts'
import { minutes } from './workers/minutes.ts'
import { once } from './workers/once.ts'
import { othersLanes } from './workers/others-lanes.ts'
import { pausing } from './workers/pausing.ts'
import { promptness } from './workers/promptness.ts'
import { sampling } from './workers/sampling.ts'
import { sharing } from './workers/sharing.ts'
import { stopping } from './workers/stopping.ts'
import { workers } from './workers/workers.ts'
import { World } from './world.ts'

const topics: Readonly<Record<string, readonly Case[]>> = {
  receipts,
  atomicity,
  connections,
  'borders in groups': borders,
  'ended transactions': endings,
  'messages taken over': takenOver,
  failures: [...failures, ...lostInARow],
  'histories of failures': histories,
  'final failures': onFailed,
  'unknown types': unknownTypes,
  'failed store': failedStore,
  'unchecked effects': unchecked,
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
  groups: [...groups, ...oddGroups],
  'automatic groups': automaticGroups,
  publishing,
  'publishes without tx': ambient,
  'late publishes': latePublishes,
  'local delivery': local,
  'relays and local delivery': routing,
  identity,
  'keys of messages': messageKeys,
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
  'unresolved commits': unresolvedCommits,
  'busy deliveries': busyDeliveries,
  'dead workers': [...deadWorkers, ...suspectNotes],
  'steps of the clock': clockSteps,
  "other workers' lanes": othersLanes,
  'paused consumers and relays': pausing,
  'work on operations': bulkOperations,
  'minutes of workers': minutes,
  order: [...order, ...busyInOrder],
  'kept order': [...keptOrder, ...heldRows],
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
