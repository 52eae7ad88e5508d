import type { Verified } from '../../src/contracts/handlers.ts'
import type { Chaos } from './chaos.ts'
import type { Database } from './database.ts'
import { LEASE_MS } from './scenario.ts'
import type { Process } from './world.ts'

/** Names an outside call. */
export interface CallName {
  readonly messageKey: string
  readonly id: string
  readonly name: string
}

/** A call as the provider saw it. */
export interface OutsideCall extends CallName {
  readonly key: string
  readonly process: string
  readonly at: number
}

/** What can go wrong around a call: nothing is sent, the reply is lost, it arrives later than its error, or answers late. */
const FAULTS = ['refused', 'lost before', 'reply lost', 'on its way', 'answers late'] as const

/** Somebody outside who sends messages to people. */
export class SimProvider {
  /** Whether a key that comes again is not sent again. */
  readonly honoursKeys: boolean
  readonly calls: OutsideCall[] = []
  readonly sent: OutsideCall[] = []
  readonly #db: Database
  readonly #chaos: Chaos

  constructor(db: Database, chaos: Chaos, honoursKeys: boolean) {
    this.#db = db
    this.#chaos = chaos
    this.honoursKeys = honoursKeys
  }

  /** Sends something, and answers its receipt. */
  call(process: Process, what: CallName, key: string): Promise<string> {
    return new Promise((resolve, reject) => {
      if (!process.alive) return
      const fault = this.#chaos.outside(FAULTS)
      const label = `calls the provider: ${what.name} of ${what.id}${fault === undefined ? '' : ` (${fault})`}`
      const answer = (): void => resolve(`sent ${key.slice(0, 8)}`)
      const lose = (): void => process.deliver(label, () => reject(new Error('socket hang up')))
      const send = (): void => this.#send(process, what, key)
      const arrive = {
        refused: () => process.deliver(label, () => reject(refused())),
        'lost before': lose,
        'reply lost': () => {
          send()
          lose()
        },
        'on its way': () => {
          process.world.add(`late: ${label}`, undefined, send)
          lose()
        },
        'answers late': () => {
          send()
          process.world.after(2 * LEASE_MS, label, process, answer)
        },
        '': () => {
          send()
          process.deliver(label, answer)
        },
      }[fault ?? '']
      process.world.add(label, process, arrive, true)
    })
  }

  /** Whether something was sent under this key. */
  ask(process: Process, key: string): Promise<Verified<string>> {
    return process.call('asks the provider', () => (this.hasSent(key) ? { done: 'sent before' } : 'not-done'))
  }

  hasSent(key: string): boolean {
    return this.sent.some((call) => call.key === key)
  }

  #send(process: Process, what: CallName, key: string): void {
    const call = { ...what, key, process: process.name, at: this.#db.moment() }
    this.calls.push(call)
    if (!this.honoursKeys || !this.hasSent(key)) this.sent.push(call)
  }
}

function refused(): Error {
  return Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED', syscall: 'connect' })
}
