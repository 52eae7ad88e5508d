// A database that is stopped and started again: what events and the log say about it, with and without a worker.
import { createHapax, defineMessage, type Logger } from 'hapax'
import { postgres } from 'hapax/postgres'
import { describe, expect, it } from 'vitest'
import { noPrivateServer, privateServer } from '../support/private-server.ts'

const Order = defineMessage<{ id: string }>('order')
const patiently = { timeout: 60_000 }

interface Line {
  readonly level: keyof Logger
  readonly sentence: string
}

function keeping(lines: Line[]): Logger {
  const at = (level: keyof Logger) => (_: object, sentence: string) => void lines.push({ level, sentence })
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

describe.skipIf(noPrivateServer('postgres') !== undefined)('a database that is stopped and started again', () => {
  it('is one outage, for handle, for publishes and for a worker, told once in events and in the log', async () => {
    await using server = await privateServer('postgres')
    const lines: Line[] = []
    const store = postgres({ url: server.url })
    await store.schema.migrate()
    const hapax = createHapax({ store, source: '/outage', logger: keeping(lines) })
    try {
      const heard: string[] = []
      for (const name of ['store-down', 'store-up', 'worker-recovered'] as const) {
        hapax.events.on(name, () => heard.push(name))
      }
      let downMs = 0
      hapax.events.on('store-up', (event) => {
        downMs = event.downMs
      })
      const consumer = hapax.consumer('billing').on(Order, () => {})
      const handle = (id: string) => consumer.handle({ id, source: '/shop', type: 'order', data: { id } })
      const worker = hapax.worker({ consume: [consumer], pollMs: 50 })
      await worker.start()
      expect(await handle('before')).toMatchObject({ status: 'processed' })

      const stopped = performance.now()
      // A fast shutdown: a slow one waits for the connections of hapax.
      await server.kill('SIGINT')
      for (const id of ['a', 'b']) await expect(handle(id)).rejects.toMatchObject({ code: 'store-unavailable' })
      await expect(hapax.transaction(async () => {})).rejects.toMatchObject({ code: 'store-unavailable' })
      await expect.poll(() => worker.ready, patiently).toBe(false)
      expect(heard).toEqual(['store-down'])

      await server.start()
      await expect.poll(() => heard, patiently).toContain('worker-recovered')
      expect(await handle('a')).toMatchObject({ status: 'processed' })
      expect(heard.filter((name) => name !== 'worker-recovered')).toEqual(['store-down', 'store-up'])
      expect(downMs).toBeGreaterThan(0)
      expect(downMs).toBeLessThanOrEqual(performance.now() - stopped)
      const shown = lines.filter(({ level }) => level === 'warn' || level === 'error')
      expect(shown).toEqual([
        { level: 'error', sentence: 'the store is not available' },
        { level: 'warn', sentence: 'the store is available again' },
      ])
    } finally {
      await hapax.close()
    }
  })
})
