import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { CliError } from '../io/errors.ts'
import type { Broker } from './broker.ts'
import { chance } from './chance.ts'
import { type Order, type Report, startWorker } from './worker.ts'

/** The parameters of a run. */
export interface CrewOptions {
  readonly path: string
  readonly seed: number
  readonly messages: number
  readonly kills: number
  /** Whether some orders fail for good. @default false */
  readonly declining?: boolean
}

/** A handler takes about 3 ms, so a kill falls inside it, at its commit or shortly after. */
const MAX_KILL_DELAY_MS = 6
/** After so many starts in a row without a subscription, something is wrong with the installation. */
const MAX_BAD_STARTS = 3

/** Keeps one worker process running, and kills it several times while it works. */
export class Crew {
  duplicates = 0
  retried = 0
  kills = 0
  readonly #options: CrewOptions
  readonly #broker: Broker
  readonly #killAt: number[]
  #child: ChildProcess | undefined
  #handled = 0
  #badStarts = 0
  #stopping = false
  #failed: (error: Error) => void = () => {}

  /** Rejects if the worker process cannot start. */
  readonly failure: Promise<never> = new Promise((_, reject) => {
    this.#failed = reject
  })

  constructor(options: CrewOptions, broker: Broker) {
    this.#options = options
    this.#broker = broker
    this.#killAt = killPoints(options)
    this.failure.catch(() => {})
  }

  start(): void {
    const { path, seed, declining = false } = this.#options
    const child = startWorker(path, seed, declining)
    this.#child = child
    this.#badStarts += 1
    child.on('message', (report: Report) => this.#hear(child, report))
    child.on('exit', () => this.#exited())
    child.on('error', (error) =>
      this.#failed(new CliError('demo', `the worker process did not start: ${error.message}`)),
    )
  }

  /** Lets the worker finish. */
  async stop(): Promise<void> {
    this.#stopping = true
    const child = this.#child
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const exit = once(child, 'exit')
    this.#tell(child, { kind: 'stop' })
    const late = setTimeout(() => child.kill('SIGKILL'), 5000)
    await exit
    clearTimeout(late)
  }

  #hear(child: ChildProcess, report: Report): void {
    // What a killed process had begun counts nevertheless: otherwise the next kill might never be due.
    if (report.kind === 'working' && child.killed) this.#handled += 1
    // Reports that were on their way when the process was killed are lost, as on a broken connection to a broker.
    if (child !== this.#child || child.killed) return
    switch (report.kind) {
      case 'open':
        this.#badStarts = 0
        this.#broker.attach((handed) => this.#tell(child, { kind: 'deliver', handed }), report.prefetch)
        break
      case 'pause':
        this.#broker.pause()
        break
      case 'settled':
        this.#broker.settle(report.tag, report.ack, report.delayMs)
        break
      case 'duplicate':
        this.duplicates += 1
        break
      case 'retrying':
        this.retried += 1
        break
      case 'working':
        this.#working(child)
    }
  }

  #working(child: ChildProcess): void {
    this.#handled += 1
    if (this.#killAt[0] === undefined || this.#handled < this.#killAt[0]) return
    this.#killAt.shift()
    // Inside the handler, at its commit, or between the commit and the acknowledgement.
    const delayMs = MAX_KILL_DELAY_MS * chance(this.#options.seed, 'kill', this.#killAt.length)
    setTimeout(() => {
      this.kills += 1
      child.kill('SIGKILL')
    }, delayMs)
  }

  #exited(): void {
    if (this.#stopping) return
    this.#broker.detach()
    if (this.#badStarts < MAX_BAD_STARTS) this.start()
    else this.#failed(new CliError('demo', 'the worker process did not start'))
  }

  #tell(child: ChildProcess, order: Order): void {
    // Sending to a process that has just died would throw; its exit event follows.
    if (child.connected) child.send(order, () => {})
  }
}

/** After how many calls of the handler the worker is killed: spread over the run. */
function killPoints({ seed, messages, kills }: CrewOptions): number[] {
  const part = messages / (kills + 1)
  return Array.from({ length: kills }, (_, index) =>
    Math.max(1, Math.round(part * (index + 0.6 + 0.8 * chance(seed, 'point', index)))),
  )
}
