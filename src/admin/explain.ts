// `explain`: every place where a message is known, its copies for the endpoints of outgoing webhooks among them.

import { inParallel } from '../base/index.ts'
import type { Store, Trace } from '../contracts/index.ts'
import { inTimeOrder, keyRange, originOf, spreadSource } from '../message/index.ts'
import { servesOf } from '../worker/index.ts'

/** What `explain` reads. */
type Looked = Pick<Store<never>, 'admin' | 'endpoints' | 'workers'>

/** Every place where a message with this id is known, oldest first. */
export async function explain(
  store: Looked,
  id: string,
  source: string | undefined,
  scan: boolean,
): Promise<readonly Trace[]> {
  const found = await store.admin.trace(id, source, scan)
  // Without a source, all rows that begin like the key were found, or all that there are.
  if (source === undefined && (scan || keyRange(id) !== undefined)) return found
  const copies = await copiesOf(store, id, source, found)
  return inTimeOrder([...found, ...copies])
}

/** A copy has a source that is made of its endpoint and the source of the event. */
async function copiesOf(
  { admin, endpoints, workers }: Looked,
  id: string,
  source: string | undefined,
  found: readonly Trace[],
): Promise<readonly Trace[]> {
  const known = await endpoints.look()
  if (known.length === 0) return []
  const origins =
    source === undefined
      ? [...found.map((each) => originOf(each.source)?.source ?? each.source), ...(await workers.list()).map(sourceOf)]
      : [source]
  const seen = new Set(found.map((each) => each.source))
  const sources = [...new Set(origins)].flatMap((each) => known.map((endpoint) => spreadSource(endpoint.id, each)))
  const copies: Trace[] = []
  const unseen = sources.filter((each) => !seen.has(each))
  await inParallel(unseen, AT_ONCE, async (each) => void copies.push(...(await admin.trace(id, each))))
  return copies
}

function sourceOf(worker: Parameters<typeof servesOf>[0]): string {
  return servesOf(worker).source ?? ''
}

const AT_ONCE = 4
