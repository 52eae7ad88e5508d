import type { Store } from 'hapax'
import type { EffectEnd, EffectRow, InboxRow, Lease } from 'hapax/contracts'

/** One operation of leased work on a store; leases are named by their message. `old`: not the newest one, but the first. */
export type LeaseOperation =
  | { readonly kind: 'lease'; readonly consumer: string; readonly ids: readonly string[]; readonly over: boolean }
  | ({ readonly kind: 'renew'; readonly over: boolean } & Leased)
  | ({ readonly kind: 'begin'; readonly name: string; readonly again: boolean } & Leased)
  | ({ readonly kind: 'finish'; readonly name: string; readonly state: EffectEnd['state'] } & Leased)
  | ({ readonly kind: 'decide'; readonly name: string; readonly state: EffectEnd['state'] } & Leased)
  | ({ readonly kind: 'journal' } & Leased)

/** Whose lease. */
export interface Leased {
  readonly consumer: string
  readonly id: string
  readonly old: boolean
}

/** A random operation of leased work. */
export function randomLeaseOperation(
  one: <T>(...items: readonly T[]) => T,
  odds: (chance: number) => boolean,
  about: { readonly consumer: string; readonly id: string },
): LeaseOperation {
  const leased = { ...about, old: odds(0.2) }
  const name = one('sms', 'sms', 'push', '')
  const state = one<EffectEnd['state']>('done', 'not-done', 'unknown')
  return one<() => LeaseOperation>(
    () => ({ kind: 'lease', consumer: about.consumer, ids: [about.id], over: odds(0.5) }),
    () => ({ kind: 'lease', consumer: about.consumer, ids: [about.id], over: odds(0.5) }),
    () => ({ kind: 'renew', over: odds(0.5), ...leased }),
    () => ({ kind: 'begin', name, again: odds(0.5), ...leased }),
    () => ({ kind: 'begin', name, again: odds(0.5), ...leased }),
    () => ({ kind: 'finish', name, state, ...leased }),
    () => ({ kind: 'finish', name, state, ...leased }),
    () => ({ kind: 'decide', name, state, ...leased }),
    () => ({ kind: 'journal', ...leased }),
  )()
}

/** What a run of leased work needs of its trace. */
interface LeaseRunOptions {
  readonly store: Store<never>
  wait<T>(answer: Promise<T>): Promise<T>
  seqOf(consumer: string, id: string): Promise<string | undefined>
  messageKey(id: string): string
  token(): string
}

const LATER_MS = 10_000_000
const OVER_MS = -60_000

/** The leases of a trace, and what is done with them. */
export class LeaseRun {
  readonly #options: LeaseRunOptions
  readonly #leases = new Map<string, Lease[]>()

  constructor(options: LeaseRunOptions) {
    this.#options = options
  }

  /** A lease that was got before, whatever became of it. */
  leaseOf({ consumer, id, old }: Leased): Lease | undefined {
    const leases = this.#leases.get(`${consumer}/${id}`)
    return old ? leases?.[0] : leases?.at(-1)
  }

  async step(operation: LeaseOperation): Promise<unknown> {
    const { store, wait, messageKey } = this.#options
    if (operation.kind === 'lease') return this.#lease(operation)
    const { consumer, id } = operation
    if (operation.kind === 'journal') {
      const rows = await wait(store.journal.of(consumer, messageKey(id)))
      return rows.map(shownEffect).sort()
    }
    const effect = { consumer, messageKey: messageKey(id), name: 'name' in operation ? operation.name : '' }
    if (operation.kind === 'decide') {
      return wait(store.journal.settle(effect, endOf(operation.state), { actor: 'trace', action: 'settle' }))
    }
    const lease = this.leaseOf(operation)
    if (lease === undefined) return 'no lease'
    if (operation.kind === 'renew') {
      const held = await wait(store.inbox.renew([lease], operation.over ? OVER_MS : LATER_MS))
      return held.has(lease.seq)
    }
    if (operation.kind === 'finish') return wait(store.journal.end(lease, effect, endOf(operation.state)))
    const begun = await wait(store.journal.begin(lease, LATER_MS, effect, operation.again))
    return begun && [begun.before === undefined ? 'new' : shownEffect(begun.before)]
  }

  async #lease({ consumer, ids, over }: LeaseOperation & { kind: 'lease' }): Promise<unknown> {
    const { store, wait, seqOf, token: nextToken } = this.#options
    const seqs = (await Promise.all(ids.map((id) => seqOf(consumer, id)))).filter((seq) => seq !== undefined)
    if (seqs.length === 0) return 'nothing to lease'
    const token = nextToken()
    const rows = await wait(store.inbox.lease(seqs, token, over ? OVER_MS : LATER_MS))
    for (const row of rows) {
      const known = this.#leases.get(`${consumer}/${row.message.id}`) ?? []
      this.#leases.set(`${consumer}/${row.message.id}`, [...known, { seq: row.seq, token, fence: row.fence }])
    }
    return rows.map(shownRow)
  }
}

function endOf(state: EffectEnd['state']): EffectEnd {
  if (state === 'done') return { state, result: '{"sent":true}', error: null }
  return { state, result: null, error: { name: 'Error', message: 'no answer' } }
}

function shownRow({ message: { id }, attempts, starts, leaseToken, fence }: InboxRow): string {
  return [id, attempts, starts, leaseToken, fence].join(' ')
}

function shownEffect({ name, state, token, attempts, result, error }: EffectRow): string {
  return [name, state, token, attempts, result, error?.message].join(' ')
}
