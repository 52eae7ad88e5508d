import { fingerprint, messageKey } from '../../src/message/message.ts'
import { App, BILLING, Calls, incoming, Ordered, SOURCE } from './app.ts'
import { type Bug, statementsOf } from './bugs.ts'
import { Chaos } from './chaos.ts'
import { check, type Evidence, type Violation } from './checker.ts'
import { type Choices, randomChoices, replayed } from './choices.ts'
import { Database, type LeavingRow, type WaitingRow } from './database.ts'
import {
  breaksOf,
  expectedOf,
  isBrokenByOthers,
  isLeased,
  isPublished,
  type MessagePlan,
  type Scenario,
  TIMEOUT_MS,
} from './scenario.ts'
import { SimDestination, SimQueue } from './sim-broker.ts'
import { SimProvider } from './sim-provider.ts'
import { SimStore } from './sim-store.ts'
import type { Statements } from './statements.ts'
import { Process, World } from './world.ts'

/** How a history is run. */
export interface HistoryOptions {
  /** Records what happens. */
  readonly trace?: boolean
  readonly choices?: Choices
  /** A bug on purpose. */
  readonly bug?: Bug | undefined
}

/** What became of a history. */
export interface Result {
  readonly violations: readonly Violation[]
  readonly steps: number
  /** What went wrong on purpose, and what raced; empty: nothing. */
  readonly faults: readonly string[]
  readonly trace: readonly string[]
  readonly evidence: Evidence
}

/** Runs one scenario to its end and checks it. */
export async function runHistory(scenario: Scenario, options: HistoryOptions = {}): Promise<Result> {
  const history = new History(scenario, options)
  return history.run()
}

class History {
  readonly #scenario: Scenario
  readonly #world: World
  readonly #db: Database
  readonly #chaos: Chaos
  readonly #queue: SimQueue
  readonly #destination: SimDestination
  readonly #provider: SimProvider
  readonly #statements: Statements
  readonly #bug: Bug | undefined
  readonly #calls = new Calls()
  readonly #victims: Process[] = []
  readonly #restMs: number
  #restsSince: number | undefined
  #publishing = 0
  #started = 0
  #deaths = 0
  #hadFaults = false

  constructor(scenario: Scenario, { trace = false, choices, bug }: HistoryOptions) {
    this.#scenario = scenario
    this.#bug = bug
    this.#statements = statementsOf(bug)
    this.#restMs = restOf(scenario)
    this.#world = new World(choices ?? randomChoices(scenario.seed))
    if (trace) this.#world.trace = []
    this.#world.slowness = scenario.slowness
    this.#db = new Database(this.#world, scenario)
    this.#chaos = new Chaos(this.#world, scenario.chaos)
    this.#chaos.victims = this.#victims
    this.#world.disturb = () => this.#chaos.disturb()
    this.#provider = new SimProvider(this.#db, this.#chaos, scenario.leased.honoursKeys)
    const { ordersKeys, marksRedelivered, keepsOrder, refused } = scenario
    this.#queue = new SimQueue(this.#world, this.#db, this.#chaos, BILLING, { ordersKeys, marksRedelivered })
    this.#destination = new SimDestination(this.#db, this.#chaos, 'default', keepsOrder)
    this.#destination.refuses = (id) => refused.includes(id)
    if (scenario.route === 'chain') this.#destination.onArrival = (message) => this.#forward(message)
  }

