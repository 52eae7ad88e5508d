import { version } from '../../base/index.ts'
import type { SessionView } from '../api.ts'
import { type ReadRoute, read } from '../route.ts'

const POLL_MS = 2_000

export const sessionRoutes: readonly ReadRoute[] = [
  read({
    path: 'api/session',
    role: 'viewer',
    fields: {},
    load: async () => undefined,
    view: (_, { person, settings, payloads, signOut }): SessionView => ({
      actor: person.actor,
      role: person.role,
      readOnly: settings.readOnly,
      payloads,
      store: settings.name,
      version: version(),
      signOut,
      pollMs: POLL_MS,
    }),
  }),
]
