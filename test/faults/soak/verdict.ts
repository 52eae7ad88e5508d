/** A message as its publisher wrote it down: `n` counts the messages of its key in the order of their commits. */
interface Sent {
  readonly id: string
  readonly key: string
  readonly n: number
  readonly at: number
}

/** What one call of a handler left: `seen` is the highest `n` of its key that had taken effect before it. */
export interface Effect extends Sent {
  readonly seen: number
  readonly worker: number
}

/** What happened, by the tables of the checker alone. */
export interface History {
  readonly planned: readonly string[]
  readonly sent: readonly Sent[]
  /** In the order in which they were written. */
  readonly effects: readonly Effect[]
  /** The ids in the failed store, and why they are there. */
  readonly failed: readonly string[]
  /** Whether the effects of a key have to be in order. */
  readonly ordered: boolean
  /** When processes were killed. */
  readonly kills: readonly number[]
  /** How long no effect at all may come while work is there. */
  readonly silenceLimitMs: number
}

/** What the checker found. The lists of complaints are empty when all is well; `complaints` names those that are not. */
export interface Verdict {
  readonly complaints: readonly string[]
  readonly effects: number
  readonly keys: number
  /** Planned and never committed: the rig did not do its work. */
  readonly unsent: readonly string[]
  /** Numbers of a key that are not 1, 2, 3, …: the rig did not do its work. */
  readonly misnumbered: readonly string[]
  readonly lost: readonly string[]
  readonly doubled: readonly string[]
  readonly unexpected: readonly string[]
  /** Given up, although nothing was wrong with it. */
  readonly failed: readonly string[]
  /** Written after the effect of a later message of the key. */
  readonly inverted: readonly string[]
  /** Ran when the effects of earlier messages of the key were not there yet, or those of later ones were. */
  readonly early: readonly string[]
  /** The longest time without any effect while work was there. */
  readonly silenceMs: number
  /** The longest time from a kill to the next effect while work was there. */
  readonly afterKillMs: number
  readonly longestWaitMs: number
}

/** Judges a history in one pass over each of its lists. */
export function judge(history: History): Verdict {
  const { planned, sent, effects, failed, ordered, silenceLimitMs } = history
  const byId = new Map(sent.map((each) => [each.id, each]))
  const counts = new Map<string, number>()
  for (const { id } of effects) counts.set(id, (counts.get(id) ?? 0) + 1)
  const found = {
    unsent: planned.filter((id) => !byId.has(id)),
    misnumbered: misnumbered(sent),
    lost: [...new Set([...planned, ...byId.keys()])].filter((id) => !counts.has(id)),
    doubled: [...counts].filter(([, count]) => count > 1).map(([id]) => id),
    unexpected: effects.filter((effect) => !matches(effect, byId.get(effect.id))).map(({ id }) => id),
    failed,
    ...(ordered ? orderOf(effects) : { inverted: [], early: [] }),
  }
  const { silenceMs, afterKillMs, longestWaitMs } = timesOf(history)
  const complaints = Object.entries(found).filter(([, ids]) => ids.length > 0)
  return {
    complaints: [
      ...complaints.map(([name, ids]) => `${ids.length} ${name}`),
      ...(silenceMs > silenceLimitMs ? [`no effect for ${Math.round(silenceMs)} ms while work was there`] : []),
    ],
    effects: effects.length,
    keys: new Set(sent.map(({ key }) => key)).size,
    ...found,
    silenceMs,
    afterKillMs,
    longestWaitMs,
  }
}

function matches(effect: Effect, sent: Sent | undefined): boolean {
  return sent !== undefined && sent.key === effect.key && sent.n === effect.n
}

function misnumbered(sent: readonly Sent[]): string[] {
  const bad: string[] = []
  for (const [key, all] of Map.groupBy(sent, (each) => each.key)) {
    const numbers = all.map(({ n }) => n).sort((a, b) => a - b)
    if (numbers.some((n, index) => n !== index + 1)) bad.push(key)
  }
  return bad
}

function orderOf(effects: readonly Effect[]): { inverted: string[]; early: string[] } {
  const highest = new Map<string, number>()
  const inverted: string[] = []
  const early: string[] = []
  for (const { id, key, n, seen } of effects) {
    const before = highest.get(key) ?? 0
    if (n < before) inverted.push(id)
    if (seen !== n - 1) early.push(id)
    highest.set(key, Math.max(before, n))
  }
  return { inverted, early }
}

/** Walks through sends, kills and effects as they happened. */
function timesOf({ sent, effects, kills }: History): Pick<Verdict, 'silenceMs' | 'afterKillMs' | 'longestWaitMs'> {
  const sentAt = new Map(sent.map(({ id, at }) => [id, at]))
  const steps = [
    ...sent.map(({ at }) => ({ at, what: 'sent' as const, id: '' })),
    ...kills.map((at) => ({ at, what: 'kill' as const, id: '' })),
    ...effects.map(({ at, id }) => ({ at, what: 'effect' as const, id })),
  ].sort((a, b) => a.at - b.at)
  const times = { silenceMs: 0, afterKillMs: 0, longestWaitMs: 0 }
  let waiting = 0
  let silentFrom = 0
  let killedAt: number | undefined
  for (const { at, what, id } of steps) {
    if (what === 'sent') {
      if (waiting === 0) silentFrom = at
      waiting += 1
    } else if (what === 'kill') {
      if (waiting > 0) killedAt ??= at
    } else {
      if (waiting > 0) times.silenceMs = Math.max(times.silenceMs, at - silentFrom)
      if (killedAt !== undefined) times.afterKillMs = Math.max(times.afterKillMs, at - killedAt)
      times.longestWaitMs = Math.max(times.longestWaitMs, at - (sentAt.get(id) ?? at))
      waiting = Math.max(0, waiting - 1)
      silentFrom = at
      killedAt = undefined
    }
  }
  return times
}
