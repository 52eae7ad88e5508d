import type { Origin, Param, Result, Row, Share } from '../../../contracts/index.ts'
import { compareSeq, numberOf } from '../../../message/index.ts'
import { asBoolean, asNumber, asSeq, asText, type Dialect, pageOf, type Query } from '../../sql/index.ts'
import { DUE, MANY, NAME, NOW, SEQ, tables } from './fragments.ts'
import { bytes, keyHash, microseconds, text } from './rows.ts'

/** How many rows of one key a look lists at most. */
const RUN = 100
/** How often a look goes on behind keys with many rows; what is left then is for the next one. */
const ROUNDS = 3
/** Parts of one statement at most. */
const MAX_PARTS = 200

/**
 * What waits, lane by lane. Neither server can begin a correlated subquery in the middle of an index, and MariaDB has no
 * LATERAL, so every place is a SELECT of its own with constants, all of them together one statement. Keys come in the order
 * of their hashes; `more` marks the row of a lane behind which there are more keys.
 */
export function look(prefix: string): Dialect['look'] {
  const { inbox, outbox, subscriptions } = tables(prefix)
  const texts = {
    inbox: lookTexts({ table: inbox, subscriptions }, 'inbox', 'consumer', 'm.starts'),
    outbox: lookTexts({ table: outbox, subscriptions }, 'outbox', 'relay', '0'),
  }
  return (query, shares) => lookAt(texts, query, shares)
}

type Texts = Readonly<Record<Origin, LookTexts>>

async function lookAt(texts: Texts, query: Query, shares: readonly Share[]): Promise<Result> {
  const lanes = await occupied(texts, query, shares)
  let open = lanes
  for (let round = 1; round <= ROUNDS && open.length > 0; round++) {
    const parts = open.flatMap((lane) => lane.parts())
    const found = Map.groupBy(await ask(query, parts), nameOf)
    for (const lane of open) lane.add(found.get(lane.name) ?? [])
    open = open.filter((lane) => lane.wantsMore)
  }
  const runs = Map.groupBy(
    await ask(
      query,
      lanes.flatMap((lane) => lane.runParts()),
    ),
    nameOf,
  )
  for (const lane of lanes) lane.addRuns(runs.get(lane.name) ?? [])
  const rows = lanes.flatMap((lane) => lane.rows())
  return { rows, affected: rows.length }
}

function nameOf(row: Row): string {
  return `${row['share']} ${row['lane']}`
}

/** A SELECT and its values. */
interface Part {
  readonly text: string
  readonly params: readonly Param[]
}

/** The lanes of the shares in which there is anything: usually none, and that is cheap to see. */
async function occupied(texts: Texts, query: Query, shares: readonly Share[]): Promise<readonly Lane[]> {
  const parts = shares.map(({ table, scope, lanes, all = false, overdueMs }, index) =>
    overdueMs === undefined
      ? {
          text: texts[table].occupied(index, all),
          params: [bytes(scope), bytes(scope), bytes(scope), JSON.stringify(lanes)],
        }
      : {
          text: texts[table].overdue(index),
          params: [microseconds(overdueMs), bytes(scope), JSON.stringify(lanes)],
        },
  )
  return (await ask(query, parts)).flatMap((row) => {
    const share = shares[asNumber(row['share'])]
    if (share === undefined) return []
    const timed = asBoolean(row['timed']) && !share.all
    const there = { loose: asBoolean(row['loose']), keyed: asBoolean(row['keyed']), timed }
    if (!(there.loose || there.keyed || there.timed)) return []
    return [new Lane(texts[share.table], share, asNumber(row['share']), asNumber(row['lane']), there)]
  })
}

/** The answers to many parts, in as few statements as the server likes. */
async function ask(query: Query, parts: readonly Part[]): Promise<Row[]> {
  const rows: Row[] = []
  for (let from = 0; from < parts.length; from += MAX_PARTS) {
    const some = parts.slice(from, from + MAX_PARTS)
    const params = some.flatMap((part) => part.params)
    rows.push(...(await query({ text: some.map((part) => part.text).join(' union all '), params })).rows)
  }
  return rows
}

/** What there is in a lane. */
interface There {
  readonly loose: boolean
  readonly keyed: boolean
  readonly timed: boolean
}

