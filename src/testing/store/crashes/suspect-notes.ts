import assert from 'node:assert/strict'
import { altered } from '../../altered.ts'
import { LeapingClock } from '../../clock.ts'
import type { Case } from '../case.ts'
import { leased, seqOf } from '../leased/world.ts'
import { type AnyStore, gate } from '../world.ts'

const OTHERS = Array.from({ length: 12 }, (_, n) => `m${n}`)
const TAKEOVER_MS = 60_000

/** The rows that a worker has recorded as in hand, which a crash at that moment is blamed on. */
interface Note {
  readonly seqs: readonly string[]
  readonly alone: boolean
}

/** Wraps a store: its looks hide a row until it is released, and its notes are recorded. */
function watching(store: AnyStore, hidden: string): { store: AnyStore; notes: Note[]; show(): void; found(): number } {
  const notes: Note[] = []
  let shown = false
  let found = 0
  const look: AnyStore['workers']['look'] = async (shares) => {
    const looks = await store.workers.look(shares)
    if (shown && looks.some(({ entries }) => entries.some(({ seq }) => seq === hidden))) found += 1
    return looks.map((each) => ({
      ...each,
      entries: each.entries.filter(({ seq }) => shown || seq !== hidden),
    }))
  }
  const note: AnyStore['workers']['note'] = async (id, inHand, ask) => {
    const noted = await store.workers.note(id, inHand, ask)
    notes.push(inHand)
    return noted
  }
  const show = (): void => {
    shown = true
  }
  return { store: altered(store, { workers: { look, note } }), notes, show, found: () => found }
}

/** The records of a worker while a message runs alone. */
export const suspectNotes: readonly Case[] = [
  {
    name: 'C2: while a suspect runs alone, a crash is blamed on nothing else, although other messages wait for their turn',
    run: async (world) => {
      const storing = world.reader(undefined, { receive: 'store' })
      await storing.deliverMany([...OTHERS, 'suspect'])
      const suspect = await seqOf(world, 'suspect')
      for (let death = 0; death < 2; death++) await world.crash([suspect])
      const { store, notes, show, found } = watching(world.store, suspect)
      const clock = new LeapingClock()
      const hapax = world.hapax({ store, clock })
      const [began, go] = [gate(), gate()]
      const calls: string[] = []
      const beside: (readonly Note[])[] = []
      const consumer = leased(
        world,
        async ({ message }) => {
          calls.push(message.id)
          if (message.id !== 'suspect') {
            began.open()
            return go.passed
          }
          const from = notes.length - 1
          // Until a heartbeat has recorded it once more.
          await world.until(() => {
            clock.leap(TAKEOVER_MS / 5)
            return notes.length > from + 2
          })
          beside.push(notes.slice(from))
        },
        { hapax, concurrency: 1, leaseMs: 600_000, maxDurationMs: 1e9 },
      )
      const worker = await world.worker({ hapax, consumer }, { takeoverMs: TAKEOVER_MS })
      // One message runs, and the others are recorded. Then the suspect is found, and no other may begin before it.
      await began.passed
      // The others had time to begin.
      clock.leap(10_000)
      show()
      await world.until(() => found() > 2)
      go.open()
      await world.until(() => beside.length > 0)
      assert.ok(calls.indexOf('suspect') < OTHERS.length, 'others wait while it runs')
      for (const { seqs, alone } of beside.flat()) assert.deepEqual([new Set(seqs), alone], [new Set([suspect]), true])
      await worker.drain()
      assert.deepEqual([...calls].sort(), [...OTHERS, 'suspect'].sort())
    },
  },
]
