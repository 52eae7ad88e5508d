import type { HealthView, OverviewView } from '../api.ts'
import { type ReadRoute, read } from '../route.ts'
import { consumerViews, historyView, relayViews, tableViews, workerCounts, workersView } from '../views/overview.ts'
import { operationView } from '../views/rows.ts'

const HOUR_MS = 3_600_000
/** How many operations the first page shows. */
const LAST = 5

export const overviewRoutes: readonly ReadRoute[] = [
  read({
    path: 'api/overview',
    role: 'viewer',
    fields: {},
    load: async (hapax) => ({
      status: await hapax.status(),
      known: await hapax.consumers.list(),
      samples: await hapax.history({ sinceMs: HOUR_MS }),
      operations: await hapax.operations.list({ limit: LAST }),
    }),
    view: ({ status, known, samples, operations }, seen): OverviewView => ({
      at: status.at.toISOString(),
      consumers: consumerViews(status, known),
      relays: relayViews(status),
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
