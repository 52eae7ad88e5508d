import { isHapaxError } from '../../base/index.ts'
import { problemResponse } from '../../web/index.ts'
import { bodyOf } from './body.ts'
import type { Client } from './client.ts'
import type { NodeRequest, NodeResponse } from './messages.ts'
import type { Mount } from './options.ts'
import { urlOf } from './url.ts'

/** The request as handlers take it, or the response to one that cannot be handed to any. */
export function requestOf(
  req: NodeRequest,
  res: NodeResponse,
  mount: Mount,
  client: Client,
  rawBody: unknown,
): Request | Response {
  const url = urlOf(req, mount)
  if (url === undefined) return refusal('The host or the target of the request is not valid.')
  const method = req.method ?? 'GET'
  if (!/^(?!(?:connect|trace|track)$)[\w!#$%&'*+.^`|~-]+$/i.test(method)) return unknownMethod()
  const headers = headersOf(req)
  if (headers === undefined) return refusal('A header of the request is not valid.')
  try {
    const body = bodyOf(req, res, client, rawBody)
    client.request = new Request(url, { method, headers, body, signal: client.signal, duplex: 'half' })
    return client.request
  } catch (error) {
    if (!isHapaxError(error, 'body-consumed')) throw error
    mount.reportOnce(error)
    return problemResponse({ status: 500, code: error.code, title: 'Body already read', detail: error.message })
  }
}

/** All of them, repeated ones joined as RFC 9110 says; without the pseudo-headers of HTTP/2. */
function headersOf({ rawHeaders }: NodeRequest): Headers | undefined {
  const headers = new Headers()
  try {
    for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
      const [name = '', value = ''] = rawHeaders.slice(at, at + 2)
      if (!name.startsWith(':')) headers.append(name, value)
    }
  } catch {
    return undefined
  }
  return headers
}

function refusal(detail: string): Response {
  return problemResponse({ status: 400, code: 'bad-request', title: 'Bad Request', detail })
}

/** The Fetch standard has no requests of these methods. */
function unknownMethod(): Response {
  const detail = 'Requests of this method are not handled here.'
  return problemResponse({ status: 501, code: 'not-implemented', title: 'Not Implemented', detail })
}
