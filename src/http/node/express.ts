// `hapax/express`: handlers of requests as routes of Express, and of everything that calls its middlewares.

import { cut, exchange } from './exchange.ts'
import type { NodeRequest, NodeResponse } from './messages.ts'
import { type FetchHandler, type MountOptions, mountOf } from './options.ts'

export type { NodeRequest, NodeResponse } from './messages.ts'
export type { FetchHandler, MountOptions } from './options.ts'

/**
 * Mounts a handler as a route of Express 4 or 5: `app.post('/orders', toExpress(handler))`, before `express.json()`. What the handler
 * throws goes to `next`. `request.url` is the whole one, as `req.originalUrl` has it, also inside a router.
 */
export function toExpress(
  handler: FetchHandler,
  options: MountOptions = {},
): (req: NodeRequest, res: NodeResponse, next: (error?: unknown) => void) => void {
  const mount = mountOf('toExpress', handler, options)
  return (req, res, next) => {
    void exchange(mount, req, res, (error) => {
      cut(req, res)
      next(error)
    })
  }
}
