// How the rows that a look found are put together: into groups that share a transaction, and into turns that keep keys in order.

import type { Entry, Look } from '../../contracts/index.ts'

/** Messages that share a transaction. */
type Group = readonly Entry[]
/** Groups that run one after the other, because the later ones stand behind the earlier ones of their keys. */
export type Chain = readonly Group[]

/** What decides how entries are put together. */
export interface GroupingOptions {
  /** The most messages in all. */
  readonly room: number
  /** The most bytes in all. The first message is always taken, however large: otherwise it would never run. */
  readonly roomBytes: number
  /** The most messages per group. */
  readonly size: number
  /** The most bytes per group; not counting its first message. */
  readonly bytes: number
  /** Whether an entry can run now, if nothing stands before it. */
  ready(entry: Entry): boolean
}

/** What to run, and how. */
export interface Grouping {
  readonly turns: readonly Chain[]
  /** Rows that were in hand when a process died. Each is a group of its own, and few of them run at once. */
  readonly apart: readonly Entry[]
  /** Rows that were in hand when a second process died. Each runs alone in its process. */
  readonly alone: readonly Entry[]
}

/** After this many deaths of its process, a message runs alone. */
const ALONE_AFTER = 2

/** Puts what a look found into groups. A key's messages follow one another without a gap, from its first one on. */
export function grouping(entries: readonly Entry[], options: GroupingOptions): Grouping {
  const loose = entries.filter((entry) => entry.key === null && options.ready(entry))
  const suspects = loose.filter(({ deaths }) => deaths > 0)
  const runs = loose.filter(({ deaths }) => deaths === 0).map((entry) => [entry])
  for (const rows of byKey(entries).values()) {
    const run = rows.slice(
      0,
      untilNot(rows, (row) => options.ready(row) && row.deaths === 0),
    )
    const [head] = rows
    if (run.length > 0) runs.push(run.slice(0, Math.max(options.size, CHAIN)))
    else if (head !== undefined && options.ready(head)) suspects.push(head)
  }
  return {
    turns: packed(runs, options),
    apart: suspects.filter(({ deaths }) => deaths < ALONE_AFTER),
    alone: suspects.filter(({ deaths }) => deaths >= ALONE_AFTER),
  }
}

/** How many messages of one key are taken into hand if they do not fit into one group. */
const CHAIN = 10

function byKey(entries: readonly Entry[]): ReadonlyMap<string, readonly Entry[]> {
  const keys = new Map<string, Entry[]>()
  for (const entry of entries) {
    if (entry.key === null) continue
    const rows = keys.get(entry.key)
    if (rows === undefined) keys.set(entry.key, [entry])
    else rows.push(entry)
  }
  return keys
}

function untilNot(rows: readonly Entry[], holds: (row: Entry) => boolean): number {
  const end = rows.findIndex((row) => !holds(row))
  return end === -1 ? rows.length : end
}

/** Fills groups with whole runs, so that a key stays in one group. A run that is larger than a group becomes a turn of its own. */
function packed(
  runs: readonly (readonly Entry[])[],
  { room, roomBytes, size, bytes }: GroupingOptions,
): readonly Chain[] {
  const turns: Chain[] = []
  let group: Entry[] = []
  let filled = 0
  let taken = 0
  let takenBytes = 0
  const close = (): void => {
    if (group.length > 0) turns.push([group])
    group = []
    filled = 0
  }
  for (const whole of runs) {
    const run = fitting(whole, taken === 0 ? 1 : 0, roomBytes - takenBytes)
    if (taken >= room || run.length === 0) break
    const weight = weigh(run)
    taken += run.length
    takenBytes += weight
    if (run.length > size || weight > bytes) {
      turns.push(chunks(run, size, bytes))
      continue
    }
    if (group.length + run.length > size || filled + weight > bytes) close()
    group.push(...run)
    filled += weight
  }
  close()
  return turns
}

/**
 * Takes the next turn from a queue whose groups were made when groups had another size. Small groups become one; a large one becomes
 * several that run one after the other, because the rows of a key must not run at once.
 */
export function nextTurn(queue: Chain[], size: number, bytes: number): Chain | undefined {
  const first = queue.shift()
  const [group] = first ?? []
  if (first === undefined || group === undefined || first.length > 1) return first
  if (group.length > size) return chunks(group, size, bytes)
  const merged = [...group]
  let filled = weigh(group)
  for (let next = onlyGroup(queue[0]); next !== undefined; next = onlyGroup(queue[0])) {
    filled += weigh(next)
    if (merged.length + next.length > size || filled > bytes) break
    merged.push(...next)
    queue.shift()
  }
  return [merged]
}

function onlyGroup(turn: Chain | undefined): Group | undefined {
  return turn?.length === 1 ? turn[0] : undefined
}

function weigh(group: Group): number {
  let bytes = 0
  for (const entry of group) bytes += entry.bytes
  return bytes
}

/** The part of a run that fits, from its beginning; at least `least` entries. */
function fitting(run: readonly Entry[], least: number, bytes: number): readonly Entry[] {
  let left = bytes
  const end = run.findIndex((entry, index) => {
    left -= entry.bytes
    return left < 0 && index >= least
  })
  return end === -1 ? run : run.slice(0, end)
}

function chunks(run: readonly Entry[], size: number, bytes: number): Chain {
  const groups: Entry[][] = []
  let filled = 0
  for (const entry of run) {
    const last = groups.at(-1)
    if (last !== undefined && last.length < size && filled + entry.bytes <= bytes) {
      last.push(entry)
      filled += entry.bytes
    } else {
      groups.push([entry])
      filled = entry.bytes
    }
  }
  return groups
}

/** In how many milliseconds the next entry becomes due, if one is waiting for its time. */
export function soonest(looks: readonly Look[], entries: readonly Entry[]): number | undefined {
  let next: number | undefined
  const waits = (ms: number | undefined): void => {
    if (ms !== undefined && ms > 0) next = Math.min(next ?? ms, ms)
  }
  for (const look of looks) waits(look.nextMs)
  for (const entry of entries) if (!entry.held) waits(entry.dueMs)
  return next
}

/** Each row once, even if several looks have found it. */
export function distinctEntries(entries: readonly Entry[]): readonly Entry[] {
  const seen = new Set<string>()
  return entries.filter(({ seq }) => !seen.has(seq) && seen.add(seq))
}

/** Whether the rows of a turn were in hand when a process died. */
export function isApart(turn: Chain): boolean {
  return (turn[0]?.[0]?.deaths ?? 0) > 0
}

/** The rows of a turn. */
export function seqsOf(turn: Chain): readonly string[] {
  return turn.flatMap((group) => group.map((entry) => entry.seq))
}

/** The size of its messages. */
export function bytesOf(turn: Chain): number {
  let bytes = 0
  for (const group of turn) for (const entry of group) bytes += entry.bytes
  return bytes
}

/** How many rows turns have. */
export function count(turns: readonly Chain[]): number {
  let rows = 0
  for (const turn of turns) for (const group of turn) rows += group.length
  return rows
}

/** Those that are not behind a row of these turns, because none has their key. */
export function notBehind(entries: readonly Entry[], turns: readonly Chain[]): readonly Entry[] {
  if (entries.every(({ key }) => key === null)) return entries
  const keys = new Set(turns.flat(2).map(({ key }) => key))
  return entries.filter(({ key }) => key === null || !keys.has(key))
}
