import { isHapaxError } from '../../../base/index.ts'
import type { Executor, InboxRow, Look, Origin, Row, Share, Statement } from '../../../contracts/index.ts'
import { laneOf } from '../../../message/index.ts'
import { CONTROL } from '../calls.ts'
import type { AsideStatements, KeyRef } from '../dialect/aside.ts'
import type { Dialect } from '../dialect/dialect.ts'
import { asSeq } from '../values.ts'
import type { SqlContext } from './context.ts'

// Keys that cannot run are kept out of the way of the look, however many they are: their rows are put aside, where a look does not
// pass. Nothing depends on it but speed: rows that stand aside are claimed like others, and rows that do not are no harm.
//
// What must not happen is that a row stays aside after what it waits for has gone. So whatever puts rows aside locks the row in
// front of them and marks it as followed, and whatever deletes a row that is followed has the next one looked at again.

/** Puts aside what these looks found in the way. */
export async function putStuck<Tx, Own>(
  context: SqlContext<Tx, Own>,
  shares: readonly Share[],
  looks: readonly StuckLook[],
): Promise<void> {
  for (const table of ['inbox', 'outbox'] as const) {
    const stuck = looks.flatMap((look, index) => {
      const share = shares[index]
      return share?.table === table && !share.all ? look.stuck : []
    })
    for (let from = 0; from < stuck.length; from += HEADS) await put(context, table, stuck.slice(from, from + HEADS))
  }
}

async function put<Tx, Own>(
  { calls, connection, dialect }: SqlContext<Tx, Own>,
  table: Origin,
  seqs: readonly string[],
): Promise<void> {
  const aside = dialect.aside[table]
  try {
    await calls.claiming(
      aside.heads(seqs),
      async (tx, { rows }) => ({
        value: undefined,
        last: rows.length === 0 ? undefined : await puts(aside, connection.executor(tx), rows),
      }),
      CONTROL,
    )
  } catch (error) {
    // The next look finds them again.
    if (!isHapaxError(error, 'transaction-conflict')) throw error
  }
}

async function puts(aside: AsideStatements, executor: Executor, heads: readonly Row[]): Promise<readonly Statement[]> {
  const found = await all(executor, aside.behind(heads, BEHIND + 1))
  const behind = Map.groupBy(found, (row) => asSeq(row['head']))
  // A key with very many rows is one that a look skips over; to put it aside would be more work than that.
  const few = heads.map((row) => asSeq(row['seq'])).filter((head) => (behind.get(head)?.length ?? 0) <= BEHIND)
  const [followed, alone] = [few.filter((head) => behind.has(head)), few.filter((head) => !behind.has(head))]
  const others = followed.flatMap((head) => behind.get(head) ?? []).map((row) => asSeq(row['seq']))
  const free = others.length === 0 ? [] : await all(executor, [aside.free(others)])
  const seqs = free.map((row) => asSeq(row['seq']))
  return [
    ...(alone.length > 0 ? [aside.putHeads(alone, false)] : []),
    ...(followed.length > 0 ? [aside.putHeads(followed, true)] : []),
    ...(seqs.length > 0 ? [aside.putBehind(seqs)] : []),
  ]
}

/** Has what stands aside behind these deleted inbox rows looked at again, in the transaction that deleted them. */
export async function bringForward(dialect: Dialect, executor: Executor, rows: readonly InboxRow[]): Promise<void> {
  const keys = new Map<string, KeyRef>()
  for (const { consumer: scope, message } of rows) {
    const { key } = message
    if (key !== null) keys.set(`${scope}\0${key}`, { scope, lane: laneOf(message, true), key })
  }
  const next = await all(executor, dialect.aside.inbox.next([...keys.values()]))
  if (next.length === 0) return
  const { text, params } = dialect.aside.inbox.forward(next.map((row) => asSeq(row['seq'])))
  await executor.query(text, params)
}

async function all(executor: Executor, statements: readonly Statement[]): Promise<readonly Row[]> {
  const rows: Row[] = []
  for (const { text, params } of statements) rows.push(...(await executor.query(text, params)).rows)
  return rows
}

/** A look, and the rows that it found to hold up their keys. */
export interface StuckLook extends Look {
  readonly stuck: readonly string[]
}

/** How many keys are put aside by one transaction. */
const HEADS = 500
/** How many rows of one key are put aside. */
const BEHIND = 100
