import type { Process, World } from './world.ts'

/** How a link can break around a request. */
export type LinkFault = 'before' | 'after' | 'late'

/** What may go wrong, and how often. */
export interface ChaosPlan {
  /** How many faults in all. */
  readonly budget: number
  /** The odds of a fault at each point where one could happen. */
  readonly odds: number
  readonly kills: boolean
  readonly pauses: boolean
  readonly links: boolean
  /** Faults of brokers, and of providers outside. */
  readonly brokers: boolean
}

/** A plan without faults. */
export const CALM: ChaosPlan = { budget: 0, odds: 0, kills: false, pauses: false, links: false, brokers: false }

/** Decides which faults happen; it has a budget, and it stops. */
export class Chaos {
  readonly #world: World
  readonly #plan: ChaosPlan
  /** How many faults are left. */
  left: number
  /** The processes that may be killed or paused. */
  victims: readonly Process[] = []
  /** What happened. */
  readonly faults = new Set<string>()

  constructor(world: World, plan: ChaosPlan) {
    this.#world = world
    this.#plan = plan
    this.left = plan.budget
  }

  stop(): void {
    this.left = 0
  }

  /** Whether one of several faults happens now, and which. */
  #fault<Fault extends string>(what: string, kinds: readonly Fault[], odds: number): Fault | undefined {
    const { choices } = this.#world
    if (this.left <= 0 || !choices.chance(odds)) return undefined
    this.left -= 1
    const fault = kinds[choices.pick(kinds.length)] as Fault
    this.faults.add(`${what}: ${fault}`)
    return fault
  }

  /** The fate of the link under a request. */
  link(commits: boolean): LinkFault | undefined {
    if (this.left <= 0 || !this.#plan.links) return undefined
    const { odds } = this.#plan
    return commits ? this.#fault('link', COMMIT_FAULTS, 4 * odds) : this.#fault('link', LINK_FAULTS, odds)
  }

  /** The fate of something at a broker. */
  broker<Fault extends string>(kinds: readonly Fault[]): Fault | undefined {
    if (this.left <= 0 || !this.#plan.brokers) return undefined
    return this.#fault('broker', kinds, 10 * this.#plan.odds)
  }

  /** The fate of a call to somebody outside. */
  outside<Fault extends string>(kinds: readonly Fault[]): Fault | undefined {
    if (this.left <= 0 || !this.#plan.brokers) return undefined
    return this.#fault('provider', kinds, 10 * this.#plan.odds)
  }

  /** Kills or pauses a process, perhaps. */
  disturb(): boolean {
    const { kills, pauses, odds } = this.#plan
    if (this.left <= 0 || !(kills || pauses) || this.victims.length === 0) return false
    const victims = this.victims.filter((each) => each.alive && !each.paused)
    if (victims.length === 0) return false
    const { choices } = this.#world
    if (!choices.chance(odds)) return false
    this.left -= 1
    const victim = victims[choices.pick(victims.length)] as Process
    const kill = kills && (!pauses || choices.pick(2) === 0)
    this.faults.add(kill ? 'process: killed' : 'process: paused')
    if (kill) victim.kill()
    else victim.pause(PAUSES[choices.pick(PAUSES.length)] as number)
    return true
  }
}

const LINK_FAULTS: readonly LinkFault[] = ['before', 'after']
const COMMIT_FAULTS: readonly LinkFault[] = ['before', 'after', 'late']
const PAUSES = [500, 12_000, 20_000] as const
