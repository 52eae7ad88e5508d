import { seeded } from '../support/seeded.ts'

/** Who decides what happens next: chance, or an enumeration of everything that could. */
export interface Choices {
  /** Whether every possibility is to be tried; then there are no odds. */
  readonly exhaustive: boolean
  /** A whole number below `count`. */
  pick(count: number): number
  /** Whether something happens that has these odds. */
  chance(odds: number): boolean
}

/** Choices by chance; the same seed makes the same ones. */
export function randomChoices(seed: number): Choices {
  const random = seeded(seed)
  return {
    exhaustive: false,
    pick: (count) => (count <= 1 ? 0 : Math.floor(random() * count)),
    chance: (odds) => odds > 0 && random() < odds,
  }
}

/** Walks depth first over all lists of choices. Each call of `next` begins another history, until there is none. */
export class Enumeration implements Choices {
  readonly exhaustive = true
  #path: { choice: number; count: number }[] = []
  #depth = 0

  pick(count: number): number {
    if (count <= 1) return 0
    const known = this.#path[this.#depth]
    if (known === undefined) this.#path.push({ choice: 0, count })
    else if (known.count !== count) throw new Error(`expected ${known.count} possibilities when replayed, got ${count}`)
    const { choice } = this.#path[this.#depth] as { choice: number }
    this.#depth += 1
    return choice
  }

  chance(odds: number): boolean {
    return odds > 0 && this.pick(2) === 1
  }

  /** Goes on to the next history; false: that was the last one. */
  next(): boolean {
    this.#path.length = this.#depth
    this.#depth = 0
    for (let last = this.#path.at(-1); last !== undefined; last = this.#path.at(-1)) {
      if (last.choice + 1 < last.count) {
        last.choice += 1
        return true
      }
      this.#path.pop()
    }
    return false
  }

  /** The choices of the current history. */
  get choices(): readonly number[] {
    return this.#path.slice(0, this.#depth).map(({ choice }) => choice)
  }
}

/** Makes a given list of choices, then always the first one. */
export function replayed(choices: readonly number[]): Choices {
  let next = 0
  const pick = (count: number): number => (count <= 1 ? 0 : (choices[next++] ?? 0))
  return { exhaustive: true, pick, chance: (odds) => odds > 0 && pick(2) === 1 }
}
