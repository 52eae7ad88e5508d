import { App, BILLING, Calls, incoming, SOURCE } from './app.ts'
import { Chaos } from './chaos.ts'
import { check, type Evidence, type Violation } from './checker.ts'
import { type Choices, randomChoices } from './choices.ts'
import { Database } from './database.ts'
import { expectedOf, type Scenario } from './scenario.ts'
import { SimDestination, SimQueue } from './sim-broker.ts'
import { SimStore } from './sim-store.ts'
import { statements as right, type Statements } from './statements.ts'
import { Process, World } from './world.ts'

/** How a history is run. */
export interface HistoryOptions {
  /** Records what happens. */
  readonly trace?: boolean
  readonly choices?: Choices
  /** Bugs on purpose. */
  readonly statements?: Statements
}

/** What became of a history. */
export interface Result {
  readonly violations: readonly Violation[]
  readonly steps: number
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
  readonly #statements: Statements
  readonly #calls = new Calls()
  #started = 0
  #deaths = 0

  constructor(scenario: Scenario, { trace = false, choices, statements = right }: HistoryOptions) {
    this.#scenario = scenario
    this.#statements = statements
    this.#world = new World(choices ?? randomChoices(scenario.seed))
    if (trace) this.#world.trace = []
    this.#world.slowness = scenario.slowness
    this.#db = new Database(this.#world)
    this.#chaos = new Chaos(this.#world, scenario.chaos)
    this.#world.disturb = () => this.#chaos.disturb()
    const { ordersKeys, marksRedelivered, keepsOrder, refused } = scenario
    this.#queue = new SimQueue(this.#world, this.#db, this.#chaos, BILLING, { ordersKeys, marksRedelivered })
    this.#destination = new SimDestination(this.#db, this.#chaos, 'default', keepsOrder)
    this.#destination.refuses = (id) => refused.includes(id)
  }

  async run(): Promise<Result> {
    const world = this.#world
    for (let index = 0; index < this.#scenario.workers; index++) this.#startProcess()
    if (this.#scenario.slowProcess) world.slow.set(world.processes[0] as Process, 0.2)
    for (const { id, key, copies } of this.#scenario.messages) {
      for (let copy = 0; copy < copies; copy++) this.#queue.add(incoming(id, key))
    }
    await world.run(() => this.#isSettled(), FAULTY_MS, FAULTY_STEPS)
    this.#chaos.stop()
    world.slowness = 0
    world.slow.clear()
    const ending = await world.run(() => this.#isSettled(), world.now + BOUND_MS, MAX_STEPS)
    const unsettled = ending === 'done' ? undefined : `not settled, ${ending}: ${this.#unsettled().join(', ')}`
    return this.#result(unsettled)
  }

  #result(unsettled: string | undefined): Result {
    const evidence: Evidence = {
      commits: this.#db.log,
      acks: this.#queue.acks,
      arrivals: this.#destination.arrivals,
      offered: this.#scenario.messages.map((plan) => ({
        consumer: BILLING,
        source: SOURCE,
        id: plan.id,
        expected: this.#deaths > 2 ? 'either' : expectedOf(plan, this.#scenario),
        breaks: plan.behaviour.kind === 'commits',
      })),
      publishing: new Set(this.#scenario.route === 'local' ? [] : [BILLING]),
      unsettled,
    }
    const { stepCount, trace = [] } = this.#world
    return { violations: check(evidence), steps: stepCount, trace, evidence }
  }

  /** A process that dies is started again. */
  #startProcess(): void {
    this.#started += 1
    const process = new Process(this.#world, `p${this.#started}`, this.#scenario.seed + this.#started * 7919)
    this.#chaos.victims = this.#world.processes
    process.onDeath.push(() => {
      this.#deaths += 1
      this.#world.after(RESTART_MS, 'a process is started again', undefined, () => this.#startProcess())
    })
    const app = new App({
      scenario: this.#scenario,
      process,
      store: new SimStore(this.#db, process, this.#chaos, this.#statements),
      calls: this.#calls,
      subscription: this.#queue.subscription(process),
      destination: this.#destination.for(process),
    })
    void app.start()
  }

  #isSettled(): boolean {
    return this.#unsettled().length === 0
  }

  #unsettled(): string[] {
    const left: string[] = []
    if (this.#queue.size > 0) left.push(`${this.#queue.size} not acked`)
    if (this.#db.open.size > 0) left.push(`${this.#db.open.size} open transactions`)
    return left
  }
}

const FAULTY_MS = 120_000
const FAULTY_STEPS = 400
/** Everything has to come to rest within this time after the faults. */
const BOUND_MS = 600_000
const MAX_STEPS = 20_000
const RESTART_MS = 1_000
