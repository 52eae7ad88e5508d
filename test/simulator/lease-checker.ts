import type { Violation } from './checker.ts'
import { type Change, type Commit, type JournalRow, journalKey, type WaitingRow } from './database.ts'
import type { LeasedPlan } from './scenario.ts'
import type { OutsideCall } from './sim-provider.ts'

/** What is known about the calls of leased handlers. */
export interface Outside {
  readonly plan: LeasedPlan
  /** All calls that came to the provider, and those by which something was sent. */
  readonly calls: readonly OutsideCall[]
  readonly sent: readonly OutsideCall[]
}

/** Checks I3: one owner of each lease, and no outside call that is repeated or guessed about in silence. */
export function checkLeases(commits: readonly Commit[], outside: Outside): readonly Violation[] {
  return new LeaseChecker(outside).check(commits)
}

class LeaseChecker {
  readonly #outside: Outside
  readonly #violations: Violation[] = []
  /** The process that took a token. */
  readonly #owners = new Map<string, string>()
  /** The token of each fence of a row. */
  readonly #fences = new Map<string, string>()
  readonly #inbox = new Map<string, WaitingRow>()
  readonly #journal = new Map<string, JournalRow>()
  /** Effects, with the processes that wrote that they began them. */
  readonly #begun = new Set<string>()
  /** Effects that were shown as unknown, and those that a person decided about. */
  readonly #listed = new Set<string>()
  readonly #decided = new Set<string>()

  constructor(outside: Outside) {
    this.#outside = outside
  }

  check(commits: readonly Commit[]): readonly Violation[] {
    const calls = [...this.#outside.calls]
    for (const commit of commits) {
      while (calls[0] !== undefined && calls[0].at < commit.at) this.#call(calls.shift() as OutsideCall)
      this.#commit(commit)
    }
    for (const call of calls) this.#call(call)
    this.#end()
    return this.#violations
  }

  #wrong(what: string): void {
    this.#violations.push({ invariant: 'I3', what })
  }

  #commit(commit: Commit): void {
    const of = (table: Change['table']): Change[] => commit.changes.filter((change) => change.table === table)
    const byHand = of('audit').length > 0
    for (const change of of('journal')) this.#journalled(commit, change, byHand)
    for (const { key, before, after } of of('inbox')) {
      this.#leased(commit, before as WaitingRow | undefined, after as WaitingRow | undefined, byHand)
      if (after === undefined && !byHand && of('failed').length === 0) this.#settled(before as WaitingRow)
      if (after === undefined) this.#inbox.delete(key)
      else this.#inbox.set(key, after as WaitingRow)
    }
  }

  /** Rows change hands when their lease has ended; before that only their owner changes them. */
  #leased({ now, process }: Commit, before: WaitingRow | undefined, after: WaitingRow | undefined, byHand: boolean) {
    if (before === undefined || byHand) return
    const { id } = before.message
    if (after !== undefined && after.leaseToken !== null && after.fence !== before.fence) {
      const { leaseToken, fence } = after
      const free = before.leaseToken === null || before.leaseToken === leaseToken || before.availableAt <= now
      if (!free) this.#wrong(`${process} took ${id}, which ${this.#owners.get(before.leaseToken ?? '')} has`)
      if (fence < before.fence) this.#wrong(`the fence of ${id} went from ${before.fence} to ${fence}`)
      this.#owners.set(leaseToken, process)
      this.#fences.set(`${after.seq} ${fence}`, leaseToken)
      return
    }
    const token = after?.leaseToken ?? null
    if (token !== null && this.#fences.get(`${before.seq} ${before.fence}`) !== token)
      this.#wrong(`two owners of ${id} have the fence ${before.fence}`)
    const touched = token !== before.leaseToken || after?.availableAt !== before.availableAt
    const owner = before.leaseToken === null ? 'nobody' : this.#owners.get(before.leaseToken)
    if (touched && owner !== process) this.#wrong(`${process} changed ${id}, which ${owner} has`)
  }

  /** Only the owner of the message writes in its journal, and never over what is done. */
  #journalled({ process }: Commit, { before, after, writtenAt }: Change, byHand: boolean): void {
    const row = after as JournalRow | undefined
    if (row === undefined) return
    const effect = journalKey(row)
    const was = before as JournalRow | undefined
    this.#journal.set(effect, row)
    // After a commit of unknown outcome the same is written again.
    const same = row.state === 'done' && row.result === was?.result
    if (was?.state === 'done' && !same) this.#wrong(`${row.name} was done, and then ${row.state}`)
    if (row.state === 'unknown') this.#listed.add(effect)
    if (row.state === 'started') this.#begun.add(`${effect} ${process}`)
    if (byHand) {
      this.#decided.add(effect)
      return
    }
    const held = [...this.#inbox.values()].find((each) => isOf(each, row))
    const own = held?.leaseToken === row.token && this.#owners.get(row.token) === process
    if (!own) this.#wrong(`${process} wrote that ${row.name} is ${row.state}, without the lease`)
    // Whoever asks the provider may hear "no" just before somebody else calls.
    if (row.state !== 'not-done' || this.#decided.has(effect) || this.#outside.plan.onUnknown === 'verify') return
    const happened = this.#outside.sent.some((call) => isCall(call, row) && call.at < writtenAt)
    if (happened) this.#wrong(`${row.name} had happened, and was written as not done`)
  }

  #settled(row: WaitingRow): void {
    for (const each of this.#journal.values()) {
      const open = each.state !== 'done' && each.state !== 'not-done'
      if (isOf(row, each) && open) this.#wrong(`${row.message.id} was settled while ${each.name} is ${each.state}`)
    }
  }

  #call({ id, messageKey, name, process }: OutsideCall): void {
    const begun = [...this.#begun].some((each) => each.endsWith(`/${messageKey}/${name} ${process}`))
    if (!begun) this.#wrong(`${process} called ${name} of ${id} before it was written down`)
  }

  #end(): void {
    const { calls, sent, plan } = this.#outside
    for (const [name, all] of Map.groupBy(calls, callName)) {
      if (new Set(all.map(({ key }) => key)).size > 1) this.#wrong(`${name} was called with several keys`)
    }
    for (const [name, all] of Map.groupBy(sent, callName)) {
      if (all.length === 1) continue
      const listed = [...this.#listed].some((effect) => effect.endsWith(`/${name}`))
      if (plan.honoursKeys) this.#wrong(`${name} was sent ${all.length} times`)
      else if (!listed) this.#wrong(`${name} was sent ${all.length} times, and nobody was told`)
    }
  }
}

function callName({ messageKey, name }: OutsideCall): string {
  return `${messageKey}/${name}`
}

function isCall(call: OutsideCall, { messageKey, name }: JournalRow): boolean {
  return call.messageKey === messageKey && call.name === name
}

function isOf({ consumer, message }: WaitingRow, row: JournalRow): boolean {
  return consumer === row.consumer && message.messageKey === row.messageKey
}