  async run(): Promise<Result> {
    const world = this.#world
    const driven = this.#scenario.route === 'driven'
    if (driven) this.#fillInbox()
    for (let index = 0; index < this.#scenario.workers; index++) this.#startProcess()
    if (world.choices.exhaustive && !driven) await this.#getReady()
    if (this.#scenario.slowProcess) world.slow.set(this.#victims[0] as Process, 0.2)
    if (!driven) this.#send()
    if (this.#scenario.operator !== 'none') void this.#app('operator').operate()
    await world.run(() => this.#isSettled(), FAULTY_MS, FAULTY_STEPS)
    const { slowness, chaos } = this.#scenario
    // Time that runs away cuts off whatever is under way.
    this.#hadFaults = this.#deaths > 0 || this.#chaos.left < chaos.budget || slowness > 0
    this.#chaos.stop()
    world.slowness = 0
    world.slow.clear()
    const ending = await world.run(() => this.#isSettled(), world.now + BOUND_MS, MAX_STEPS)
    const left = this.#unsettled()
    return this.#result(
      ending === 'done' || left.length === 0 ? undefined : `not settled, ${ending}: ${left.join(', ')}`,
    )
  }

  /** Where every order is tried, that of the start is not of interest. */
  async #getReady(): Promise<void> {
    const { choices } = this.#world
    const { left } = this.#chaos
    this.#world.choices = replayed([])
    this.#chaos.left = 0
    await this.#world.run(() => true, FAULTY_MS, FAULTY_STEPS)
    this.#world.choices = choices
    this.#chaos.left = left
  }

  #forward({ id, type, key }: { id: string; type: string; key?: string }): void {
    if (type === Ordered.type) this.#queue.add(incoming(id, key))
  }

  /** Messages come from elsewhere, or two processes of the application publish them. */
  #send(): void {
    const { route, messages } = this.#scenario
    if (isPublished(route)) {
      for (const half of [0, 1]) this.#publish(messages.filter((_, index) => index % 2 === half))
      return
    }
    for (const { id, key, copies } of messages) {
      for (let copy = 0; copy < copies; copy++) this.#queue.add(incoming(id, key))
    }
  }

  /** As if a broker had delivered them before. */
  #fillInbox(): void {
    const tx = this.#db.begin(new Process(this.#world, 'before', 1))
    const ordered = this.#scenario.order !== 'none'
    const rows = this.#scenario.messages.map(({ id, key = null }) => {
      const data = Buffer.from(JSON.stringify({ id }))
      const identity = { messageKey: messageKey(SOURCE, id), source: SOURCE, id, type: Ordered.type, key }
      const message = { ...identity, attributes: '{}', data, fingerprint: fingerprint(data) }
      return { message, consumers: [{ name: BILLING, ordered }], delayMs: 0 }
    })
    this.#statements.local(this.#db, tx, 'before', rows)
    this.#db.commit(tx)
  }

  #publish(messages: readonly MessagePlan[]): void {
    if (messages.length === 0) return
    this.#publishing += 1
    void this.#app('shop')
      .publish(messages)
      .then(() => {
        this.#publishing -= 1
      })
  }

  #result(unsettled: string | undefined): Result {
    const evidence: Evidence = {
      commits: this.#db.log,
      acks: this.#queue.acks,
      arrivals: this.#destination.arrivals,
      offered: this.#offered().map((plan) => ({
        consumer: BILLING,
        source: SOURCE,
        id: plan.id,
        expected: this.#deaths > 2 ? 'either' : expectedOf(plan, this.#scenario),
        breaks: breaksOf(plan, this.#scenario),
        mayVanish: this.#hadFaults && isBrokenByOthers(plan, this.#scenario),
      })),
      cutOff: this.#db.cutOff,
      publishing: new Set(this.#scenario.route === 'local' ? [] : [BILLING]),
      outside: isLeased(this.#scenario.route)
        ? { plan: this.#scenario.leased, calls: this.#provider.calls, sent: this.#provider.sent }
        : undefined,
      unsettled,
    }
    const { stepCount, trace = [] } = this.#world
    return { violations: check(evidence), steps: stepCount, faults: this.#faults(), trace, evidence }
  }

  #faults(): string[] {
    const { workers, messages } = this.#scenario
    const faults = new Set(this.#chaos.faults)
    for (const { id, behaviour } of messages) {
      if (behaviour.kind !== 'ok' && this.#calls.has(id)) faults.add(`handler: ${behaviour.kind}`)
    }
    if (workers > 1) faults.add('race: workers')
    if (messages.some(({ copies }) => copies > 1)) faults.add('race: copies')
    return [...faults]
  }

  #offered(): readonly MessagePlan[] {
    const { route, messages } = this.#scenario
    if (route === 'local' || route === 'driven') return messages
    return messages.filter(({ id }) => this.#queue.offered.some((message) => message.id === id))
  }

  /** A process that dies is started again. */
  #startProcess(): void {
    const app = this.#app('worker')
    const { process } = app
    this.#victims.push(process)
    process.onDeath.push(() => {
      this.#deaths += 1
      this.#world.after(RESTART_MS, 'a process is started again', undefined, () => this.#startProcess())
    })
    app.start().catch(() => process.kill())
  }

  #app(role: 'worker' | 'shop' | 'operator'): App {
    this.#started += 1
    const process = new Process(this.#world, `${role} ${this.#started}`, this.#scenario.seed + this.#started * 7919)
    const store = new SimStore(this.#db, process, this.#chaos, this.#statements)
    const subscription = this.#queue.subscription(process)
    const destination = this.#destination.for(process)
    return new App({
      scenario: this.#scenario,
      consumes: role === 'worker',
      process,
      store: this.#bug?.store?.(store) ?? store,
      calls: this.#calls,
      subscription: this.#bug?.subscription?.(subscription) ?? subscription,
      destination: this.#bug?.destination?.(destination) ?? destination,
      provider: this.#provider,
      waiting: () => [...this.#db.committed('inbox').keys()],
      key: this.#bug?.key,
    })
  }

  /** At rest, and for a while if a handler ended its own transaction: what it left behind is in memory until it is recorded. */
  #isSettled(): boolean {
    if (this.#unsettled().length > 0) {
      this.#restsSince = undefined
      return false
    }
    this.#restsSince ??= this.#world.now
    return this.#world.now - this.#restsSince >= this.#restMs
  }

  #unsettled(): string[] {
    const left: string[] = []
    if (this.#publishing > 0) left.push('not published')
    if (this.#queue.size > 0) left.push(`${this.#queue.size} not acked`)
    if (this.#db.open.size > 0) left.push(`${this.#db.open.size} open transactions`)
    if (this.#scenario.route === 'handle') return left
    const inbox = waiting(this.#db.committed('inbox').values(), (row) => row.ordered)
    const outbox = waiting(this.#db.committed('outbox').values(), () => true)
    if (inbox > 0) left.push(`${inbox} in the inbox`)
    if (outbox > 0 && this.#scenario.route !== 'driven') left.push(`${outbox} in the outbox`)
    return left
  }
}

/** How long what a handler left behind, after its own commit, may be in memory only. */
function restOf({ messages, cleanup }: Scenario): number {
  if (cleanup) return CLEANUP_MS
  const has = (kind: string): boolean => messages.some(({ behaviour }) => behaviour.kind === kind)
  if (!has('commits')) return 0
  return has('slow') ? 4 * TIMEOUT_MS : 1_000
}

/** How many rows neither hold their key nor stand behind one that does. */
function waiting<Row extends WaitingRow | LeavingRow>(rows: Iterable<Row>, ordered: (row: Row) => boolean): number {
  let count = 0
  const heldKeys = new Set<string>()
  const all = [...rows].sort((a, b) => a.seq - b.seq)
  for (const row of all) {
    const { key } = row.message
    const counts = key !== null && ordered(row)
    if (row.heldAt !== null && counts) heldKeys.add(key)
    else if (!counts || !heldKeys.has(key)) count += 1
  }
  return count
}

const FAULTY_MS = 120_000
const FAULTY_STEPS = 400
/** Everything has to come to rest within this time after the faults. */
const BOUND_MS = 600_000
const MAX_STEPS = 20_000
/** The first cleaning is over by then. */
const CLEANUP_MS = 95_000
const RESTART_MS = 1_000
