// `hapax/node`: handlers of requests on the servers of Node.js.

import { problemResponse } from '../../web/index.ts'
import { cut, exchange } from './exchange.ts'
import type { NodeRequest, NodeResponse } from './messages.ts'
import { type FetchHandler, type MountOptions, mountOf } from './options.ts'
import { send } from './response.ts'

export type { NodeRequest, NodeResponse } from './messages.ts'
export type { FetchHandler, MountOptions } from './options.ts'

/**
 * Mounts a handler on a server of `node:http`, `node:https` or `node:http2`: `createServer(toNode(handler))`. A handler that throws is
 * reported through `onError`, and the client gets a 500.
 */
export function toNode(
  handler: FetchHandler,
  options: MountOptions = {},
): (req: NodeRequest, res: NodeResponse) => void {
  const mount = mountOf('toNode', handler, options)
  return (req, res) => {
    void exchange(mount, req, res, (error, client) => {
      mount.report(error)
      if (res.headersSent) cut(req, res)
      else send(failure(), req, res, client).catch(() => cut(req, res))
    })
  }
}

function failure(): Response {
  const detail = 'The request could not be handled.'
  return problemResponse({ status: 500, code: 'internal', title: 'Internal Server Error', detail })
}
