import type { Clock } from '../../base/index.ts'
import type { InHand, Peer, WorkerHello } from '../../contracts/index.ts'
import { type Data, type Table, Tables } from './data.ts'

/** A row of `hapax_workers`. */
interface Member extends WorkerHello {
  readonly startedAt: Date
  readonly heardAt: number
  readonly inHand: readonly string[]
  readonly alone: boolean
}

/**
 * The workers. Tables of their own, as heartbeats have connections of their own elsewhere: they must not wait for the
 * handler that is running, and what it rolls back is not theirs.
 */
export class Workers {
  readonly tables: Tables = new Tables()
  readonly #clock: Clock
  readonly #members: Table<Member> = this.tables.table('hapax_workers')

  constructor(clock: Clock) {
    this.#clock = clock
  }

  join(hello: WorkerHello): void {
    if (this.#members.get(hello.id) !== undefined) return
    const now = this.#clock.now()
    this.#set({ ...hello, startedAt: new Date(now), heardAt: now, inHand: [], alone: false })
  }

  /** See `StoreWorkers.note`. */
  note(id: string, { seqs, alone }: InHand, beat: boolean): readonly Peer[] | undefined {
    const member = this.#members.get(id)
    if (member === undefined) return undefined
    this.#set({ ...member, inHand: [...seqs], alone, heardAt: beat ? this.#clock.now() : member.heardAt })
    return beat ? this.list() : []
  }

  list(): readonly Peer[] {
    const listedAt = new Date(this.#clock.now())
    return this.#members.all().map((member) => {
      const { id, name, serves, startedAt, inHand } = member
      const silentMs = this.#silentMs(member)
      const alive = this.#alive(member)
      const noted = { inHand: inHand.length, seqs: inHand }
      return { id, name, serves, startedAt, silentMs, alive, doubtful: false, ...noted, listedAt }
    })
  }

  /** Removes the dead, and counts on the rows that they had in hand. */
  bury(data: Data): number {
    const dead = this.#members.all().filter((member) => !this.#alive(member))
    for (const { id, inHand, alone } of dead) {
      for (const seq of inHand) suspect(data, seq, alone)
      this.leave(id)
    }
    return dead.length
  }

  /** The time of the latest heartbeat of any worker. */
  get heardAt(): number {
    return this.#members.all().reduce((latest, { heardAt }) => Math.max(latest, heardAt), 0)
  }

  /** The clock went back: heartbeats that lie in the future become current. */
  recount(): number {
    const now = this.#clock.now()
    const early = this.#members.all().filter(({ heardAt }) => heardAt > now)
    for (const member of early) this.#set({ ...member, heardAt: now })
    return early.length
  }

  leave(id: string): void {
    this.#members.delete(id)
    this.tables.commit()
  }

  #set(member: Member): void {
    this.#members.set(member.id, member)
    this.tables.commit()
  }

  #silentMs({ heardAt }: Member): number {
    return Math.max(0, this.#clock.now() - heardAt)
  }

  #alive(member: Member): boolean {
    return this.#silentMs(member) <= member.ttlMs
  }
}

function suspect(data: Data, seq: string, alone: boolean): void {
  const row = data.inbox.get(seq)
  if (row === undefined) return
  data.inbox.set(seq, { ...row, starts: row.starts + 1, crashes: row.crashes + (alone ? 1 : 0) })
}
