import { randomBytes, randomUUID } from 'node:crypto'

/** Chance as the engine sees it. Injected, so that a simulator can replay a history. */
export interface Random {
  /** A number in [0, 1), for jitter. */
  number(): number
  /** A fresh token, as the text of a random UUID. */
  token(): string
  /** Random bytes, for the ids that hapax mints. */
  bytes(count: number): Uint8Array
}

/** The random source of this process. */
export const systemRandom: Random = {
  number: () => Math.random(),
  token: () => randomUUID(),
  bytes: (count) => randomBytes(count),
}
