import { setTimeout as delay } from 'node:timers/promises'
import type { Store } from 'hapax'
import { mysql } from 'hapax/mysql'
import { postgres } from 'hapax/postgres'
import type { RigTx } from '../../../support/databases.ts'
import type { Rows } from '../../../support/replicated.ts'
import { type Count, count, effectCounts, left, prefixOf } from './count.ts'
import { Outside, Site, shopTables } from './orders.ts'

/** A database that is reached by the shop's processes, fails while they work, and is whole again later. */
export interface Scene {
  readonly store: 'postgres' | 'mysql'
  /** Where each process of the shop finds the database. */
  readonly urls: readonly string[]
  /** Asks the server that is up before. */
  prepare(text: string): Promise<Rows>
  /** Asks a server that has, in the end, what the database has. */
  ask(text: string): Promise<Rows>
  /** Does harm, and what an operator does then; resolves when the database could be used again. */
  fail(): Promise<void>
  /** Brings back what was away. */
  comeBack(): Promise<void>
}

export interface StoryOptions {
  /** Orders before the fault, after it, and after the return of what was away, at least. @default 30 */
  readonly orders?: number
  /** How long a transaction of a handler or of a publisher may take. @default those of hapax */
  readonly timeoutMs?: number
  /** How often it fails and comes back. @default 1 */
  readonly rounds?: number
  /** Is told how far it has come. */
  readonly log?: (step: string) => void
}

export interface Told {
  readonly count: Count
  readonly acknowledged: number
  /** From the fault, and from the end of what was done then, to the first effects of orders that were placed after it: the longest. */
  readonly faultMs: number
  readonly usableMs: number
  readonly refusals: Readonly<Record<string, number>>
  readonly texts: number
  /** Calls of the provider beyond one for each message that it has sent. */
  readonly repeatedCalls: number
}

const PATIENCE_MS = 400_000
const serials = {
  postgres: 'serial bigint generated always as identity primary key',
  mysql: 'serial bigint not null auto_increment primary key',
}

/** A shop works; its database fails, is brought into order, and what was away returns. */
export async function tellStory(scene: Scene, options: StoryOptions = {}): Promise<Told> {
  const { orders = 30, timeoutMs, rounds = 1, log = () => {} } = options
  const { store } = scene
  const ask: Scene['ask'] = (text) => asked(scene, text)
  const outside = new Outside()
  for (const text of shopTables(serials[store])) await scene.prepare(text)
  await using sites = new AsyncDisposableStack()
  const shops = scene.urls.map((url, index) => {
    const name = String.fromCharCode(97 + index)
    return sites.use(new Site({ name, store: openStore(store, url), outside, ...(timeoutMs && { timeoutMs }) }))
  })
  await shops[0]?.hapax.migrate()
  await Promise.all(shops.map((shop) => shop.start()))
  const handled = new Handled(ask)
  await handled.reaches(orders)
  let [faultMs, usableMs] = [0, 0]
  for (let round = 1; round <= rounds; round++) {
    log('works')
    const failedAt = performance.now()
    await scene.fail()
    const usableAt = performance.now()
    log('can be used again')
    const placed = await numberOf(ask)
    await handled.reaches(placed + 1)
    faultMs = Math.max(faultMs, performance.now() - failedAt)
    usableMs = Math.max(usableMs, performance.now() - usableAt)
    log('works again')
    await handled.reaches(placed + orders)
    log('goes on')
    await scene.comeBack()
    log('is whole again')
    await handled.reaches((await numberOf(ask)) + orders)
  }
  await Promise.all(shops.map((shop) => shop.stopTaking()))
  log('takes no more orders')
  await patiently(
    async () => (await left(ask, prefixOf[store])) === 0 && outside.broker.unsettled === 0,
    async () => `${await left(ask, prefixOf[store])} rows and ${outside.broker.unsettled} messages are left`,
  )
  const acknowledged = new Set(shops.flatMap((shop) => [...shop.acknowledged]))
  const { provider } = outside
  return {
    count: await count(ask, prefixOf[store], acknowledged),
    acknowledged: acknowledged.size,
    faultMs: Math.round(faultMs),
    usableMs: Math.round(usableMs),
    refusals: summed(shops.map((shop) => shop.refusals)),
    texts: provider.sent.size,
    repeatedCalls: provider.calls - provider.sent.size,
  }
}

/** Waits until every table of effects has so many. */
class Handled {
  readonly #ask: Scene['ask']

  constructor(ask: Scene['ask']) {
    this.#ask = ask
  }

  reaches(wanted: number): Promise<void> {
    const counts = (): Promise<number[]> => effectCounts(this.#ask)
    return patiently(
      async () => Math.min(...(await counts())) >= wanted,
      async () => `${(await counts()).join(', ')} effects, and ${wanted} are waited for`,
    )
  }
}

/** A question that is not answered is asked again: it changes nothing. */
async function asked({ ask }: Scene, text: string): Promise<Rows> {
  for (const deadline = performance.now() + PATIENCE_MS; ; await delay(100)) {
    try {
      return await ask(text)
    } catch (error) {
      if (performance.now() > deadline) throw error
    }
  }
}

async function numberOf(ask: Scene['ask']): Promise<number> {
  return Number((await ask('select count(*) as n from orders'))[0]?.['n'])
}

function summed(maps: readonly ReadonlyMap<string, number>[]): Record<string, number> {
  const sums: Record<string, number> = {}
  for (const [code, many] of maps.flatMap((each) => [...each])) sums[code] = (sums[code] ?? 0) + many
  return sums
}

function openStore(store: 'postgres' | 'mysql', url: string): Store<RigTx, never> {
  return (store === 'postgres' ? postgres({ url }) : mysql({ url })) as unknown as Store<RigTx, never>
}

/** Longer than `until`: a database that falls silent takes its time. */
async function patiently(holds: () => Promise<boolean>, otherwise: () => Promise<string>): Promise<void> {
  for (const deadline = performance.now() + PATIENCE_MS; !(await holds()); await delay(100)) {
    if (performance.now() > deadline) throw new Error(`not in time: ${await otherwise()}`)
  }
}

/** Whether the long ones are asked for. */
export const full: boolean = process.env['HAPAX_TEST_CLUSTERS'] === 'full'

/** How long a story may take, with the start of its servers, on a busy machine. */
export const STORY_MS = 1_200_000

/** A story in a line. */
export function summary({ count, ...told }: Told): string {
  const refusals = Object.entries(told.refusals).map(([code, many]) => `${many} ${code}`)
  return (
    `${count.orders} orders, ${told.acknowledged} acknowledged, ${told.texts} texts; ` +
    `works ${told.faultMs} ms after the fault, ${told.usableMs} ms after the database could be used again; ` +
    `refused: ${refusals.join(', ') || 'none'}; ${count.repeated.length} attempts repeated, ${told.repeatedCalls} calls`
  )
}

/** What must not be, where the database keeps what it has acknowledged. */
export const nothingWrong: Omit<Count, 'orders'> = {
  ...{ vanished: [], lost: [], doubled: [], inverted: [], unfounded: [], failed: [] },
  // No handler is to blame for what happened to its database.
  repeated: [],
}
