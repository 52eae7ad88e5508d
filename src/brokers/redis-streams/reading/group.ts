import { HapaxError, isHapaxError } from '../../../base/index.ts'
import type { DeclareOption } from '../../kit/index.ts'
import { refusal, replyOf } from '../errors.ts'
import { type Link, listOf, type Reply } from '../link.ts'
import { type Group, Member } from './member.ts'

/** What to do about a group: create it if it is missing, require that it exists, or assume it. */
export type Declare = DeclareOption

/** Creates or checks the group. `finished` is up to where it was finished, if it existed before. */
export async function makeSure(
  link: Link,
  settings: Group & { readonly from: 'beginning' | 'now'; readonly declare: Declare },
  finished: string | undefined,
): Promise<void> {
  const { stream, group, from, declare } = settings
  if (declare === 'none') return
  if (declare === 'check') return check(link, settings)
  const start = (await whereItWas(link, stream, finished)) ?? (from === 'beginning' ? '0' : '$')
  try {
    await link.call(['XGROUP', 'CREATE', stream, group, start, 'MKSTREAM'])
  } catch (error) {
    const reply = replyOf(error)
    if (reply === 'BUSYGROUP') return
    throw reply === 'WRONGTYPE' ? mismatch(`expected ${stream} to be a stream, got something else`, error) : error
  }
}

async function check(link: Link, { stream, group }: Group): Promise<void> {
  const groups = await unlessRefused(link.call(['XINFO', 'GROUPS', stream]), [])
  const names = listOf(groups).map((each) => String(tableOf(each).get('name')))
  if (!names.includes(group)) throw mismatch(`expected redis stream ${stream} to have a group ${group}, got none`)
}

/** Where a group that was deleted continues: with its unfinished entries, or with everything if the stream is new. */
async function whereItWas(link: Link, stream: string, finished: string | undefined): Promise<string | undefined> {
  if (finished === undefined) return undefined
  const known = tableOf(await unlessRefused(link.call(['XINFO', 'STREAM', stream]), []))
  const isNew = timeOf(String(known.get('last-generated-id') ?? '0-0')) < timeOf(finished)
  // One millisecond earlier, to skip nothing. Entries of that millisecond may come again, as duplicates.
  return isNew || timeOf(finished) === 0n ? '0' : `${timeOf(finished) - 1n}-0`
}

/** Returns the entries of a lost session to the group. Resolves with those that were removed from the stream. */
export function evict(link: Link, group: Group, name: string): Promise<readonly string[]> {
  return unlessRefused(new Member(link, group, name).leave(), [])
}

/** The error for entries that were removed from the stream before they were finished. */
export function removed({ stream, group }: Group, ids: readonly string[]): HapaxError {
  const what = `entries of redis stream ${stream} were removed before group ${group} had finished them`
  const shown = ids.slice(0, 10).join(', ')
  return new HapaxError('broker-refused', `${ids.length} ${what}: ${shown}`, { fields: { ids } })
}

/** Settings of Redis that endanger messages. Empty if the user may not read the settings. */
export async function doubts(link: Link): Promise<readonly HapaxError[]> {
  const asked = link.call(['CONFIG', 'GET', 'appendonly', 'maxmemory', 'maxmemory-policy'])
  const settings = tableOf(await unlessRefused(asked, []))
  const get = (name: string): string => String(settings.get(name) ?? '')
  const found: HapaxError[] = []
  if (get('appendonly') === 'no') found.push(mismatch('Redis keeps messages in memory only: set appendonly to yes'))
  // Policies that begin with volatile- do not evict keys without a TTL.
  if (get('maxmemory-policy').startsWith('allkeys-') && get('maxmemory') !== '0') {
    found.push(mismatch('Redis removes whole streams when memory is short: set maxmemory-policy to noeviction'))
  }
  return found
}

function mismatch(what: string, cause?: unknown): HapaxError {
  return new HapaxError('topology-mismatch', what, { cause })
}

/** The reply, or `otherwise` if Redis replied with an error, unless it says that the server is not the right one or not ready. */
async function unlessRefused<T>(answer: Promise<T>, otherwise: T): Promise<T> {
  try {
    return await answer
  } catch (error) {
    if (refusal(error) === undefined || isHapaxError(error, 'broker-unavailable')) throw error
    return otherwise
  }
}

/** Redis returns properties as a flat list of names and values. */
function tableOf(reply: Reply): ReadonlyMap<string, Reply> {
  const words = listOf(reply)
  const table = new Map<string, Reply>()
  for (let at = 0; at + 1 < words.length; at += 2) table.set(String(words[at]), words[at + 1] ?? null)
  return table
}

/** The milliseconds of an id. */
function timeOf(id: string): bigint {
  return BigInt(id.split('-')[0] ?? 0)
}
