import type { Audit } from '../../contracts/index.ts'
import type { Data } from './data.ts'

/** Records that a consumer handles these types. */
export function subscribe(data: Data, consumer: string, types: readonly string[], ordered: boolean): void {
  for (const type of types) {
    const known = data.subscriptions.get(keyOf(consumer, type))
    data.subscriptions.set(keyOf(consumer, type), { consumer, type, ordered: ordered || known?.ordered === true })
  }
}

/** Whether a process of the consumer handles this type by name, or has. */
export function isRecorded(data: Data, consumer: string, type: string): boolean {
  return data.subscriptions.get(keyOf(consumer, type)) !== undefined
}

/** Forgets a consumer. Returns whether it was known. */
export function unsubscribe(data: Data, consumer: string, audit: Audit): boolean {
  const rows = data.subscriptions.all().filter((row) => row.consumer === consumer)
  for (const { type } of rows) data.subscriptions.delete(keyOf(consumer, type))
  if (rows.length > 0) data.note(audit, { consumer })
  return rows.length > 0
}

function keyOf(consumer: string, type: string): string {
  return JSON.stringify([consumer, type])
}
