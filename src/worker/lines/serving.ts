import { type ConsumerCore, OTHERS } from '../../consumer/index.ts'
import type { Entry } from '../../contracts/index.ts'
import type { Membership } from '../membership.ts'
import { othersOf } from './reach.ts'

/** Lanes, and the message types for which they apply. */
interface LaneTypes {
  readonly lanes: readonly number[]
  readonly types: readonly string[]
}

/** Which rows of a consumer are this worker's. */
export class Serving<Tx> {
  readonly #consumer: Pick<ConsumerCore<Tx>, 'name' | 'types' | 'served'>
  readonly #membership: Pick<Membership, 'lanesOfType' | 'isNamed'>

  constructor(
    consumer: Pick<ConsumerCore<Tx>, 'name' | 'types' | 'served'>,
    membership: Pick<Membership, 'lanesOfType' | 'isNamed'>,
  ) {
    this.#consumer = consumer
    this.#membership = membership
  }

  /** Types by lanes. They differ during a deployment: a process of the old version has no lanes for a type that it does not know. */
  byLanes(): readonly LaneTypes[] {
    return this.#grouped((lanes) => lanes)
  }

  /** Other workers' lanes, with the types they serve. */
  byOthersLanes(): readonly LaneTypes[] {
    return this.#grouped(othersOf)
  }

  #grouped(which: (lanes: readonly number[]) => readonly number[]): readonly LaneTypes[] {
    const [consumer, membership] = [this.#consumer, this.#membership]
    const found = new Map<string, { lanes: readonly number[]; types: string[] }>()
    for (const type of consumer.served) {
      const lanes = which(membership.lanesOfType(consumer.name, type))
      const name = lanes.join()
      const same = found.get(name)
      if (same === undefined) found.set(name, { lanes, types: [type] })
      else same.types.push(type)
    }
    return [...found.values()].filter(({ lanes }) => lanes.length > 0)
  }

  /** The served type that covers this one: itself, or `OTHERS` if no process handles it by name. */
  servedAs(type: string): string | undefined {
    const [consumer, membership] = [this.#consumer, this.#membership]
    if (consumer.types.includes(type)) return type
    return consumer.served.includes(OTHERS) && !membership.isNamed(consumer.name, type) ? OTHERS : undefined
  }

  /** Whether a row is of a type and a lane that this worker serves. */
  isOurs({ type, lane }: Entry): boolean {
    const [consumer, membership] = [this.#consumer, this.#membership]
    const served = this.servedAs(type)
    return served !== undefined && membership.lanesOfType(consumer.name, served).includes(lane)
  }
}
