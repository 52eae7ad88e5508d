import { type Consumer, type ConsumerOptions, type Hapax, type Outcome, Permanent } from 'hapax'
import type { RigTx } from '../support/databases.ts'

/** What a scenario works with. */
export interface Rig {
  readonly hapax: Hapax<RigTx>
  readonly consumer: Consumer<RigTx>
  /** Hands over the messages of the scenario, as a broker does. */
  deliver(redelivered?: boolean): Promise<readonly Outcome[]>
  /** Works the inbox until nothing is due. */
  work(): Promise<void>
  /** From now on the handler does not fail any more. */
  heal(): void
}

/** One way through the engine, and how its messages end, whenever the process is killed. */
export interface Scenario {
  readonly name: string
  readonly messages: number
  readonly delivery: 'relay' | 'local'
  readonly options: ConsumerOptions
  /** What the handler throws after its writes. */
  readonly fails: (attempt: number, index: number) => Error | undefined
  /** Before any kill. */
  readonly prepare: (rig: Rig) => Promise<unknown>
  readonly run: (rig: Rig) => Promise<unknown>
  /** What a person does after the crash, beside the broker and the worker. */
  readonly repair: (rig: Rig) => Promise<unknown>
  readonly end: 'effect' | 'failed'
}

const nothing = async (): Promise<void> => {}
const never = (): undefined => undefined
const flaw = (times: number) => (attempt: number) =>
  attempt <= times ? new Error(`flaw of attempt ${attempt}`) : undefined

function scenario(name: string, parts: Partial<Scenario>): Scenario {
  const defaults = {
    messages: 1,
    delivery: 'relay',
    fails: never,
    prepare: nothing,
    repair: nothing,
    end: 'effect',
  } as const
  const options = { concurrency: 1, retry: { attempts: 3, minDelayMs: 0, maxDelayMs: 0 }, ...parts.options }
  return { name, ...defaults, run: (rig) => rig.deliver(), ...parts, options }
}

const retryAll = async ({ hapax, consumer }: Rig): Promise<void> => {
  for (const { seq } of await hapax.failed.list({ consumer: consumer.name })) await hapax.failed.retry(seq)
}

/** The ways through the consume and settle paths. */
export const scenarios: readonly Scenario[] = [
  scenario('first delivery', {}),
  scenario('first delivery, local publish', { delivery: 'local' }),
  scenario('group of 5', { messages: 5, options: { group: { size: 5 } } }),
  // The first three show that handlers may overlap; with a concurrency of 1 they never do.
  scenario('group of 6, the last three overlap', { messages: 6, options: { group: { size: 6 }, concurrency: 2 } }),
  scenario('group of 3, one fails', {
    messages: 3,
    options: { group: { size: 3 } },
    fails: (attempt, index) => (index === 1 && attempt === 1 ? new Error('flaw of one') : undefined),
  }),
  scenario('handler fails, to inbox', { fails: flaw(1) }),
  scenario('handler fails, rolled back', {
    fails: flaw(1),
    options: { onError: 'rollback' },
    repair: async (rig) => rig.heal(),
  }),
  scenario('handler fails for good', { fails: () => new Permanent('no use'), end: 'failed' }),
  scenario('retry succeeds', { fails: flaw(1), prepare: (rig) => rig.deliver(), run: (rig) => rig.work() }),
  scenario('retry fails, then succeeds', { fails: flaw(2), prepare: (rig) => rig.deliver(), run: (rig) => rig.work() }),
  scenario('retries are used up', {
    fails: flaw(9),
    options: { retry: { attempts: 2, minDelayMs: 0, maxDelayMs: 0 } },
    prepare: (rig) => rig.deliver(),
    run: (rig) => rig.work(),
    end: 'failed',
  }),
  scenario('redelivered', { run: (rig) => rig.deliver(true) }),
  scenario('stored, then worked', {
    options: { receive: 'store' },
    run: async (rig) => [await rig.deliver(), await rig.work()],
  }),
  scenario('stored group of 5', {
    messages: 5,
    options: { receive: 'store', group: { size: 5 } },
    run: async (rig) => [await rig.deliver(), await rig.work()],
  }),
  scenario('failed, then retried', {
    fails: () => new Permanent('not yet'),
    prepare: async (rig) => {
      await rig.deliver()
      rig.heal()
    },
    run: async (rig) => [await retryAll(rig), await rig.work()],
    repair: retryAll,
  }),
]
