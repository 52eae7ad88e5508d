import type { Clock, Random } from 'hapax/contracts'
import { seeded } from '../support/seeded.ts'
import type { Choices } from './choices.ts'

/** Something that can happen next. */
export interface Step {
  readonly label: string
  /** The process that waits for it; undefined: the server's own business. */
  owner: Process | undefined
  /** It is on its way to a server and may happen although the process that sent it has died. */
  readonly request: boolean
  run(): void
}

interface Timer {
  readonly at: number
  readonly owner: Process | undefined
  readonly label: string
  call(): void
}

/** The beginning of virtual time. */
const EPOCH = Date.UTC(2026, 0, 1)

/** How a run of the world ended. */
export type Ending = 'done' | 'idle' | 'late'

/**
 * Owns everything that is under way and lets it happen in an order that `choices` decides. Between two steps all promises
 * that can go on do so. Time stands still while anything is ready, apart from a millisecond per step.
 */
export class World {
  choices: Choices
  readonly processes: Process[] = []
  readonly steps: Step[] = []
  /** What happened, if somebody wants to read it. */
  trace: string[] | undefined
  now = 0
  stepCount = 0
  /** The odds that time runs on although something is ready. */
  slowness = 0
  /** Called before each step: faults of processes. True: it did something instead. */
  disturb: () => boolean = () => false
  readonly #timers: Timer[] = []
  /** Processes whose turn comes rarely, by their odds. */
  readonly slow = new Map<Process, number>()

  constructor(choices: Choices) {
    this.choices = choices
  }

  add(label: string, owner: Process | undefined, run: () => void, request = false): Step {
    const step = { label, owner, run, request }
    this.steps.push(step)
    return step
  }

  /** Calls back after `ms`; returns what cancels it. */
  after(ms: number, label: string, owner: Process | undefined, call: () => void): () => void {
    let cancelled = false
    // One that is overdue in a process that stands still can be cancelled, too.
    const unlessCancelled = (): void => {
      if (!cancelled) call()
    }
    const timer = { at: Math.ceil(this.now + Math.max(0, ms)), owner, label, call: unlessCancelled }
    this.#timers.push(timer)
    return () => {
      cancelled = true
      const index = this.#timers.indexOf(timer)
      if (index >= 0) this.#timers.splice(index, 1)
    }
  }

  note(text: string): void {
    this.trace?.push(`${String(this.now).padStart(7)} ${text}`)
  }

  /** Runs until `done` at a moment when nothing is under way, until nothing can happen any more, or until the time. */
  run(done: () => boolean, untilMs: number, maxSteps: number): Promise<Ending> {
    const lastStep = this.stepCount + maxSteps
    return new Promise((resolve, reject) => {
      const advance = (): Ending | undefined => {
        if (this.steps.length === 0 && done()) return 'done'
        if (this.now > untilMs || this.stepCount >= lastStep) return 'late'
        return this.#advance() ? undefined : 'idle'
      }
      const next = (): void => {
        try {
          const ending = advance()
          if (ending === undefined) queueMicrotask(afterMicrotasks)
          else resolve(ending)
        } catch (error) {
          reject(error)
        }
      }
      // A tick that is asked for by a microtask comes when no microtask is left: cheaper than a turn of the event loop.
      const afterMicrotasks = (): void => process.nextTick(next)
      queueMicrotask(afterMicrotasks)
    })
  }

  #advance(): boolean {
    this.stepCount += 1
    if (this.disturb()) return true
    const { steps } = this
    if (steps.length === 0 || (this.#timers.length > 0 && this.choices.chance(this.slowness))) return this.#wake()
    const index = this.#choose()
    const [step] = steps.splice(index, 1)
    this.now += 1
    if (this.trace) this.note(`${step?.owner?.name ?? '-'} ${step?.label}`)
    step?.run()
    return true
  }

  #choose(): number {
    const { steps, choices } = this
    const index = choices.pick(steps.length)
    if (this.slow.size === 0) return index
    const odds = this.slow.get(steps[index]?.owner as Process)
    return odds === undefined || choices.chance(odds) ? index : choices.pick(steps.length)
  }

