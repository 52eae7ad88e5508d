import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { createHapax, silentLogger } from 'hapax'
import { sqlite as sqliteStore } from 'hapax/sqlite'
import { chunks, heading, report, sideBySide } from './measure.ts'
import { messages, type Order, OrderPlaced } from './messages.ts'
import type { Bench, Part } from './part.ts'

export const sqlite: Part = {
  name: 'sqlite',
  about: 'transactions on SQLite (synchronous FULL) / a bare loop on node:sqlite',
  needs: [],
  run,
}

const EFFECTS = 'create table effects (id text not null, amount integer not null) strict'
const INSERT_EFFECT = 'insert into effects (id, amount) values (?, ?)'

async function run(bench: Bench): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'hapax-bench-'))
  try {
    const store = sqliteStore({ path: join(folder, 'hapax.db') })
    const hapax = createHapax({ store, source: '/bench', logger: silentLogger })
    await hapax.migrate()
    await hapax.transaction((tx) => tx.query(EFFECTS))
    const bare = openBare(join(folder, 'bare.db'))
    heading('SQLite (WAL, synchronous FULL)')
    for (const [size, count] of [
      [1, bench.size(2000, 300)],
      [100, bench.size(30_000, 8000)],
    ] as const) {
      const consumer = hapax
        .consumer(size === 1 ? 'billing' : 'grouped', { group: { size } })
        .on(OrderPlaced, async (order, ctx) => {
          await ctx.tx.query(INSERT_EFFECT, [order.orderId, order.amount])
        })
      const measured = await sideBySide(
        bench.rounds,
        async () => {
          for (const group of chunks(messages(count), size)) await consumer.handleMany(group)
          return count
        },
        async () => {
          for (const group of chunks(messages(count), size)) await bare(group)
          return count
        },
      )
      if (size === 1) report('one transaction per message / bare loop', measured, 0.9)
      else report(`group of ${size} / bare loop`, measured, 0.8)
    }
    await hapax.close()
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** What one would write without a library: the same rows, statements prepared once. */
function openBare(path: string): (group: readonly ReturnType<typeof messages>[number][]) => Promise<void> {
  const db = new DatabaseSync(path)
  db.exec('pragma journal_mode = wal')
  db.exec('pragma synchronous = full')
  db.exec(EFFECTS)
  db.exec(`
create table receipts (
  consumer text not null, message_key blob not null, token blob not null, source text not null, id text not null,
  type text not null, fingerprint blob not null, taken_at integer not null default (unixepoch('subsec') * 1000),
  primary key (consumer, message_key)) strict`)
  const receipt = db.prepare(
    'insert into receipts (consumer, message_key, token, source, id, type, fingerprint) values (?, ?, ?, ?, ?, ?, ?) on conflict do nothing',
  )
  const effect = db.prepare(INSERT_EFFECT)
  const begin = db.prepare('begin immediate')
  const commit = db.prepare('commit')
  const fingerprint = new Uint8Array(8)
  const handler = async (order: Order): Promise<void> => {
    effect.run(order.orderId, order.amount)
  }
  return async (group) => {
    const token = randomBytes(16)
    begin.run()
    for (const { id, source, type, data } of group) {
      const key = Buffer.from(id.replaceAll('-', ''), 'hex')
      receipt.run('by-hand', key, token, source, id, type, fingerprint)
      await handler(data)
    }
    commit.run()
  }
}
