import type { StoreSamples } from '../../../contracts/index.ts'
import { CONTROL, CONTROL_MS } from '../calls.ts'
import { asMinute } from '../operation-rows.ts'
import type { SqlParts } from './context.ts'

/** What workers have counted, minute by minute, in an SQL database. */
export function sqlSamples({ calls, dialect }: SqlParts): StoreSamples {
  const { samples: statements } = dialect
  return {
    add: async (worker, samples, keepMs) => {
      const [first, ...others] = samples.length === 0 ? [] : statements.add(worker, samples)
      // Not as single statements, which are repeated when an answer is lost: they would add twice.
      if (first !== undefined) await calls.short(first, () => others, CONTROL)
      await calls.run(statements.forget(keepMs), CONTROL_MS)
    },
    list: async (sinceMs) => (await calls.run(statements.list(sinceMs))).rows.map(asMinute),
  }
}
