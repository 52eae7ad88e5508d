import { seeded, shuffled } from '../../support/seeded.ts'

/** How often what is done, and to how many. */
export interface FaultOptions {
  readonly seed: number
  readonly brokerKills: number
  /** Graceful stops and starts of the broker. */
  readonly brokerRestarts: number
  readonly consumers: number
  readonly consumerKills: number
  readonly relays: number
  readonly relayKills: number
  /** How long messages are published in each round. */
  readonly roundMs: number
  /** How long the broker, or a killed process, stays away at most. */
  readonly awayMs: number
}

/** Something to do to a process. */
export interface Fault {
  /** After the beginning of its round. */
  readonly atMs: number
  readonly awayMs: number
}

/** A round has one fault of the broker, in the middle of it, and any number of others. */
export interface Round {
  readonly broker: Fault & { readonly how: 'kill' | 'restart' }
  /** For each consumer, and for each relay. */
  readonly consumers: readonly (readonly Fault[])[]
  readonly relays: readonly (readonly Fault[])[]
}

/** What happens when: the same for the same seed. */
export function timetable(options: FaultOptions): Round[] {
  const { brokerKills, brokerRestarts, consumers, consumerKills, relays, relayKills, roundMs, awayMs } = options
  const random = seeded(options.seed)
  const hows = [...Array(brokerKills).fill('kill'), ...Array(brokerRestarts).fill('restart')] as ('kill' | 'restart')[]
  const fault = (from: number, to: number): Fault => {
    return { atMs: roundMs * (from + random() * (to - from)), awayMs: awayMs * random() }
  }
  const share = (count: number, posts: number, round: number): Fault[][] => {
    const faults: Fault[][] = Array.from({ length: posts }, () => [])
    for (let each = round; each < count; each += hows.length) {
      // Some hit while the broker is away.
      faults[Math.floor(random() * posts)]?.push(fault(0.1, 1.5))
    }
    return faults.map((list) => list.sort((a, b) => a.atMs - b.atMs))
  }
  return shuffled(hows, random).map((how, round) => ({
    // Not at once: RabbitMQ 3.10 may forget a quorum queue that was declared within the last second when it is killed.
    broker: { how, ...fault(0.4, 0.9) },
    consumers: share(consumerKills, consumers, round),
    relays: share(relayKills, relays, round),
  }))
}
