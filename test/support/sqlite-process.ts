import type { StoredMessage } from '../../src/message/message.ts'
import { messageKey } from '../../src/message/message.ts'
import { sqlite } from '../../src/stores/sqlite/index.ts'

// A process of its own on a SQLite file: `node sqlite-process.ts <path> take <count>` or `… hold`.

/** A message whose only content is its id. */
export function message(id: string): StoredMessage {
  return {
    messageKey: messageKey('/test', id),
    source: '/test',
    id,
    type: 'tested',
    key: null,
    attributes: '{}',
    data: new Uint8Array(),
    fingerprint: '0123456789abcdef',
  }
}

/** Takes messages 0 … count - 1, each in a transaction of its own, and says how many were new. */
async function take(path: string, count: number): Promise<void> {
  const store = sqlite({ path })
  const applied = await store.schema.migrate()
  let taken = 0
  for (let index = 0; index < count; index++) {
    const opening = {
      kind: 'take',
      consumer: 'racer',
      token: crypto.randomUUID(),
      messages: [message(`${index}`)],
    } as const
    await store.transactions.run({ lockTimeoutMs: 30_000, idleTimeoutMs: 30_000 }, opening, async ({ existing }) => {
      if (existing.size > 0) return { value: undefined, writes: undefined }
      taken += 1
      return { value: undefined, writes: {} }
    })
  }
  await store.close()
  process.stdout.write(`${JSON.stringify({ applied: applied.length, taken })}\n`)
}

/** Opens a transaction, writes into it, and keeps it open until the process is killed or told to continue. */
async function hold(path: string): Promise<void> {
  const store = sqlite({ path })
  const opening = { kind: 'take', consumer: 'holder', token: crypto.randomUUID(), messages: [message('held')] } as const
  await store.transactions.run({ lockTimeoutMs: 30_000, idleTimeoutMs: 30_000 }, opening, async () => {
    process.stdout.write('holding\n')
    await new Promise((resolve) => process.stdin.once('data', resolve))
    return { value: undefined, writes: {} }
  })
  await store.close()
  process.stdin.destroy()
}

const [, script, path, command, count] = process.argv
if (script === import.meta.filename && path !== undefined) {
  await (command === 'hold' ? hold(path) : take(path, Number(count)))
}