/** What was found in one lane, and what to ask next. */
class Lane {
  readonly name: string
  readonly #texts: LookTexts
  readonly #share: Share
  readonly #index: number
  readonly #where: readonly Param[]
  readonly #loose: Row[] = []
  /** The rows of each key; keys in the order of their hashes, because every page begins behind the last one. */
  readonly #keys = new Map<string, Row[]>()
  readonly #there: There
  /** First rows of keys that stand aside until they are due. */
  readonly #waiting: Row[] = []
  /** Rows of keys that were asked for one by one. */
  readonly #runs: Row[] = []
  /** The key behind which the page was cut. */
  #cut: string | undefined
  #asked = false

  constructor(texts: LookTexts, share: Share, index: number, lane: number, there: There) {
    this.name = `${index} ${lane}`
    this.#texts = texts
    this.#share = share
    this.#index = index
    this.#where = [bytes(share.scope), lane]
    this.#there = there
    this.#cut = share.after.get(lane)
  }

  get wantsMore(): boolean {
    return this.#cut !== undefined && (this.#keys.size < pageOf(this.#share) || this.#runLeft() > 0)
  }

  parts(): readonly Part[] {
    const full = this.#keys.size >= pageOf(this.#share)
    const parts = [
      this.#asked ? this.#runPart() : this.#loosePart(),
      this.#asked ? undefined : this.#timedPart(),
      this.#there.keyed && !full ? this.#keysPart() : undefined,
    ]
    this.#asked = true
    return parts.filter((part) => part !== undefined)
  }

