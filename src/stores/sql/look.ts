import type { Entry, Row, Share } from '../../contracts/index.ts'
import { compareSeq, encodeText } from '../../message/index.ts'
import type { StuckLook } from './parts/aside.ts'
import { asBoolean, asNumber, asSeq, asText, asTextOrNull } from './values.ts'

/** How many rows without order, and how many keys, a look lists per lane: twice the average, because lanes are not quite even. */
export function pageOf({ limit, lanes }: Share): number {
  return Math.min(limit, Math.max(4, Math.ceil((2 * limit) / lanes.length)))
}

/** The result of the dialect's `look`, share by share. */
export function asLooks(shares: readonly Share[], rows: readonly Row[]): readonly StuckLook[] {
  const found = shares.map((share) => new Found(share))
  for (const row of rows) found[asNumber(row['share'])]?.add(row)
  return found.map((each) => each.look())
}

/** What was found of one share. */
class Found {
  readonly #share: Share
  readonly #entries: Entry[] = []
  readonly #seen = new Set<string>()
  readonly #stuck: string[] = []
  readonly #keys = new Map<number, Set<string>>()
  /** As the dialect says it; undefined: keys come in the order of their bytes, a page of them per lane. */
  #after: Map<number, string> | undefined
  #nextMs: number | undefined

  constructor(share: Share) {
    this.#share = share
  }

  /** A row of the result, or several that differ in seq, bytes and ms alone, which are lists then. */
  add(row: Row): void {
    if (row['stuck'] != null) this.#stuck.push(String(row['stuck']))
    const seq = asSeq(row['seq'])
    if (!seq.includes(',')) {
      this.#add(row, seq, asNumber(row['bytes']), asNumber(row['ms']))
      return
    }
    const bytes = asText(row['bytes']).split(',')
    const ms = asText(row['ms']).split(',')
    for (const [at, each] of seq.split(',').entries()) this.#add(row, each, Number(bytes[at]), Number(ms[at]))
  }

  #add(row: Row, seq: string, bytes: number, dueMs: number): void {
    const key = asTextOrNull(row['key'])
    if (key === null && dueMs > 0) {
      this.#nextMs = Math.min(this.#nextMs ?? Number.POSITIVE_INFINITY, dueMs)
      return
    }
    const lane = asNumber(row['lane'])
    const held = asBoolean(row['held'])
    const deaths = asNumber(row['starts'])
    // A key may be found both by its place and by its time.
    if (!this.#seen.has(seq) && row['stuck'] == null) {
      this.#seen.add(seq)
      this.#entries.push({ seq, type: asText(row['type']), lane, key, bytes, dueMs, held, deaths })
    }
    if (key !== null && !asBoolean(row['timed'] ?? null)) this.#turn(lane, key, row['more'])
  }

  /** How far the keys of a lane have been gone through. */
  #turn(lane: number, key: string, more: unknown): void {
    this.#keys.set(lane, (this.#keys.get(lane) ?? new Set()).add(key))
    if (more === undefined) return
    this.#after ??= new Map()
    if (asBoolean(more)) this.#after.set(lane, key)
  }

  look(): StuckLook {
    const after = this.#after ?? this.#pageEnds()
    // The order of a key is that of seq, whatever else is older.
    const keyed = withoutBlocked(this.#entries.filter(hasKey).sort((x, y) => compareSeq(x.seq, y.seq)))
    const others = this.#entries.filter((entry) => entry.key === null).sort(byAge)
    const stuck = [...this.#stuck, ...keyed.filter(isStuck).map((entry) => entry.seq)]
    return { entries: [...others, ...keyed], nextMs: this.#nextMs, after, stuck }
  }

  #pageEnds(): Map<number, string> {
    const page = pageOf(this.#share)
    const after = new Map<number, string>()
    for (const [lane, keys] of this.#keys) if (keys.size >= page) after.set(lane, lastOf(keys))
    return after
  }
}

type Keyed = Entry & { readonly key: string }

function hasKey(entry: Entry): entry is Keyed {
  return entry.key !== null
}

/** Behind a row that cannot run now nothing else of its key can; entries in the order of seq. */
function withoutBlocked(entries: readonly Keyed[]): readonly Keyed[] {
  const ready = new Map<string, boolean>()
  return entries.filter(({ key, held, dueMs }) => {
    const first = !ready.has(key)
    if (first) ready.set(key, !held && dueMs <= 0)
    return first || ready.get(key)
  })
}

/** Whether a row holds up its key for so long that it is worth the trouble of putting it aside. */
function isStuck({ held, dueMs }: Entry): boolean {
  return held || dueMs > 1_000
}

/** The last key by bytes, as databases sort them. */
function lastOf(keys: ReadonlySet<string>): string {
  return [...keys].reduce((last, key) => (bytewise(key, last) > 0 ? key : last))
}

function bytewise(a: string, b: string): number {
  return Buffer.compare(Buffer.from(encodeText(a)), Buffer.from(encodeText(b)))
}

function byAge(a: Entry, b: Entry): number {
  return a.dueMs - b.dueMs || compareSeq(a.seq, b.seq)
}
