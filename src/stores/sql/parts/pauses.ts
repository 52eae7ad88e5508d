import type { Origin, StorePauses } from '../../../contracts/index.ts'
import { CONTROL_MS } from '../calls.ts'
import { asPause } from '../operation-rows.ts'
import { addOnce } from './add-once.ts'
import { change } from './change.ts'
import type { SqlParts } from './context.ts'

/** Consumers and relays of an SQL database that a person has paused. */
export function sqlPauses(parts: SqlParts): StorePauses {
  const { calls, dialect } = parts
  const { pauses, admin } = dialect
  const list = async () => (await calls.run(pauses.list, CONTROL_MS)).rows.map(asPause)
  const found = async (origin: Origin, scope: string) =>
    (await list()).find((each) => each.origin === origin && each.scope === scope)
  return {
    list,
    pause: (origin, scope, audit) => {
      const added = [pauses.insert(origin, scope, audit), admin.audit(audit, { origin, consumer: scope })]
      return addOnce(
        parts,
        pauses.lock(origin, scope),
        ({ rows }) => (rows.length > 0 ? undefined : added),
        async () => {
          const pause = await found(origin, scope)
          return pause && pause.actor === audit.actor && pause.note === (audit.note ?? null)
        },
      )
    },
    resume: (origin, scope, audit) =>
      change(
        parts,
        pauses.lock(origin, scope),
        () => [pauses.delete(origin, scope), admin.audit(audit, { origin, consumer: scope })],
        // It is what was asked for, whoever did it.
        async () => (await found(origin, scope)) === undefined,
      ),
  }
}
