import { hostname } from 'node:os'

/** What people know this process by: host and process, as the list of workers has it. */
export function workerName(): string {
  return `${hostname()}/${process.pid}`
}