  /** The next timer goes off. */
  #wake(): boolean {
    const timers = this.#timers
    let first = timers[0]
    if (first === undefined) return false
    for (const timer of timers) if (timer.at < first.at) first = timer
    timers.splice(timers.indexOf(first), 1)
    this.now = Math.max(this.now, first.at)
    if (this.trace) this.note(`${first.owner?.name ?? '-'} timer ${first.label}`)
    if (first.owner === undefined) first.call()
    else first.owner.deliver('timer', first.call)
    return true
  }

  /** Forgets what a process waited for; what it had sent may still arrive. */
  bereave(process: Process): void {
    const { steps } = this
    for (let index = steps.length - 1; index >= 0; index--) {
      const step = steps[index] as Step
      if (step.owner !== process) continue
      if (step.request && this.choices.pick(2) === 1) step.owner = undefined
      else steps.splice(index, 1)
    }
    const timers = this.#timers
    for (let index = timers.length - 1; index >= 0; index--) {
      if (timers[index]?.owner === process) timers.splice(index, 1)
    }
  }
}

/** A process: it has a clock and a random source of its own, can be paused, and can die. */
export class Process {
  readonly world: World
  readonly name: string
  readonly clock: Clock
  readonly random: Random
  alive = true
  paused = false
  /** Called when it dies. */
  readonly onDeath: (() => void)[] = []
  readonly onPause: (() => void)[] = []
  /** Called once when it goes on. */
  readonly onResume: (() => void)[] = []
  #held: { label: string; call: () => void }[] = []

  constructor(world: World, name: string, seed: number) {
    this.world = world
    this.name = name
    const random = seeded(seed)
    const skewMs = Math.floor(random() * 20_000) - 10_000
    this.clock = {
      now: () => EPOCH + world.now + skewMs,
      monotonic: () => world.now,
      after: (ms, call) => world.after(ms, '', this, call),
    }
    this.random = virtualRandom(random)
    world.processes.push(this)
  }

  /** Hands something to the process: now, when it goes on, or never. */
  deliver(label: string, call: () => void): void {
    if (!this.alive) return
    if (this.paused) this.#held.push({ label, call })
    else call()
  }

  /** A request to a server: it happens there in one step, and the answer comes with it. */
  call<T>(label: string, execute: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      if (!this.alive) return
      this.world.add(label, this, () => this.#answer(label, execute, resolve, reject), true)
    })
  }

  #answer<T>(label: string, execute: () => T, resolve: (value: T) => void, reject: (error: unknown) => void): void {
    try {
      const value = execute()
      this.deliver(label, () => resolve(value))
    } catch (error) {
      this.deliver(label, () => reject(error))
    }
  }

  kill(): void {
    if (!this.alive) return
    this.world.note(`${this.name} dies`)
    this.alive = false
    this.#held = []
    this.world.bereave(this)
    this.world.processes.splice(this.world.processes.indexOf(this), 1)
    for (const call of this.onDeath.splice(0)) call()
  }

  /** Stops it for a while, as SIGSTOP does. */
  pause(ms: number): void {
    if (this.paused || !this.alive) return
    this.world.note(`${this.name} is paused for ${ms} ms`)
    this.paused = true
    for (const call of this.onPause) call()
    this.world.after(ms, `${this.name} goes on`, undefined, () => this.resume())
  }

  resume(): void {
    if (!this.paused || !this.alive) return
    this.paused = false
    for (const call of this.onResume.splice(0)) call()
    for (const { label, call } of this.#held.splice(0)) {
      this.world.add(`late ${label}`, this, () => this.deliver(label, call))
    }
  }
}

function virtualRandom(random: () => number): Random {
  const word = (): string =>
    Math.floor(random() * 2 ** 32)
      .toString(16)
      .padStart(8, '0')
  return {
    number: random,
    token: () => {
      const [a, b, c, d] = [word(), word(), word(), word()]
      return `${a}-${b.slice(0, 4)}-4${b.slice(5)}-8${c.slice(1, 4)}-${c.slice(4)}${d}`
    },
    bytes: (count) => {
      const bytes = new Uint8Array(count)
      for (let index = 0; index < count; index++) bytes[index] = Math.floor(random() * 256)
      return bytes
    },
  }
}