  add(rows: readonly Row[]): void {
    const fresh: Row[] = []
    for (const row of rows) {
      if (row['key'] === null) this.#loose.push(row)
      else if (asBoolean(row['timed'])) this.#waiting.push(row)
      else (this.#keys.get(asText(row['key'])) ?? fresh).push(row)
    }
    if (this.#keys.size < pageOf(this.#share)) this.#addKeys(fresh)
  }

  /** The rows of the keys whose time has come, and of those that have rows which stand aside. */
  runParts(): readonly Part[] {
    const due = this.#waiting.filter((row) => asNumber(row['ms']) <= 0).slice(0, pageOf(this.#share))
    const firsts = [...this.#keys.values()].map(([first]) => first)
    const followed = firsts.filter((first) => first !== undefined).filter(isFollowed)
    return [...due, ...followed].map((row, nth) => ({
      text: this.#texts.run(this.#index, Math.max(1, Math.floor(RUN / (nth + 1) ** 2))),
      params: [...this.#where, keyHash(asText(row['key'])), '0'],
    }))
  }

  addRuns(rows: readonly Row[]): void {
    for (const row of rows) this.#runs.push({ ...row, timed: 1 })
    // Without a key it only says when to look again.
    const next = this.#waiting.find((row) => asNumber(row['ms']) > 0)
    if (next !== undefined) this.#runs.push({ ...next, key: null })
  }

  /** A key that the end of the answer may have cut is left for the next page, unless it is the only one. */
  #addKeys(rows: readonly Row[]): void {
    const found = inOrder(Map.groupBy(rows, (row) => asText(row['key'])))
    const cut = rows.length === this.#limit
    if (cut && found.length > 1) found.pop()
    const room = pageOf(this.#share) - this.#keys.size
    for (const [key, own] of found.slice(0, room)) this.#keys.set(key, own)
    this.#cut = cut || found.length > room ? [...this.#keys.keys()].at(-1) : undefined
  }

  rows(): readonly Row[] {
    const keyed = [...this.#keys].flatMap(([key, rows]) =>
      firstRows(rows).map((row, nth) => ({ ...row, more: key === this.#cut && nth === 0 })),
    )
    return [...this.#loose, ...keyed, ...this.#runs]
  }

  get #limit(): number {
    return 2 * pageOf(this.#share)
  }

  #loosePart(): Part | undefined {
    return this.#there.loose ? this.#byTime(this.#texts.loose) : undefined
  }

  #timedPart(): Part | undefined {
    return this.#there.timed ? this.#byTime(this.#texts.timed) : undefined
  }

  /** One more than a page: if not all of them are due, the first that is not says when. */
  #byTime(texts: LookTexts['loose' | 'timed']): Part | undefined {
    const { table, types } = this.#share
    if (table === 'inbox' && types.length === 0) return undefined
    const named = table === 'inbox' ? types.filter((type) => type !== '') : []
    const others = table === 'inbox' && types.includes('')
    const kinds = { named: named.length, others }
    const { overdueMs } = this.#share
    if (overdueMs !== undefined) {
      const each = this.#texts.late(this.#index, kinds, pageOf(this.#share))
      return { text: each, params: [...this.#where, microseconds(overdueMs), ...named.map(text)] }
    }
    const each = texts(this.#index, kinds, pageOf(this.#share) + 1)
    return { text: each, params: [...this.#where, ...named.map(text)] }
  }

  #keysPart(): Part {
    const all = this.#share.all === true
    if (this.#cut === undefined)
      return { text: this.#texts.firstKeys(this.#index, this.#limit, all), params: this.#where }
    const params = [...this.#where, keyHash(this.#cut)]
    return { text: this.#texts.nextKeys(this.#index, this.#limit, all), params }
  }

  /** The rows of the last key that the page has cut off. */
  #runPart(): Part | undefined {
    const left = this.#runLeft()
    if (left <= 0 || this.#cut === undefined) return undefined
    const last = this.#keys.get(this.#cut)?.at(-1)
    const params = [...this.#where, keyHash(this.#cut), numberOf(String(last?.['seq']))]
    return { text: this.#texts.run(this.#index, left), params }
  }

  /** Only a key with as many rows as were asked for has been cut. */
  #runLeft(): number {
    const rows = this.#keys.get(this.#cut ?? '') ?? []
    const [first] = rows
    const cut = rows.length === this.#limit && first !== undefined && isReady(first) && !isBehind(first)
    return cut ? RUN - rows.length : 0
  }
}

/** Keys by their hashes, their rows by seq: a union of ordered answers need not be in order. */
function inOrder(keys: ReadonlyMap<string, Row[]>): [string, Row[]][] {
  const hashed = [...keys].map(([key, rows]) => ({ key, rows, hash: keyHash(key) }))
  const bySeq = (a: Row, b: Row): number => compareSeq(String(a['seq']), String(b['seq']))
  return hashed.sort((a, b) => Buffer.compare(a.hash, b.hash)).map(({ key, rows }) => [key, rows.sort(bySeq)])
}

function isReady(row: Row): boolean {
  return !asBoolean(row['held']) && asNumber(row['ms']) <= 0
}

/** Whether an older row of its key stands aside. */
function isBehind(row: Row): boolean {
  return row['first'] != null && asText(row['first']) !== numberOf(asSeq(row['seq']))
}

function isFollowed(row: Row): boolean {
  return asBoolean(row['followed']) && isReady(row) && !isBehind(row)
}

/** Behind a row that cannot run now nothing else of its key can; of one that stands aside only its seq is known. */
function firstRows(rows: readonly Row[]): readonly Row[] {
  if (rows[0] !== undefined && isBehind(rows[0])) return [{ ...rows[0], stuck: asText(rows[0]['first']) }]
  return rows[0] !== undefined && isReady(rows[0]) ? rows.slice(0, RUN) : rows.slice(0, 1)
}

/** How many types are named, and whether those are wanted as well that are not in `subscriptions`. */
interface Types {
  readonly named: number
  readonly others: boolean
}

/** What a look asks about one table, lane by lane. `share` is the place of the share that asks. */
interface LookTexts {
  /**
   * Which lanes have anything without order (loose), with (keyed; of all keys, or of those that do not stand aside), and that
   * waits for its time (timed). Parameters: scope, scope, scope, lanes as a JSON array.
   */
  occupied(share: number, all: boolean): string
  /** The same for overdue rows without order, judged by the first row of a lane. Parameters: microseconds, scope, lanes as a JSON array. */
  overdue(share: number): string
  /** Overdue rows without order that were not in hand when a worker died. Parameters: scope, lane, microseconds, types. */
  late(share: number, types: Types, limit: number): string
  /** Without order: the first to be due. Parameters: scope, lane, types. */
  loose(share: number, types: Types, limit: number): string
  /**
   * First rows of keys that stand aside until they are due: the first to be due. Not those of other types, which would stay in front.
   * Parameters: scope, lane, types.
   */
  timed(share: number, types: Types, limit: number): string
  /** With order, from the first key. Parameters: scope, lane. */
  firstKeys(share: number, limit: number, all: boolean): string
  /** With order, behind a key. Parameters: scope, lane, hash. */
  nextKeys(share: number, limit: number, all: boolean): string
  /** More of one key. Parameters: scope, lane, hash, seq. */
  run(share: number, limit: number): string
}

/** Every part reads a few entries of an index from a known place: how many rows there are beside them does not count. */
function lookTexts(
  { table, subscriptions }: { readonly table: string; readonly subscriptions: string },
  index: Origin,
  scope: string,
  starts: string,
): LookTexts {
  const columns = `${NAME()} as seq, m.type, m.lane, m.bytes, ${DUE}, ${starts} as starts`
  const keyed = (share: number, from: string, first: string): string => `
(select ${share} as share, ${columns}, m.\`key\`, m.held_at is not null as held, 0 as timed, m.followed, ${first} as first
from ${table} as m force index (${from}) where m.${scope} = ? and m.lane = ?`
  // The first row of a key may stand aside. Only equalities: a correlated subquery with anything else would read the lane.
  const first = `(select cast(o.seq as char) from ${table} as o force index (${index}_key)
  where o.${scope} = m.${scope} and o.lane = m.lane and o.key_hash = m.key_hash order by o.seq limit 1)`
  const keys = (share: number, all: boolean): string =>
    all ? keyed(share, `${index}_key`, 'null') : `${keyed(share, `${index}_front`, first)} and m.aside = 0`
  return {
    // The first entry of a lane has no order if any has none, and the last has order if any has.
    occupied: (share, all) => `
(select ${share} as share, l.lane, (
  select m.timed = 0 from ${table} as m force index (${index}_lane)
  where m.${scope} = ? and m.lane = l.lane order by m.timed, m.available_at, m.seq limit 1) as loose, (
  select m.key_hash is not null from ${table} as m force index (${all ? `${index}_key` : `${index}_front`})
  where m.${scope} = ? and m.lane = l.lane${all ? '' : ' and m.aside = 0'}
  order by m.key_hash desc, m.seq desc limit 1) as keyed, (
  select 1 from ${table} as m force index (${index}_lane)
  where m.${scope} = ? and m.lane = l.lane and m.timed = 1 order by m.available_at, m.seq limit 1) as timed
from json_table(?, '$[*]' columns (lane int path '$')) as l)`,
    overdue: (share) => `
(select ${share} as share, l.lane, (
  select m.timed = 0 and m.available_at <= ${NOW} - interval ? microsecond from ${table} as m force index (${index}_lane)
  where m.${scope} = ? and m.lane = l.lane order by m.timed, m.available_at, m.seq limit 1) as loose,
  0 as keyed, 0 as timed
from json_table(?, '$[*]' columns (lane int path '$')) as l)`,
    late: (share, types, limit) => `
(select ${share} as share, ${columns}, null as \`key\`, 0 as held, 0 as timed, 0 as followed, null as first
from ${table} as m force index (${index}_lane)
where m.${scope} = ? and m.lane = ? and m.timed = 0 and m.available_at <= ${NOW} - interval ? microsecond
  and ${starts} = 0${ofTypes(types, subscriptions)}
order by m.available_at, m.seq limit ${limit})`,
    loose: (share, types, limit) => `
(select ${share} as share, ${columns}, null as \`key\`, 0 as held, 0 as timed, 0 as followed, null as first
from ${table} as m force index (${index}_lane)
where m.${scope} = ? and m.lane = ? and m.timed = 0${ofTypes(types, subscriptions)}
order by m.available_at, m.seq limit ${limit})`,
    timed: (share, types, limit) => `
(select ${share} as share, ${columns}, m.\`key\`, 0 as held, 1 as timed, 0 as followed, null as first
from ${table} as m force index (${index}_lane)
where m.${scope} = ? and m.lane = ? and m.timed = 1${ofTypes(types, subscriptions)}
order by m.available_at, m.seq limit ${limit})`,
    firstKeys: (share, limit, all) => `
${keys(share, all)} and m.key_hash is not null order by m.key_hash, m.seq limit ${limit})`,
    nextKeys: (share, limit, all) => `
${keys(share, all)} and m.key_hash > ? order by m.key_hash, m.seq limit ${limit})`,
    run: (share, limit) => `
${keyed(share, `${index}_key`, 'null')} and m.key_hash = ? and m.seq > ${SEQ} order by m.seq limit ${limit})`,
  }
}

/** Of these types; where none are named, of all. */
function ofTypes({ named, others }: Types, subscriptions: string): string {
  const known = named > 0 ? [`m.type in (${MANY(named)})`] : []
  const unknown = others
    ? [`not exists (select 1 from ${subscriptions} as s where s.type = m.type and s.consumer = m.consumer)`]
    : []
  const either = [...known, ...unknown]
  return either.length > 0 ? ` and (${either.join(' or ')})` : ''
}
