// Effects are fields of the hash beside a claim, in the same slot: one script checks the lease and writes the effect, so that a process
// that has lost its lease writes nothing.

import { randomUUID } from 'node:crypto'
import type { EffectState } from '../../base/index.ts'
import type { Audit, EffectEnd, EffectRef, EffectRow, Lease, StoreJournal } from '../../contracts/index.ts'
import { type Commands, isDone, Replies } from './commands.ts'
import * as scripts from './journal-scripts.ts'
import { fenceOf, packOptional, unpackOptional } from './message.ts'
import type { Names } from './names.ts'

/** The outside calls of messages: fields of their claims, written under the lease that the same script looks at. */
export class Journal implements StoreJournal {
  readonly #commands: Commands
  readonly #names: Names

  constructor(commands: Commands, names: Names) {
    this.#commands = commands
    this.#names = names
  }

  async begin(
    lease: Lease,
    leaseMs: number,
    effect: EffectRef,
    again: boolean,
  ): Promise<{ readonly before: EffectRow | undefined } | undefined> {
    const words = [lease.token, fenceOf(lease), String(leaseMs), effect.name, again ? '1' : '0']
    const replies = new Replies(await this.#commands.run(scripts.BEGIN_EFFECT, this.#names.key(lease.seq), words))
    if (replies.number() !== 1) return undefined
    return { before: replies.more ? readEffect(replies, effect).row : undefined }
  }

  async end(lease: Lease, { name }: EffectRef, end: EffectEnd): Promise<boolean> {
    const words = [lease.token, fenceOf(lease), name, ...endWords(end)]
    const [there] = await this.#commands.run(scripts.END_EFFECT, this.#names.key(lease.seq), words)
    return isDone(there)
  }

  async of(consumer: string, messageKey: string): Promise<readonly EffectRow[]> {
    const key = this.#names.key(this.#names.claim(consumer, messageKey))
    const replies = new Replies(await this.#commands.run(scripts.EFFECTS, key, []))
    const found: { row: EffectRow; order: number }[] = []
    while (replies.more) found.push(readEffect(replies, { consumer, messageKey }))
    return found.sort((a, b) => a.order - b.order).map(({ row }) => row)
  }

  async settle({ consumer, messageKey, name }: EffectRef, end: EffectEnd, audit: Audit): Promise<boolean> {
    const words = [randomUUID(), JSON.stringify(audit), name, ...endWords(end)]
    const key = this.#names.key(this.#names.claim(consumer, messageKey))
    const [there] = await this.#commands.run(scripts.SETTLE_EFFECT, key, words)
    return isDone(there)
  }
}

function endWords({ state, result, error }: EffectEnd): readonly string[] {
  return [state, packOptional(result), packOptional(error && JSON.stringify(error))]
}

function readEffect(
  replies: Replies,
  { consumer, messageKey }: Omit<EffectRef, 'name'>,
): { row: EffectRow; order: number } {
  const name = replies.text()
  const state = replies.text() as EffectState
  const [token, attempts] = [replies.text(), replies.number()]
  const result = unpackOptional(replies.text())
  const failed = unpackOptional(replies.text())
  const error = failed === null ? null : JSON.parse(failed)
  const times = { firstAt: replies.date(), lastAt: replies.date() }
  return {
    row: { consumer, messageKey, name, state, token, attempts, result, error, ...times },
    order: replies.number(),
  }
}
