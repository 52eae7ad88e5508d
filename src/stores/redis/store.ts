import { type Clock, systemClock } from '../../base/index.ts'
import type {
  Audit,
  Claimed,
  ClaimOptions,
  ClaimStatus,
  ClaimStore,
  ClaimStoreFeatures,
  EffectEnd,
  EffectRef,
  EffectRow,
  FailedFilter,
  FailedGroup,
  FailedMessage,
  FailedWhere,
  Failure,
  Finding,
  Lease,
  Release,
  StoredClaim,
  Trace,
} from '../../contracts/index.ts'
import type { StoredMessage } from '../../message/index.ts'
import { checkup } from './checkup.ts'
import { Claims } from './claims.ts'
import type { Way } from './client.ts'
import { Commands } from './commands.ts'
import { FailedIndex } from './failed-index.ts'
import { Journal } from './journal.ts'
import { Known } from './known.ts'
import { Names } from './names.ts'
import { trace } from './trace.ts'

/** A lease store on Redis or Valkey. */
export class RedisStore implements ClaimStore {
  readonly features: ClaimStoreFeatures = { name: 'redis' }
  readonly #commands: Commands
  readonly #names: Names
  readonly #index: FailedIndex
  readonly #claims: Claims
  readonly #journal: Journal
  readonly #known: Known
  readonly #clock: Clock
  #tidiedAt = Number.NEGATIVE_INFINITY

  constructor(way: Way, prefix: string, timeoutMs: number, clock: Clock = systemClock) {
    this.#clock = clock
    this.#commands = new Commands(way, timeoutMs, clock)
    this.#names = new Names(prefix)
    this.#index = new FailedIndex(this.#commands, this.#names)
    this.#claims = new Claims(this.#commands, this.#names, this.#index)
    this.#journal = new Journal(this.#commands, this.#names)
    this.#known = new Known(this.#commands, this.#names)
  }

  async ready(): Promise<void> {
    await this.#commands.call('ZCARD', this.#names.failed)
  }

  async claim(
    consumer: string,
    messages: readonly StoredMessage[],
    options: ClaimOptions & { readonly alone: boolean },
  ): Promise<readonly Claimed[]> {
    await this.#known.note(consumer, messages)
    return this.#claims.claim(consumer, messages, options)
  }

  async claimStored(
    consumer: string,
    options: ClaimOptions & { readonly limit: number },
  ): Promise<{ readonly claims: readonly StoredClaim[]; readonly nextMs: number | undefined }> {
    await this.#tidy()
    return this.#claims.claimStored(consumer, options)
  }

  renew(leases: readonly Lease[], leaseMs: number): Promise<ReadonlySet<string>> {
    return this.#claims.renew(leases, leaseMs)
  }

  settle(leases: readonly Lease[], retentionMs: number | 'forever'): Promise<ReadonlySet<string>> {
    return this.#claims.settle(leases, retentionMs)
  }

  release(lease: Lease, end: Release): Promise<boolean> {
    return this.#claims.release(lease, end)
  }

  fail(consumer: string, lease: Lease, failure: Failure): Promise<boolean> {
    return this.#claims.fail(consumer, lease, failure)
  }

  keep(consumer: string, failure: Failure): Promise<void> {
    return this.#claims.keep(consumer, failure)
  }

  beginEffect(
    lease: Lease,
    leaseMs: number,
    effect: EffectRef,
    again: boolean,
  ): Promise<{ readonly before: EffectRow | undefined } | undefined> {
    return this.#journal.begin(lease, leaseMs, effect, again)
  }

  endEffect(lease: Lease, effect: EffectRef, end: EffectEnd): Promise<boolean> {
    return this.#journal.end(lease, effect, end)
  }

  effects(consumer: string, messageKey: string): Promise<readonly EffectRow[]> {
    return this.#journal.effects(consumer, messageKey)
  }

  settleEffect(effect: EffectRef, end: EffectEnd, audit: Audit): Promise<boolean> {
    return this.#journal.settle(effect, end, audit)
  }

  failedList(filter: FailedFilter): Promise<readonly FailedMessage[]> {
    return this.#index.list(filter)
  }

  failedCount(where: FailedWhere): Promise<number> {
    return this.#index.count(where)
  }

  failedGroups(where: FailedWhere, limit: number): Promise<readonly FailedGroup[]> {
    return this.#index.groups(where, limit)
  }

  failedSeqs(where: FailedWhere, after: string | undefined, limit: number): Promise<readonly string[]> {
    return this.#index.seqs(where, after, limit)
  }

  failedGet(seq: string): Promise<FailedMessage | undefined> {
    return this.#index.get(seq)
  }

  failedRetry(seq: string, audit: Audit): Promise<boolean> {
    return this.#index.retry(seq, audit)
  }

  failedDiscard(seq: string, audit: Audit): Promise<boolean> {
    return this.#index.discard(seq, audit)
  }

  subscribe(consumer: string, types: readonly string[]): Promise<void> {
    return this.#known.subscribe(consumer, types)
  }

  isSubscribed(consumer: string, type: string): Promise<boolean> {
    return this.#known.isSubscribed(consumer, type)
  }

  status(): Promise<ClaimStatus> {
    return this.#known.status((where) => this.#index.count(where))
  }

  trace(id: string, source?: string): Promise<readonly Trace[]> {
    const parts = { commands: this.#commands, names: this.#names, known: this.#known }
    return trace({ ...parts, journal: this.#journal, index: this.#index }, id, source)
  }

  checkup(): Promise<readonly Finding[]> {
    return checkup(this.#commands)
  }

  async close(): Promise<void> {
    this.#commands.close()
  }

  /** Now and then, while somebody looks for work anyway. */
  async #tidy(): Promise<void> {
    const now = this.#clock.monotonic()
    if (now - this.#tidiedAt < TIDY_MS) return
    this.#tidiedAt = now
    await this.#index.tidy()
  }
}

const TIDY_MS = 30_000
