import { type Commands, Replies } from './commands.ts'
import { READ } from './scripts.ts'

/** A claim as it stands. */
export interface ClaimRead {
  /** `o` open, `d` done, `f` failed; empty: it is not there. */
  readonly state: string
  /** Whether a lease is on it. */
  readonly held: boolean
  readonly dueAt: Date
  readonly attempts: number
  readonly takenAt: Date
  readonly receipt: string
  /** Whether what is beside it is not there: a cluster moves it at this moment. */
  readonly torn: boolean
  /** The fields that were asked for. */
  readonly more: Replies
}

/** Reads a claim, and fields beside it. */
export async function readClaim(commands: Commands, key: string, fields: readonly string[]): Promise<ClaimRead> {
  const more = new Replies(await commands.run(READ, key, fields))
  const state = more.text()
  const held = more.text().trim() !== ''
  const [dueAt, attempts, takenAt] = [more.date(), more.number(), more.date()]
  const [receipt, torn] = [more.text(), more.number() === 1]
  return { state, held, dueAt, attempts, takenAt, receipt, torn, more }
}
