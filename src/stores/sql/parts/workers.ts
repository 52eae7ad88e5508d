// Workers send heartbeats and look for work through control calls, which have connections or a time limit of their own: handlers that
// use up the pool must not make a worker look dead.

import type { Look, Peer, Result, Row, Statement, StoreWorkers } from '../../../contracts/index.ts'
import { CONTROL, CONTROL_MS } from '../calls.ts'
import type { Dialect } from '../dialect/dialect.ts'
import { asLooks } from '../look.ts'
import { asPeer } from '../rows.ts'
import { asBoolean, asText } from '../values.ts'
import { putStuck } from './aside.ts'
import type { SqlContext, SqlParts } from './context.ts'
import type { Attended, SessionState } from './sessions.ts'

/** The workers on an SQL database. */
export function sqlWorkers<Tx, Own>(context: SqlContext<Tx, Own>): StoreWorkers {
  const { calls, dialect } = context
  const peers = new Peers(context)
  return {
    join: async (worker) => {
      await calls.run(dialect.workers.join(worker))
      peers.joined(worker.id)
    },
    note: async (id, { seqs, alone }, beat) => {
      const { affected } = await calls.run(dialect.workers.note(id, JSON.stringify(seqs), alone, beat), CONTROL_MS)
      if (affected === 0) return undefined
      return beat ? peers.list() : []
    },
    bury: async () => {
      const dead = dialect.workers.lockDead(peers.ended)
      const { rows } = await calls.short(dead, (answer) => burial(dialect, answer.rows), CONTROL)
      return rows.length
    },
    leave: async (id) => {
      peers.left(id)
      await calls.run(dialect.workers.leave([id]))
    },
    list: () => peers.list(),
    look: async (shares) => {
      if (!shares.some((share) => share.lanes.length > 0)) return shares.map(() => NOTHING_THERE)
      const { rows } = await dialect.look((statement) => calls.run(statement, CONTROL_MS), shares)
      const looks = asLooks(shares, rows)
      await putStuck(context, shares, looks)
      return looks
    },
  }
}

/** All workers, dead ones included, with the states of their sessions. */
class Peers {
  readonly #context: Pick<SqlContext<never, never>, 'dialect' | 'sessions'> & { readonly calls: SqlParts['calls'] }
  /** Workers of this process. */
  readonly #own = new Set<string>()
  #ended: readonly string[] = []

  constructor(context: Pick<SqlContext<never, never>, 'dialect' | 'sessions'> & { readonly calls: SqlParts['calls'] }) {
    this.#context = context
    // A failed write is repeated after the next heartbeat.
    context.sessions.onChange(() => void this.#attend().catch(() => {}))
  }

  /** Workers whose sessions had ended when they were last listed. */
  get ended(): readonly string[] {
    return this.#ended
  }

  joined(id: string): void {
    this.#own.add(id)
  }

  left(id: string): void {
    this.#own.delete(id)
  }

  async list(): Promise<readonly Peer[]> {
    const { calls, dialect, sessions } = this.#context
    const { rows } = await calls.run(dialect.workers.list, CONTROL_MS)
    const attended = rows.map((row) => this.#attended(row))
    const unsaid = attended.some(({ id, session }) => this.#own.has(id) && session !== (sessions.own ?? null))
    if (unsaid) await this.#attend()
    // The server that answers is another one than that of the own session, which has not noticed yet: no session can be missed there.
    const elsewhere = attended.some(({ id, session, there }) => this.#own.has(id) && session === sessions.own && !there)
    const states = sessions.judge(elsewhere ? [] : attended.filter(({ id }) => !this.#own.has(id)))
    const of = (id: string, state: SessionState): boolean => states.get(id) === state
    this.#ended = attended.filter(({ id }) => of(id, 'ended')).map(({ id }) => id)
    return rows.map((row) => {
      const peer = asPeer(row)
      return { ...peer, alive: peer.alive && !of(peer.id, 'ended'), doubtful: of(peer.id, 'doubtful') }
    })
  }

  #attended(row: Row): Attended {
    const { session: process } = this.#context.dialect.workers
    const session = row['session'] == null ? null : asText(row['session'])
    const there = session === null || process === undefined ? row['there'] : process.isThere(session)
    return { id: asText(row['id']), session, there: asBoolean(there ?? true) }
  }

  async #attend(): Promise<void> {
    const { calls, dialect, sessions } = this.#context
    const statement = dialect.workers.attend?.([...this.#own], sessions.own ?? null)
    if (statement !== undefined && this.#own.size > 0) await calls.run(statement, CONTROL_MS)
  }
}

/** What follows from the death of these workers; undefined: none is dead. */
function burial(dialect: Dialect, dead: Result['rows']): readonly Statement[] | undefined {
  if (dead.length === 0) return undefined
  const inHand = (alone: boolean): string[] =>
    dead.filter((row) => asBoolean(row['alone']) === alone).flatMap((row) => JSON.parse(asText(row['in_hand'])))
  const [among, alone] = [inHand(false), inHand(true)]
  return [
    ...(among.length > 0 ? [dialect.workers.suspect(among)] : []),
    ...(alone.length > 0 ? [dialect.workers.crashed(alone)] : []),
    dialect.workers.leave(dead.map((row) => asText(row['id']))),
  ]
}

const NOTHING_THERE: Look = { entries: [], nextMs: undefined, after: new Map() }
