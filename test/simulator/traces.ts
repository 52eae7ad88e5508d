import type { Store } from 'hapax'
import type { InboxRow, Look, Opening, OutboxMessage, StoredMessage, Unit, Writes } from 'hapax/contracts'
import { LANES } from '../../src/message/lanes.ts'
import { fingerprint, messageKey } from '../../src/message/message.ts'
import { seeded } from '../support/seeded.ts'
import { type Leased, type LeaseOperation, LeaseRun, randomLeaseOperation } from './lease-traces.ts'

/** One operation on a store, in words that mean the same on every store: rows are named by their messages. */
export type Operation =
  | LeaseOperation
  | ({ readonly kind: 'settle'; readonly tx: number } & Leased)
  | { readonly kind: 'take'; readonly tx: number; readonly consumer: string; readonly ids: readonly string[] }
  | {
      readonly kind: 'claim'
      readonly tx: number
      readonly consumer: string
      readonly ids: readonly string[]
      readonly wait: boolean
    }
  | { readonly kind: 'end'; readonly tx: number; readonly writes: 'inbox' | 'failed' | 'outbox' | 'none' | 'rollback' }
  | { readonly kind: 'local'; readonly ids: readonly string[]; readonly later: boolean }
  | { readonly kind: 'publish'; readonly ids: readonly string[]; readonly later: boolean }
  | { readonly kind: 'look' }
  | ({ readonly kind: 'reschedule'; readonly leased: boolean; readonly later: boolean } & Leased)
  | ({ readonly kind: 'fail'; readonly leased: boolean; readonly hold: boolean } & Leased)
  | { readonly kind: 'confirm' | 'postpone' | 'refuse'; readonly id: string; readonly flag: boolean }
  | { readonly kind: 'retry' | 'discard' | 'edit'; readonly consumer: string; readonly id: string }
  | { readonly kind: 'release'; readonly origin: 'inbox' | 'outbox'; readonly consumer: string; readonly key: string }
  | { readonly kind: 'join'; readonly worker: string; readonly dead: boolean }
  | { readonly kind: 'note'; readonly worker: string; readonly id: string; readonly alone: boolean }
  | { readonly kind: 'beat' | 'leave'; readonly worker: string }
  | { readonly kind: 'bury' }
  | { readonly kind: 'subscribe'; readonly consumer: string; readonly ordered: boolean }
  | { readonly kind: 'cleanup'; readonly consumer: string; readonly old: boolean }

const CONSUMERS = ['billing', 'ordered'] as const
const IDS = ['m1', 'm2', 'm3', 'm4'] as const
/** The message without a key; it cannot be held. */
const UNKEYED = 'm4'
const TYPE = 'order.placed'
const SOURCE = '/shop'
const RELAY = 'default'
const AUDIT = { actor: 'trace', action: 'retry' } as const
const ERROR = { name: 'Error', message: 'not now' }
const TOKEN = '00000000-0000-4000-8000-'
const LATER_MS = 10_000_000
const ALL_LANES = Array.from({ length: LANES }, (_, lane) => lane)

/** A random trace. Without parallel writers a transaction ends before anything else happens. */
export function randomTrace(seed: number, length: number, parallel: boolean): Operation[] {
  const random = seeded(seed)
  const one = <T>(...items: readonly T[]): T => items[Math.floor(random() * items.length)] as T
  const odds = (chance: number): boolean => random() < chance
  const some = (): string[] => IDS.filter(() => odds(0.4))
  const trace: Operation[] = []
  const open: number[] = []
  let lastTx = 0
  // Half of them are about a message or two under leases.
  const leasing = odds(0.5)
  const about = leasing ? { consumer: one(...CONSUMERS), id: one('m1', UNKEYED) } : undefined
  if (about !== undefined) {
    if (about.consumer === 'ordered') trace.push({ kind: 'subscribe', consumer: about.consumer, ordered: true })
    trace.push({ kind: 'local', ids: IDS, later: false })
    trace.push({ kind: 'lease', consumer: about.consumer, ids: [about.id], over: odds(0.5) })
  }
  const end = (tx: number): void => {
    open.splice(open.indexOf(tx), 1)
    trace.push({ kind: 'end', tx, writes: one('inbox', 'inbox', 'failed', 'outbox', 'none', 'rollback') })
  }
  while (trace.length < length) {
    if (open.length > 0 && (odds(0.5) || open.length > 2)) {
      end(one(...open))
      continue
    }
    if (odds(leasing ? 0.1 : 0.35)) {
      const tx = ++lastTx
      const ids = some()
      const consumer = one(...CONSUMERS)
      if (ids.length === 0) continue
      if (about !== undefined && odds(0.5)) trace.push({ kind: 'settle', tx, ...about, old: odds(0.2) })
      else if (odds(0.5)) trace.push({ kind: 'take', tx, consumer, ids })
      else trace.push({ kind: 'claim', tx, consumer, ids, wait: odds(0.2) })
      open.push(tx)
      if (!parallel) end(tx)
      continue
    }
    trace.push(open.length > 0 ? { kind: 'look' } : randomChange(one, odds, some, about))
  }
  for (const tx of [...open]) end(tx)
  trace.push({ kind: 'look' })
  return trace
}

