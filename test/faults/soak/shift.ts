import { type Hapax, isHapaxError, type Worker } from 'hapax'
import { say, told } from '../../support/child.ts'
import type { RigTx } from '../../support/databases.ts'

/** What a process with a worker says: that it works, and at the end how often something went wrong on the way. */
export interface WorkerReport {
  readonly errors: number
}

/** What is done to workers is no reason to give up a start. */
const PASSING = ['store-unavailable', 'broker-unavailable', 'broker-timeout']

/** Works until it is told to stop, then ends the gentle way. */
export async function workUntilTold(hapax: Hapax<RigTx>, worker: Worker): Promise<void> {
  let errors = 0
  const report = (): Promise<void> => say({ errors } satisfies WorkerReport)
  hapax.events.on('worker-error', () => {
    errors += 1
  })
  await start(worker)
  await report()
  await told()
  await worker.drain()
  await worker.stop()
  await report()
  await hapax.close()
  process.disconnect()
}

/** The process has its own deadline. */
async function start(worker: Worker): Promise<void> {
  for (;;) {
    try {
      return await worker.start()
    } catch (error) {
      if (!isHapaxError(error) || !PASSING.includes(error.code)) throw error
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
}
