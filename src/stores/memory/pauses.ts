import type { Audit, Origin, Pause } from '../../contracts/index.ts'
import type { Data } from './data.ts'

/** What is paused. */
export function listPauses(data: Data): readonly Pause[] {
  return data.pauses.all().sort((a, b) => order(a.origin, b.origin) || order(a.scope, b.scope))
}

/** Pauses a consumer or a relay, unless somebody has done so. */
export function pause(data: Data, origin: Origin, scope: string, audit: Audit): boolean {
  const key = keyOf(origin, scope)
  if (data.pauses.get(key) !== undefined) return false
  data.pauses.set(key, { origin, scope, actor: audit.actor, note: audit.note ?? null, at: data.now() })
  data.note(audit, { origin, consumer: scope })
  return true
}

/** Lets workers serve it again. */
export function resume(data: Data, origin: Origin, scope: string, audit: Audit): boolean {
  if (!data.pauses.delete(keyOf(origin, scope))) return false
  data.note(audit, { origin, consumer: scope })
  return true
}

function keyOf(origin: Origin, scope: string): string {
  return JSON.stringify([origin, scope])
}

/** The order of texts by their code units. */
export function order(a: string, b: string): number {
  return a === b ? 0 : a < b ? -1 : 1
}