function randomChange(
  one: <T>(...items: readonly T[]) => T,
  odds: (chance: number) => boolean,
  some: () => string[],
  about: { readonly consumer: string; readonly id: string } | undefined,
): Operation {
  if (about !== undefined && odds(0.75)) return randomLeaseOperation(one, odds, about)
  const { consumer, id } = (odds(0.6) && about) || { consumer: one(...CONSUMERS), id: one(...IDS) }
  const worker = one('w1', 'w2')
  const leased = { consumer, id, leased: odds(0.5), old: odds(0.2) }
  return one<() => Operation>(
    () => ({ kind: 'look' }),
    () => ({ kind: 'local', ids: [id, ...some().filter((each) => each !== id)], later: odds(0.3) }),
    () => ({ kind: 'publish', ids: [id, ...some().filter((each) => each !== id)], later: odds(0.3) }),
    () => ({ kind: 'reschedule', ...leased, later: odds(0.5) }),
    () => ({ kind: 'fail', ...leased, hold: odds(0.5) && consumer === 'ordered' && id !== UNKEYED }),
    () => ({ kind: one('confirm', 'postpone'), id, flag: odds(0.5) }),
    () => ({ kind: 'refuse', id, flag: odds(0.5) && id !== UNKEYED }),
    () => ({ kind: one('retry', 'discard', 'edit'), consumer: one(consumer, RELAY), id }),
    () => ({ kind: 'release', origin: one('inbox', 'outbox'), consumer: one(consumer, RELAY), key: one('a', 'b') }),
    () => ({ kind: 'join', worker, dead: odds(0.5) }),
    () => ({ kind: 'note', worker, id, alone: odds(0.3) }),
    () => ({ kind: one('beat', 'leave'), worker }),
    () => ({ kind: 'bury' }),
    () => ({ kind: 'subscribe', consumer, ordered: consumer === 'ordered' }),
    () => ({ kind: 'cleanup', consumer, old: odds(0.5) }),
  )()
}

/** A store under a trace. `settle` waits for an answer; a virtual world has to be moved for it. */
export interface Traced {
  readonly store: Store<never>
  settle<T>(answer: Promise<T>): Promise<T>
}

/** Runs a trace; one line per operation, the same on every store that does the same. */
export async function runTrace(traced: Traced, trace: readonly Operation[]): Promise<string[]> {
  const run = new TraceRun(traced)
  const answers: string[] = []
  for (const operation of trace) {
    const answer = await run.step(operation).catch((error: { code?: unknown; message?: unknown }) => {
      return `error ${String(error.code ?? error.message)}`
    })
    answers.push(`${JSON.stringify(operation)} -> ${JSON.stringify(answer)}`)
  }
  return answers
}

interface OpenTransaction {
  readonly fresh: readonly StoredMessage[]
  readonly consumer: string
  end(writes: Writes | undefined): Promise<unknown>
}

class TraceRun {
  readonly #traced: Traced
  readonly #open = new Map<number, OpenTransaction>()
  readonly #leases: LeaseRun
  #tokens = 0
  #edits = 0

