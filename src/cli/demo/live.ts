// The demo in the console: the shop goes on until somebody ends it, and some cards are declined, so that there is something to do.

import { setTimeout as sleep } from 'node:timers/promises'
import { silentLogger } from '../../base/index.ts'
import { createHapax } from '../../index.ts'
import { sqlite } from '../../stores/sqlite/index.ts'
import { doors } from '../console/options.ts'
import { serveConsole } from '../console/serve.ts'
import type { Io } from '../io/io.ts'
import { Broker } from './broker.ts'
import { chance } from './chance.ts'
import { Crew } from './crew.ts'
import { KEEP_MS, newDatabase } from './database.ts'
import type { DemoOptions } from './demo.ts'
import { createTables, OrderPlaced, placeOrder } from './shop.ts'

const PACE_MS = 100

/** Runs the shop and shows it in the console, until the process is asked to end. */
export async function liveDemo(options: DemoOptions, io: Io): Promise<number> {
  const { seed = Math.floor(Math.random() * 1_000_000) } = options
  const path = newDatabase()
  const hapax = createHapax({ store: sqlite({ path }), source: '/demo/console', logger: silentLogger })
  await hapax.migrate()
  createTables(path)
  const listen = { host: '127.0.0.1', port: 0 }
  const own = { role: 'admin', ...(options.json && { json: options.json }) } as const
  const served = {
    ...own,
    listen,
    who: doors(own, listen, io),
    meanwhile: (signal: AbortSignal) => shop(path, seed, signal),
  }
  try {
    return await serveConsole(hapax, 'the demo', served, io)
  } finally {
    await hapax.close()
  }
}

/** Takes orders, and keeps a worker running that bills them. */
async function shop(path: string, seed: number, signal: AbortSignal): Promise<void> {
  const hapax = createHapax({ store: sqlite({ path }), source: '/demo/shop', logger: silentLogger })
  const broker = new Broker(seed, OrderPlaced.type)
  const crew = new Crew({ path, seed, messages: 1, kills: 0, declining: true }, broker)
  try {
    await hapax.worker({ relay: broker, keepSentMs: KEEP_MS }).start()
    crew.start()
    await Promise.race([orders(hapax, seed, signal), crew.failure])
  } finally {
    await crew.stop()
    await hapax.close()
  }
}

async function orders(hapax: Parameters<typeof placeOrder>[0], seed: number, signal: AbortSignal): Promise<void> {
  for (let orderId = 1; !signal.aborted; orderId++) {
    await placeOrder(hapax, { orderId, cents: 100 + Math.floor(chance(seed, 'cents', orderId) * 9900) })
    await sleep(PACE_MS, undefined, { signal }).catch(() => {})
  }
}
