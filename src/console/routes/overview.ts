import type { ErrorRecord } from '../../base/index.ts'
import type { StoreStatus } from '../../contracts/index.ts'
import type { HealthView, OverviewView } from '../api.ts'
import type { ConsoleHapax } from '../hapax.ts'
import { type ReadRoute, read } from '../route.ts'
import {
  consumerViews,
  historyView,
  type RelayErrors,
  relayViews,
  tableViews,
  workerCounts,
  workersView,
} from '../views/overview.ts'
import { operationView } from '../views/rows.ts'

const HOUR_MS = 3_600_000
/** How many operations the first page shows. */
const LAST = 5

/** How long the errors of one relay are looked for, and of how many. */
const [LOOK_MS, MOST_RELAYS] = [150, 5]

async function statusOf(hapax: ConsoleHapax): Promise<{ status: StoreStatus; errors: RelayErrors }> {
  const status = await hapax.status()
  const retrying = status.relays.filter((each) => each.retrying > 0).slice(0, MOST_RELAYS)
  const found = new Map<string, ErrorRecord>()
  for (const { relay } of retrying) {
    const where = { origin: 'outbox', scope: relay, state: 'retrying', limit: 1 } as const
    const { rows } = await hapax.messages.list({ ...where, signal: AbortSignal.timeout(LOOK_MS) })
    const error = rows[0]?.error
    if (error) found.set(relay, error)
  }
  return { status, errors: found }
}

export const overviewRoutes: readonly ReadRoute[] = [
  read({
    path: 'api/overview',
    role: 'viewer',
    fields: {},
    load: async (hapax) => ({
      ...(await statusOf(hapax)),
      known: await hapax.consumers.list(),
      samples: await hapax.history({ sinceMs: HOUR_MS }),
      operations: await hapax.operations.list({ limit: LAST }),
    }),
    view: ({ status, errors, known, samples, operations }, seen): OverviewView => ({
      at: status.at.toISOString(),
      consumers: consumerViews(status, known),
      relays: relayViews(status, errors, seen),
      failed: status.failed,
      workers: workerCounts(status.workers),
      tables: tableViews(status),
      operations: operations.map((each) => operationView(each, seen)),
      history: historyView(samples, status.at),
    }),
  }),
  read({
    path: 'api/workers',
    role: 'viewer',
    fields: {},
    load: (hapax) => hapax.status(),
    view: (status) => workersView(status),
  }),
  read({
    path: 'api/health',
    role: 'viewer',
    fields: {},
    load: (hapax) => hapax.doctor(),
    view: (findings): HealthView => ({ findings }),
  }),
]