  constructor(traced: Traced) {
    this.#traced = traced
    this.#leases = new LeaseRun({
      store: traced.store,
      wait: (answer) => traced.settle(answer),
      seqOf: (consumer, id) => this.#inboxSeq(consumer, id),
      messageKey: (id) => messageKey(SOURCE, id),
      token: () => this.#token(),
    })
  }

  #token(): string {
    return `${TOKEN}${String(++this.#tokens).padStart(12, '0')}`
  }

  get #store(): Store<never> {
    return this.#traced.store
  }

  #wait<T>(answer: Promise<T>): Promise<T> {
    return this.#traced.settle(answer)
  }

  async step(operation: Operation): Promise<unknown> {
    switch (operation.kind) {
      case 'take':
        return this.#take(operation)
      case 'claim':
        return this.#claim(operation)
      case 'settle':
        return this.#settle(operation)
      case 'end':
        return this.#end(operation)
      case 'look':
        return this.#look()
      case 'local':
      case 'publish':
        return this.#write(operation)
      case 'reschedule': {
        const seq = await this.#inboxSeq(operation.consumer, operation.id)
        const delayMs = operation.later ? LATER_MS : 0
        const leaseToken = this.#leaseToken(operation)
        return (
          seq &&
          this.#wait(
            this.#store.inbox.reschedule({ seq, attempts: 2, lost: 1, delayMs, error: ERROR, entry: '{}', leaseToken }),
          )
        )
      }
      case 'fail': {
        const seq = await this.#inboxSeq(operation.consumer, operation.id)
        const row = {
          attempts: 3,
          reason: 'permanent',
          error: ERROR,
          entry: '{}',
          hold: operation.hold,
          leaseToken: this.#leaseToken(operation),
        }
        return seq && this.#wait(this.#store.inbox.fail({ seq, ...row }))
      }
      case 'lease':
      case 'renew':
      case 'begin':
      case 'finish':
      case 'decide':
      case 'journal':
        return this.#leases.step(operation)
      default:
        return this.#other(operation)
    }
  }

  #leaseToken(operation: Leased & { leased: boolean }): string | null {
    return operation.leased ? (this.#leases.leaseOf(operation)?.token ?? null) : null
  }

  async #settle(operation: Operation & { kind: 'settle' }): Promise<unknown> {
    const lease = this.#leases.leaseOf(operation)
    if (lease === undefined) return 'no lease'
    const unit = await this.#begin(operation.tx, operation.consumer, { kind: 'settle', lease }, (opened) =>
      [...opened.claimed.values()].map((row) => row.message),
    )
    return [[...unit.claimed.values()].map(claimed), unit.present.size]
  }

  async #other(operation: Operation): Promise<unknown> {
    const store = this.#store
    switch (operation.kind) {
      case 'confirm':
      case 'postpone':
      case 'refuse':
        return this.#relay(operation.kind, operation.id, operation.flag)
      case 'retry':
      case 'discard':
      case 'edit':
        return this.#byHand(operation.kind, operation.consumer, operation.id)
      case 'release':
        return this.#wait(store.keys.release(operation.origin, operation.consumer, operation.key, AUDIT))
      case 'join': {
        const ttlMs = operation.dead ? -60_000 : LATER_MS
        return this.#wait(store.workers.join({ id: operation.worker, name: 'trace', ttlMs, serves: '{}' }))
      }
      case 'note': {
        const seq = (await this.#inboxSeq('billing', operation.id)) ?? (await this.#inboxSeq('ordered', operation.id))
        return this.#wait(
          store.workers.note(operation.worker, { seqs: seq === undefined ? [] : [seq], alone: operation.alone }, false),
        )
      }
      case 'beat': {
        const workers = await this.#wait(store.workers.note(operation.worker, { seqs: [], alone: false }, true))
        return workers?.map(({ id, inHand }) => [id, inHand])
      }
      case 'leave':
        return this.#wait(store.workers.leave(operation.worker))
      case 'bury':
        return this.#wait(store.workers.bury())
      case 'subscribe':
        return this.#wait(store.subscriptions.add(operation.consumer, [TYPE], operation.ordered))
      case 'cleanup': {
        const step = { kind: 'receipts', consumer: operation.consumer, after: undefined } as const
        const { deleted } = await this.#wait(store.admin.clean(step, operation.old ? -60_000 : LATER_MS, 100))
        return deleted
      }
      default:
        throw new Error(`expected a known operation, got ${operation.kind}`)
    }
  }

  async #take({ tx, consumer, ids }: Operation & { kind: 'take' }): Promise<unknown> {
    const messages = ids.map(message)
    const token = this.#token()
    const unit = await this.#begin(tx, consumer, { kind: 'take', consumer, token, messages }, (opened) =>
      messages.filter(({ messageKey: key }) => !opened.existing.has(key)),
    )
    const existing = messages.filter(({ messageKey: key }) => unit.existing.has(key))
    return existing.map(({ id, messageKey: key }) => {
      const { token: own = '' } = unit.existing.get(key) ?? {}
      return [id, own.startsWith(TOKEN) ? own : 'another token']
    })
  }

  async #claim({ tx, consumer, ids, wait }: Operation & { kind: 'claim' }): Promise<unknown> {
    const seqs: string[] = []
    for (const id of ids) {
      const seq = await this.#inboxSeq(consumer, id)
      if (seq !== undefined) seqs.push(seq)
    }
    // Nobody asks for nothing.
    if (seqs.length === 0) return 'nothing to claim'
    const locked = wait ? 'wait' : 'skip'
    const unit = await this.#begin(tx, consumer, { kind: 'claim', seqs, locked }, (opened) =>
      [...opened.claimed.values()].map((row) => row.message),
    )
    return [[...unit.claimed.values()].map(claimed), unit.present.size]
  }

  /** Resolves when the body runs; what ends it comes later. */
  async #begin(
    tx: number,
    consumer: string,
    opening: Opening,
    fresh: (unit: Unit<never>) => readonly StoredMessage[],
  ): Promise<Unit<never>> {
    const opened = Promise.withResolvers<Unit<never>>()
    const ending = Promise.withResolvers<Writes | undefined>()
    const options = { isolation: 'read committed', lockTimeoutMs: 30, idleTimeoutMs: 60_000 } as const
    const done = this.#store.transactions.run(options, opening, async (unit) => {
      opened.resolve(unit)
      return { value: 'done', writes: await ending.promise }
    })
    done.catch((error: unknown) => opened.reject(error))
    const unit = await this.#wait(opened.promise)
    const end = (writes: Writes | undefined): Promise<unknown> => {
      ending.resolve(writes)
      return this.#wait(done)
    }
    this.#open.set(tx, { consumer, fresh: fresh(unit), end })
    return unit
  }

  async #end({ tx, writes }: Operation & { kind: 'end' }): Promise<unknown> {
    const open = this.#open.get(tx)
    if (open === undefined) return 'not open'
    this.#open.delete(tx)
    return open.end(writes === 'rollback' ? undefined : this.#writes(open, writes))
  }

  #writes({ consumer, fresh }: OpenTransaction, writes: 'inbox' | 'failed' | 'outbox' | 'none'): Writes {
    const ordered = consumer === 'ordered'
    const row = { consumer, ordered, attempts: 1, error: ERROR, entry: '{}' }
    if (writes === 'inbox') return { inbox: fresh.map((each) => ({ ...row, message: each, starts: 0, delayMs: 0 })) }
    if (writes === 'failed') return { failed: fresh.map((each) => ({ ...row, message: each, reason: 'permanent' })) }
    if (writes === 'outbox') return { outbox: fresh.map((each) => ({ relay: RELAY, message: each, delayMs: 0 })) }
    return {}
  }

  /** In a transaction of its own. */
  #write({ kind, ids, later }: Operation & { kind: 'local' | 'publish' }): Promise<unknown> {
    const delayMs = later ? LATER_MS : 0
    const messages = ids.map(message)
    const options = { isolation: 'read committed', lockTimeoutMs: 30, idleTimeoutMs: 60_000 } as const
    const consumers = [{ name: 'billing', ordered: false }]
    return this.#wait(
      this.#store.transactions.run<unknown>(options, { kind: 'plain' }, async ({ tx }) => {
        if (kind === 'publish') {
          const rows = messages.map((each) => ({ relay: RELAY, message: each, delayMs }))
          return { value: await this.#store.transactions.enter(tx).writeOutbox(rows), writes: {} }
        }
        const rows = messages.map((each) => ({ message: each, consumers, delayMs }))
        const written = await this.#store.transactions.enter(tx).writeLocal(rows)
        // Not the rows themselves: their marks are random, and not every database names them.
        return { value: written.map(({ consumers: count, fresh }) => ({ consumers: count, fresh })), writes: {} }
      }),
    )
  }

  #inboxSeq(consumer: string, id: string): Promise<string | undefined> {
    return this.#wait(this.#store.inbox.find(consumer, messageKey(SOURCE, id)))
  }

  async #look(): Promise<unknown> {
    const share = { types: [TYPE], lanes: ALL_LANES, limit: 1_000, after: new Map() }
    const shares = [
      ...CONSUMERS.map((scope) => ({ ...share, table: 'inbox', scope }) as const),
      { ...share, table: 'outbox', scope: RELAY } as const,
    ]
    // It puts keys aside that cannot run, which must change nothing that is seen.
    await this.#wait(this.#store.workers.look(shares))
    const looks = await this.#wait(this.#store.workers.look(shares.map((each) => ({ ...each, all: true }))))
    const outbox = await this.#outboxRows(looks.at(-1))
    const sent = new Map(outbox.map(({ seq, message: { id } }) => [seq, id]))
    const inbox = await this.#names()
    const shown = looks.map(({ entries, nextMs }, place) => [
      entries.map((entry) => {
        const names = place < CONSUMERS.length ? inbox : sent
        const { seq, type, lane, key, bytes, dueMs, held, deaths } = entry
        return [names.get(seq), type, lane, key, bytes, dueMs <= 0, held, deaths].join(' ')
      }),
      nextMs !== undefined,
    ])
    // Rows that became due in the same millisecond have no order of their own.
    const sorted = shown.map(([entries, next]) => [(entries as string[]).toSorted(), next])
    return [sorted, await this.#failed()]
  }

  async #outboxRows(look: Look | undefined): Promise<readonly OutboxMessage[]> {
    const seqs = look?.entries.map((entry) => entry.seq) ?? []
    return seqs.length === 0 ? [] : this.#wait(this.#store.outbox.read(seqs))
  }

  async #failed(): Promise<unknown> {
    const both = [false, true].map((replaced) => this.#wait(this.#store.failed.list({ limit: 100, replaced })))
    const rows = (await Promise.all(both)).flat()
    return rows
      .map(({ origin, consumer, message: { id }, attempts, reason, held, replacedBy }) =>
        [origin, consumer, id, attempts, reason, held, replacedBy].join(' '),
      )
      .toSorted()
  }

  /** What the rows of the inbox are about, by seq. */
  async #names(): Promise<Map<string, string>> {
    const names = new Map<string, string>()
    for (const consumer of CONSUMERS) {
      for (const id of this.#allIds()) {
        const seq = await this.#inboxSeq(consumer, id)
        if (seq !== undefined) names.set(seq, `${consumer}/${id}`)
      }
    }
    return names
  }

  #allIds(): readonly string[] {
    return [...IDS, ...Array.from({ length: this.#edits }, (_, index) => `edit${index + 1}`)]
  }

  async #relay(kind: 'confirm' | 'postpone' | 'refuse', id: string, flag: boolean): Promise<unknown> {
    const share = {
      types: [],
      lanes: ALL_LANES,
      limit: 1_000,
      after: new Map(),
      all: true,
      table: 'outbox',
      scope: RELAY,
    } as const
    const [look] = await this.#wait(this.#store.workers.look([share]))
    const rows = await this.#outboxRows(look)
    const row = rows.find(({ message: { id: own } }) => own === id)
    const about = rows.map(({ message: { id: own }, attempts }) => [own, attempts])
    if (row === undefined) return about
    const { seq } = row
    const store = this.#store
    if (kind === 'confirm') await this.#wait(store.outbox.confirm([seq], flag))
    else if (kind === 'refuse') {
      about.push([
        'refused',
        Number(
          await this.#wait(store.outbox.refuse({ seq, reason: 'too-large', error: ERROR, entry: '{}', hold: flag })),
        ),
      ])
    } else await this.#wait(store.outbox.postpone([{ seq, delayMs: flag ? LATER_MS : 0, error: ERROR, entry: '{}' }]))
    return about
  }

  async #byHand(kind: 'retry' | 'discard' | 'edit', consumer: string, id: string): Promise<unknown> {
    const store = this.#store
    const rows = await this.#wait(store.failed.list({ consumer, limit: 100 }))
    const row = rows.find(({ message: { id: own } }) => own === id)
    if (row === undefined) return 'none'
    if (kind === 'retry') return this.#wait(store.failed.retry(row.seq, AUDIT))
    if (kind === 'discard') return this.#wait(store.failed.discard(row.seq, { ...AUDIT, action: 'discard' }))
    this.#edits += 1
    const edited = { ...message(`edit${this.#edits}`), key: row.message.key }
    return this.#wait(store.failed.edit(row.seq, edited, { ...AUDIT, action: 'edit' }))
  }
}

function claimed({ message: { id }, attempts, lost, starts, crashes, ordered, leaseToken, fence }: InboxRow): string {
  return [id, attempts, lost, starts, crashes, ordered, leaseToken, fence].join(' ')
}

function message(id: string): StoredMessage {
  const data = Buffer.from(`{"id":"${id}"}`)
  const key = id === 'm1' || id === 'm2' ? 'a' : id === 'm3' ? 'b' : null
  const identity = { messageKey: messageKey(SOURCE, id), source: SOURCE, id, type: TYPE, key }
  return { ...identity, attributes: '{}', data, fingerprint: fingerprint(data) }
}
