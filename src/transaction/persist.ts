import { type Clock, isHapaxError, pause, type Random } from '../base/index.ts'
import { CONFLICT_PAUSE_MS, MAX_CONFLICTS } from './attempt.ts'

/** How long a record is insisted on. */
const INSIST_MS = 600_000

/**
 * As `persist`, but repeated while the database is unreachable: for a write that must not be lost, because nothing else would bring
 * the message back.
 */
export async function insist<T>(
  engine: { readonly clock: Clock; readonly random: Random },
  write: () => Promise<T>,
  insistMs: number = INSIST_MS,
): Promise<T> {
  const began = engine.clock.monotonic()
  for (let run = 1; ; run++) {
    try {
      return await persist(engine, write)
    } catch (error) {
      const away = isHapaxError(error, 'store-unavailable') || isHapaxError(error, 'commit-unknown')
      if (!away || engine.clock.monotonic() - began > insistMs) throw error
      await pause(engine.clock, Math.min(5_000, 50 * 2 ** run) * (0.5 + engine.random.number() / 2))
    }
  }
}

/** Repeats a write of hapax's own after conflicts and unknown commits; the write has to find out what it did before. */
export async function persist<T>(
  engine: { readonly clock: Clock; readonly random: Random },
  write: () => Promise<T>,
): Promise<T> {
  for (let run = 1; ; run++) {
    try {
      return await write()
    } catch (error) {
      const again = isHapaxError(error, 'transaction-conflict') || isHapaxError(error, 'commit-unknown')
      if (!again || run >= MAX_CONFLICTS) throw error
      await pause(engine.clock, CONFLICT_PAUSE_MS * run * engine.random.number())
    }
  }
}
