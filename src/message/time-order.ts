// Merges the records of a message from several places into one timeline.

/** The places of a message, in the order in which it moves through them. */
const PLACES: readonly string[] = [
  'outbox',
  'sent',
  'receipt',
  'inbox',
  'claim',
  'effect',
  'failure',
  'attempt',
  'response',
  'failed',
  'audit',
]

/**
 * Sorts the records of a message, oldest first. Timestamps have millisecond precision, and a message may pass several places within one:
 * those records follow the order of the places. Records of one place keep the given order, which is that of their rows.
 */
export function inTimeOrder<Each extends { readonly at: Date | string; readonly where: string }>(
  all: readonly Each[],
): readonly Each[] {
  return all.toSorted((a, b) => timeOf(a) - timeOf(b) || PLACES.indexOf(a.where) - PLACES.indexOf(b.where))
}

function timeOf({ at }: { readonly at: Date | string }): number {
  return typeof at === 'string' ? Date.parse(at) : at.getTime()
}
