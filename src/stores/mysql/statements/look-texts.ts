import type { Origin } from '../../../contracts/index.ts'
import { DUE, MANY, NAME, SEQ } from './fragments.ts'

/** How many types are named, and whether those are wanted as well that are not in `subscriptions`. */
interface Types {
  readonly named: number
  readonly others: boolean
}

/** What a look asks about one table, lane by lane. `share` is the place of the share that asks. */
export interface LookTexts {
  /**
   * Which lanes have anything without order (loose), with (keyed; of all keys, or of those that do not stand aside), and that
   * waits for its time (timed). Parameters: scope, scope, scope, lanes as a JSON array.
   */
  occupied(share: number, all: boolean): string
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
export function lookTexts(
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
