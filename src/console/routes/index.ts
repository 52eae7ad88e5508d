import type { Route } from '../route.ts'
import { failedRoutes } from './failed.ts'
import { messageRoutes } from './messages.ts'
import { operationRoutes } from './operations.ts'
import { otherRoutes } from './others.ts'
import { overviewRoutes } from './overview.ts'
import { sessionRoutes } from './session.ts'

/** Everything that can be asked and changed. Fixed words come before what may be any. */
export const ROUTES: readonly Route[] = [
  ...sessionRoutes,
  ...overviewRoutes,
  ...messageRoutes,
  ...failedRoutes,
  ...operationRoutes,
  ...otherRoutes,
]
