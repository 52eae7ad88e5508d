import { type Clock, expected, HapaxError, noOthers, positiveInteger, within } from '../base/index.ts'
import { Feed } from '../consumer/index.ts'
import type { StopOptions, WorkedOnce } from '../contracts/index.ts'
import type { Engine } from '../transaction/index.ts'
import type { WorkerOptions } from './options.ts'

/** Options of `workOnce`: what a worker would serve, and for how long. */
export interface WorkOnceOptions<Tx>
  extends Pick<WorkerOptions<Tx>, 'consume' | 'relay' | 'relays' | 'keepSentMs' | 'takeoverMs'> {
  /**
   * When it has ended at the latest. It takes no more messages a little earlier: a quarter of this time, at most 5 seconds, is for handlers
   * that are running. Those that have not finished then are aborted and run again later.
   */
  readonly maxMs: number
}

/** A worker, as far as it is used here. */
interface Once {
  start(): Promise<void>
  drain(): Promise<void>
  stop(options: StopOptions): Promise<void>
}

const NAMES = [
  'maxMs',
  'consume',
  'relay',
  'relays',
  'keepSentMs',
  'takeoverMs',
] as const satisfies readonly (keyof WorkOnceOptions<never>)[]

/** Works what is due, with a worker that `make` makes, and ends. Messages of all workers of this hapax are counted. */
export async function workOnce<Tx>(
  { events, clock }: Pick<Engine<Tx>, 'events' | 'clock'>,
  options: WorkOnceOptions<Tx>,
  make: (options: WorkerOptions<Tx>) => Once,
): Promise<WorkedOnce> {
  noOthers('options of workOnce', options, NAMES)
  const { maxMs, ...others } = options
  if (maxMs === undefined) expected('maxMs', 'a positive integer', maxMs)
  const limitMs = positiveInteger('maxMs', maxMs, 1)
  refuseFeeds(options)
  const counts = { processed: 0, sent: 0, retrying: 0, failed: 0 }
  const count = (name: keyof typeof counts) => (): void => {
    counts[name] += 1
  }
  // Cleaning begins too late to ever happen here.
  const worker = make({ ...others, cleanup: false })
  const listening = [
    events.on('processed', count('processed')),
    events.on('relayed', count('sent')),
    events.on('retrying', count('retrying')),
    events.on('relay-retrying', count('retrying')),
    events.on('failed', count('failed')),
    events.on('relay-failed', count('failed')),
  ]
  try {
    const drained = await runOnce(worker, clock, limitMs)
    return { ...counts, remaining: !drained }
  } finally {
    for (const ignore of listening) ignore()
  }
}

/** A broker does not say when nothing is due. */
function refuseFeeds<Tx>({ consume = [] }: WorkOnceOptions<Tx>): void {
  const feed = Array.isArray(consume) ? consume.find((each) => each instanceof Feed) : undefined
  if (!(feed instanceof Feed)) return
  expected('consume', 'without .from(…), because a broker does not say when nothing is due', feed.subscription.name)
}

/**
 * Runs a worker until nothing is due, or until the time is over; false in that case. It resolves in time whatever happens: what a worker that
 * is stopped late still does commits or does not, as after a crash.
 */
export async function runOnce(worker: Once, clock: Clock, maxMs: number): Promise<boolean> {
  const end = clock.monotonic() + maxMs
  const graceMs = Math.min(GRACE_MS, maxMs / 4)
  let started = false
  const working = async (): Promise<'drained'> => {
    await worker.start()
    started = true
    await worker.drain()
    return 'drained'
  }
  const leftMs = (): number => Math.max(0, end - clock.monotonic())
  // Handlers that are aborted still need some time to say so.
  const stop = (): Promise<void> => within(clock, leftMs(), worker.stop({ deadlineMs: leftMs() * 0.8 }), () => {})
  const done = await within<'drained' | 'over'>(clock, maxMs - graceMs, working(), () => 'over').finally(stop)
  if (!started) throw new HapaxError('store-unavailable', `the worker could not start within ${maxMs} ms`)
  return done === 'drained'
}

const GRACE_MS = 5_000
