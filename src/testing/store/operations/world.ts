import assert from 'node:assert/strict'
import { systemClock, systemRandom, uuidv7Source } from '../../../base/index.ts'
import type {
  Audit,
  BulkOperation,
  OperationDraft,
  OperationProgress,
  OperationStep,
} from '../../../contracts/index.ts'
import type { World } from '../world.ts'

/** Who begins operations. */
export const BEGUN: Audit = { actor: 'ada', action: 'begin', note: 'incident 7' }
export const RETRIED: Audit = { actor: 'ada', action: 'retry' }
/** Any text: only an unpaired surrogate, which no tool lets through, may come back as U+FFFD. */
export const ODD = `it's "odd"; nul \u0000, \ud800, \\, 中文 <script>`

/** These texts are equal. Says how long they are instead of what they are: some are very long. */
export function assertTexts(actual: string | null | undefined, expected: string): void {
  const equal = actual?.toWellFormed() === expected.toWellFormed()
  assert.ok(equal, `expected ${expected.length} characters, got ${actual?.length} that differ`)
}

/** Longer than any case. */
export const LONG_MS = 600_000
/** Nothing but the lease is prolonged. */
export const NOTHING: OperationProgress = { after: null, gone: 0, errors: 0, error: null }

/** Ids of operations, each later than the one before. */
export const newId: () => string = uuidv7Source(systemClock, systemRandom)

/** A retry of all failed messages, unless it says otherwise. */
export function draft(more: Partial<OperationDraft> = {}): OperationDraft {
  return { id: newId(), kind: 'retry', where: {}, perSecond: null, limit: null, ...more } as OperationDraft
}

/** An operation as it is now. */
export async function operation(world: World, id: string): Promise<BulkOperation> {
  const found = await world.store.operations.get(id)
  assert.ok(found, 'the operation is there')
  return found
}

/** Begins an operation and leases it. */
export async function leased(
  world: World,
  more: Partial<OperationDraft> = {},
  leaseMs: number = LONG_MS,
): Promise<OperationStep> {
  const { id } = await world.store.operations.begin(draft(more), BEGUN)
  const token = crypto.randomUUID()
  assert.equal((await world.store.operations.lease(token, leaseMs, id))?.id, id)
  return { id, token }
}

/** The rows that belong to an operation and are still there, oldest first. */
export function rowsOf(world: World, { where, lastFailure }: BulkOperation): Promise<readonly string[]> {
  return world.store.failed.seqs({ ...where, lastFailure: lastFailure ?? undefined }, undefined, 1_000)
}

/** What the audit has about an operation: actions and actors. */
export async function audited(world: World, id: string): Promise<readonly (readonly unknown[])[]> {
  const traces = await world.store.admin.trace(id)
  return traces.flatMap((each) => (each.where === 'audit' ? [[each.action, each.actor, each.note]] : []))
}
