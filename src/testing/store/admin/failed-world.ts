import assert from 'node:assert/strict'
import { Permanent } from '../../../base/index.ts'
import type { FailedMessage } from '../../../contracts/index.ts'
import { type AnyHapax, assertOutcome, type Reader, type ReaderOptions, type World } from '../world.ts'

/** Who decides, in the cases about decisions of people. */
export const BY = { actor: 'ada', note: 'because' } as const

/** A reader that fails for good at the ids in `bad`, and notes as an effect what its others carry. */
export function picky(world: World, bad: Set<string>, options: ReaderOptions = {}): Reader {
  return world.reader(async (ctx, { n }) => {
    if (bad.has(ctx.message.id)) throw new Permanent(`order 4711 of "ada" is bad: ${ctx.message.id}`)
    await world.database.effect(ctx.tx, `${ctx.message.id} ${n}`)
  }, options)
}

/** Messages in failed, oldest first, and a reader that takes them from now on. */
export async function failedOnes(world: World, ids: readonly string[]): Promise<{ reader: Reader; bad: Set<string> }> {
  const bad = new Set(ids)
  const reader = picky(world, bad)
  for (const id of ids) assertOutcome(await reader.deliver(id, { key: 'k' }), 'failed')
  bad.clear()
  return { reader, bad }
}

/** The message of this id in the failed store. */
export async function failedOne(hapax: AnyHapax, id: string): Promise<FailedMessage> {
  const found = (await hapax.failed.list()).find(({ message }) => message.id === id)
  assert.ok(found, `${id} is not in the failed store`)
  return found
}

/** What the audit has about a message. */
export async function audits(hapax: AnyHapax, id: string): Promise<readonly unknown[]> {
  const traces = await hapax.explain(id)
  return traces.flatMap((trace) => (trace.where === 'audit' ? [[trace.action, trace.actor, trace.note]] : []))
}
