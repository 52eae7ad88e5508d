import { fieldOf } from '../../base/index.ts'
import { headerOf, type NodeRequest } from './messages.ts'
import type { Mount } from './options.ts'

/** The absolute URL of a request, or undefined if its host or its target cannot be. */
export function urlOf(req: NodeRequest, { origin, trustProxy }: Mount): string | undefined {
  const target = targetOf(req)
  if (target === undefined) return undefined
  const base = origin ?? originOf(req, target.origin, trustProxy)
  // Joined as texts: relative to a base, the path //other would be another host.
  const url = base === undefined ? null : URL.parse(base + target.path)
  if (url === null) return undefined
  url.hash = ''
  return url.href
}

/** Paths, and the absolute form that proxies use, whose host comes before the header. */
function targetOf({ originalUrl, url }: NodeRequest): { origin?: string; path: string } | undefined {
  const target = originalUrl ?? url ?? '/'
  if (target.startsWith('/')) return { path: target }
  if (target === '*') return { path: '/' }
  const [, scheme = '', host = '', path = ''] = /^(https?):\/\/([^/?#]*)(.*)$/i.exec(target) ?? []
  if (!isHost(host)) return undefined
  return { origin: `${scheme.toLowerCase()}://${host}`, path: path.startsWith('/') ? path : `/${path}` }
}

function originOf(req: NodeRequest, ofTarget: string | undefined, trustProxy: boolean): string | undefined {
  const forwarded = (name: string): string | undefined =>
    trustProxy ? headerOf(req, `x-forwarded-${name}`)?.split(',')[0]?.trim() : undefined
  const host = forwarded('host') ?? ofTarget?.split('//')[1] ?? hostOf(req)
  const scheme = forwarded('proto')?.toLowerCase() ?? schemeOf(req)
  return isHost(host) && (scheme === 'http' || scheme === 'https') ? `${scheme}://${host}` : undefined
}

/** Whether it is encrypted is known by the connection only: the client may write anything into a target. */
function schemeOf({ socket }: NodeRequest): string {
  return fieldOf(socket, 'encrypted') === true ? 'https' : 'http'
}

/** Only HTTP/1.0 may be without one. */
function hostOf(req: NodeRequest): string {
  return headerOf(req, ':authority') || headerOf(req, 'host') || 'localhost'
}

/** A name or an address, and perhaps a port; two of them are joined by a comma, which is refused as well. */
function isHost(host: string): boolean {
  if (!/^(?:\[[\da-f:.]+\]|[\w.-]+)(?::\d{1,5})?$/i.test(host)) return false
  const url = URL.parse(`http://${host}/`)
  // Notations that mean another host than they show, such as 0x7f.1, would pass checks of the text.
  return url !== null && (host.startsWith('[') || url.hostname === host.toLowerCase().replace(/:\d+$/, ''))
}
