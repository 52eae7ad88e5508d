/** What every side does with a message: one row in a plain table. */
export interface Effect {
  readonly id: string
  readonly payload: string
}

/** One way of working with a library, hapax or another one. */
export interface Contender {
  readonly name: string
  /** What it does beside others of its name, for the report. */
  readonly how: string
  /** What it runs with, for the report. */
  readonly settings: string
  /** Empties its tables and fills its queue; not timed. */
  fill(effects: readonly Effect[]): Promise<void>
  /** Works until all of them have taken effect. */
  work(count: number): Promise<void>
  close(): Promise<void>
}

export const INSERT_EFFECT = 'insert into bench_peers.effects (id, payload) values ($1, $2)'
export const INSERT_EFFECTS =
  'insert into bench_peers.effects (id, payload) select * from unnest($1::text[], $2::text[])'

export function columns(effects: readonly Effect[]): [ids: readonly string[], payloads: readonly string[]] {
  return [effects.map((effect) => effect.id), effects.map((effect) => effect.payload)]
}

/** Resolves when `done` was called `count` times, rejects when `failed` was: a library may swallow what goes wrong. */
export function countdown(count: number): {
  readonly finished: Promise<void>
  done(): void
  failed(...reasons: readonly unknown[]): void
} {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  let left = count
  return {
    finished: promise,
    done() {
      left -= 1
      if (left === 0) resolve()
    },
    failed: (...reasons) => reject(new Error(`a message failed: ${reasons.map(String).join(', ')}`)),
  }
}
