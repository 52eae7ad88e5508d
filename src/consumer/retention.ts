import { HapaxError } from '../base/index.ts'

/** Refuses receipts that would be deleted before the last copy of a message may come: it would then be taken as a new one. */
export function refuseShort(
  consumer: string,
  retentionMs: number | 'forever',
  horizonMs: number | undefined,
  why: string,
): void {
  if (retentionMs === 'forever' || horizonMs === undefined || retentionMs >= horizonMs) return
  throw new HapaxError(
    'retention-too-short',
    `expected retentionMs of ${consumer} to be at least ${horizonMs} (${spoken(horizonMs)}), because ${why} for so long, ` +
      `got ${retentionMs} (${spoken(retentionMs)})`,
    { fields: { consumer, retentionMs, horizonMs } },
  )
}

/** A span of time, as people say it. */
export function spoken(ms: number): string {
  const units = [
    ['days', 86_400_000],
    ['hours', 3_600_000],
    ['minutes', 60_000],
    ['seconds', 1_000],
  ] as const
  const [name, size] = units.find(([, each]) => ms >= each) ?? ['milliseconds', 1]
  return `${Math.round((ms / size) * 10) / 10} ${name}`
}
