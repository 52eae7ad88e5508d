import type { Policy } from './worker-child.ts'

/** What became of the messages: what the provider sent, what was settled, and what is listed as failed, by id. */
export interface Found {
  readonly sent: ReadonlyMap<string, number>
  readonly done: ReadonlyMap<string, number>
  /** With the reason. */
  readonly failed: ReadonlyMap<string, string>
}

/** How many messages ended how. */
export interface Verdict {
  readonly complaints: readonly string[]
  /** Not sent, and not listed. */
  readonly lost: number
  /** Sent more than once. */
  readonly doubled: number
  /** Sent once and settled. */
  readonly settled: number
  /** Listed as unknown: some of them sent, some not. */
  readonly held: number
  readonly heldAndSent: number
}

/** Whether nothing was lost, and nothing sent twice without being listed. */
export function judge(ids: readonly string[], { sent, done, failed }: Found, policy: Policy): Verdict {
  const complaints: string[] = []
  let [lost, doubled] = [0, 0]
  let settled = 0
  let held = 0
  let heldAndSent = 0
  for (const id of ids) {
    const [times, rows, reason] = [sent.get(id) ?? 0, done.get(id) ?? 0, failed.get(id)]
    // Whoever asks the provider while a call is on its way there learns nothing.
    const listed = reason === 'unknown-effect' && policy !== 'retry-same-key'
    if (times === 0 && reason === undefined) lost += 1
    if (times > 1) doubled += 1
    if (listed) held += 1
    if (listed && times > 0) heldAndSent += 1
    if (times === 1 && rows === 1 && reason === undefined) settled += 1
    else if (!(listed && times <= 1 && rows === 0)) {
      complaints.push(`${id}: sent ${times} times, settled ${rows} times, ${reason ?? 'not listed as failed'}`)
    }
  }
  return { complaints, lost, doubled, settled, held, heldAndSent }
}
