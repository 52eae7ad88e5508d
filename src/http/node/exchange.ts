import { Client } from './client.ts'
import type { NodeRequest, NodeResponse } from './messages.ts'
import type { Mount } from './options.ts'
import { requestOf } from './request.ts'
import { checkedResponse, send } from './response.ts'

/** The code of HTTP/2 for a stream that ends because of an error: without it, half a response would look complete. */
const INTERNAL_ERROR = 2

/** Hands a request to the handler, and sends its response. What goes wrong is told to `failed`, unless the client went away before. */
export async function exchange(
  mount: Mount,
  req: NodeRequest,
  res: NodeResponse,
  failed: (error: unknown, client: Client) => void,
): Promise<void> {
  const client = new Client(req, res)
  if (client.signal.aborted) return
  try {
    await send(await responseTo(req, res, mount, client), req, res, client)
  } catch (error) {
    // Others may want to read it to its end before they respond.
    client.discard()
    if (error !== client.gone) failed(error, client)
  }
}

/** The response of the handler, or the one to a request that it cannot be given. */
export async function responseTo(
  req: NodeRequest,
  res: NodeResponse,
  mount: Mount,
  client: Client,
  rawBody: unknown = req.rawBody ?? req.body,
): Promise<Response> {
  const request = requestOf(req, res, mount, client, rawBody)
  return request instanceof Response ? request : checkedResponse(await mount.handler(request))
}

/** Ends a response that was begun and cannot be finished, so that nobody takes it for a whole one. */
export function cut(req: NodeRequest, res: NodeResponse): void {
  if (!res.headersSent || res.writableEnded) return
  if (req.stream === undefined) res.destroy()
  else req.stream.close(INTERNAL_ERROR)
}
