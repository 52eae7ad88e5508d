import { describe, expect, it } from 'vitest'
import { Child } from '../support/child.ts'
import { countEffects, makePlace, type Place, table } from '../support/databases.ts'
import { seed, seeded, shuffled } from '../support/seeded.ts'
import { eventOf, type Provider, providerOf } from '../support/webhook-providers.ts'
import type { WebhookJob } from './webhook-child.ts'

const EVENTS = 200
const COPIES = 3
/** After so many responses the server is killed, in the middle of whatever it does. */
const DEATHS = [20, 90, 200, 330, 450]
const AT_ONCE = 12

/** The server of the test, which is killed now and then; the next one has another port. */
class Servers {
  readonly #job: WebhookJob
  #child: Child<{ readonly port: number }>
  #url: Promise<string>
  #responses = 0
  deaths = 0

  constructor(job: WebhookJob) {
    this.#job = job
    this.#child = this.#start()
    this.#url = this.#listening()
  }

  /** Sends one copy until the provider can forget it. */
  async deliver(provider: Provider, id: string): Promise<void> {
    for (;;) {
      const { headers, body } = eventOf(provider, id)
      const url = await this.#url
      const sent = { method: 'POST', headers, body: new Uint8Array(body) }
      const response = await fetch(url, sent).catch(() => undefined)
      if (response !== undefined) await this.#responded()
      if (response?.status === 200) return
      if (response !== undefined) expect(response.status).toBe(503)
    }
  }

  async end(): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.#child.ended
  }

  async #responded(): Promise<void> {
    this.#responses += 1
    if (this.#responses !== DEATHS[this.deaths]) return
    this.deaths += 1
    const dead = this.#child
    dead.kill('SIGKILL')
    this.#child = this.#start()
    this.#url = this.#listening()
    expect((await dead.ended).signal).toBe('SIGKILL')
  }

  #start(): Child<{ readonly port: number }> {
    return new Child(new URL('./webhook-child.ts', import.meta.url), this.#job, 240_000)
  }

  async #listening(): Promise<string> {
    return `http://127.0.0.1:${(await this.#child.next()).port}/webhooks`
  }
}

describe.each(['direct', 'store'] as const)('a provider that sends each event three times (%s)', (receive) => {
  it('causes one effect each, out of order and at once, while the server is killed', { timeout: 300_000 }, async () => {
    await using checker = await makePlace('postgres')
    const provider = providerOf('standard-webhooks')
    const servers = new Servers({ place: checker.place, provider: provider.name, receive })
    const ids = Array.from({ length: EVENTS * COPIES }, (_, n) => `msg_${n % EVENTS}`)
    const queue = shuffled(ids, seeded(seed))
    const sending = async (): Promise<void> => {
      for (let next = queue.shift(); next !== undefined; next = queue.shift()) await servers.deliver(provider, next)
    }
    await Promise.all(Array.from({ length: AT_ONCE }, sending))
    expect(servers.deaths).toBe(DEATHS.length)
    await expect.poll(() => left(checker.place, checker), { timeout: 120_000 }).toBe(0)
    await servers.end()
    const effects = await countEffects(checker)
    expect([effects.size, new Set(effects.values())], `seed ${seed}`).toEqual([EVENTS, new Set([1])])
    expect(await checker.query(`select id from ${table(checker.place, 'failed')}`)).toEqual([])
  })
})

async function left(place: Place, { query }: { query(text: string): Promise<readonly unknown[]> }): Promise<number> {
  return (await query(`select seq from ${table(place, 'inbox')}`)).length
}
