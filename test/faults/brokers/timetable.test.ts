import { describe, expect, it } from 'vitest'
import { type FaultOptions, timetable } from './timetable.ts'

const options: FaultOptions = {
  seed: 7,
  brokerKills: 10,
  brokerRestarts: 4,
  consumers: 3,
  consumerKills: 20,
  relays: 2,
  relayKills: 5,
  roundMs: 1_000,
  awayMs: 100,
}

describe('the timetable of faults', () => {
  it('has as many faults of each kind as are asked for', () => {
    const rounds = timetable(options)
    expect(rounds.filter(({ broker }) => broker.how === 'kill')).toHaveLength(10)
    expect(rounds.filter(({ broker }) => broker.how === 'restart')).toHaveLength(4)
    expect(rounds.flatMap(({ consumers }) => consumers.flat())).toHaveLength(20)
    expect(rounds.flatMap(({ relays }) => relays.flat())).toHaveLength(5)
  })

  it('is the same for the same seed, and another for another', () => {
    expect(timetable(options)).toEqual(timetable(options))
    expect(timetable({ ...options, seed: 8 })).not.toEqual(timetable(options))
  })

  it('breaks the broker while messages are published', () => {
    for (const { broker } of timetable(options)) expect(broker.atMs).toBeLessThan(options.roundMs)
  })
})
