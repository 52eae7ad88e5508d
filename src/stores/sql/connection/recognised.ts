import type { Result } from '../../../contracts/index.ts'
import { asBoolean, asBytes, asDate, asHex, asNumber, asTextOrNull, asUuid, unrecognised } from '../values.ts'

/** What the dialect's `probe` selects, as the engine reads it: a value of each kind, under a name with an underscore. */
export const PROBE: Readonly<{ text: string; number: number; time: number; bytes: string; uuid: string }> = {
  text: ' Größe_a ',
  number: Number.MAX_SAFE_INTEGER,
  time: Date.UTC(2001, 1, 3, 4, 5, 6, 789),
  bytes: '00ff80',
  uuid: '018f3a5c-0000-8000-8000-0123456789ab',
}

/** Refuses a connection whose plugins or type parsers rename or change what comes back: a receipt would not be seen. */
export function assertRecognised({ rows: [row], affected }: Result): void {
  if (row === undefined || affected !== 1) throw unrecognised('one row', row)
  const seen: Readonly<Record<string, unknown>> = {
    text: asTextOrNull(row['probe_text']),
    number: asNumber(row['probe_number']),
    time: asDate(row['probe_time']).getTime(),
    bytes: asHex(asBytes(row['probe_bytes'])),
    uuid: asUuid(row['probe_uuid']),
  }
  for (const [name, value] of Object.entries(PROBE)) {
    if (seen[name] !== value) throw unrecognised(`probe_${name}`, row[`probe_${name}`])
  }
  if (!asBoolean(row['probe_true']) || asBoolean(row['probe_false']))
    throw unrecognised('probe_true', row['probe_true'])
  if (asTextOrNull(row['probe_null']) !== null) throw unrecognised('probe_null', row['probe_null'])
}
