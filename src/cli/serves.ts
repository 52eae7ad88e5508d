import type { WorkerRow } from '../index.ts'

/** What a worker serves. */
export interface Serves {
  /** Types by consumer. */
  readonly consumers: Readonly<Record<string, readonly string[]>>
  readonly relays: readonly string[]
}

/** Reads what a worker says that it serves; another version may say something else. */
export function servesOf({ serves }: WorkerRow): Serves {
  try {
    const { consumers = {}, relays = [] } = JSON.parse(serves) as Partial<Serves>
    return { consumers, relays }
  } catch {
    return { consumers: {}, relays: [] }
  }
}
