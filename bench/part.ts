import type { ServerName } from '../test/support/servers.ts'

/** One part of the benchmark; `parts.ts` lists them. */
export interface Part {
  readonly name: string
  /** What is compared, in one line. */
  readonly about: string
  /** The servers that it measures on. */
  readonly needs: readonly ServerName[]
  /** Pieces that can be run alone, as `growth/cleanup`. */
  readonly sections?: readonly string[]
  /** Measures, and reports every line by `report` or `reportValue`. */
  run(bench: Bench): Promise<void>
}

/** What a part is run with. */
export interface Bench {
  readonly quick: boolean
  /** How many rounds count: five, or three in a quick run. */
  readonly rounds: number
  /** The first number in a full run, the second one in a quick run. */
  size(full: number, quick: number): number
  /** Whether a section is to be run. */
  wants(section: string): boolean
  /** The URL of a server that the part needs. */
  url(server: ServerName): string
}

/** What to run of a part: all of it, or some sections. */
export interface Choice {
  readonly part: Part
  readonly sections: readonly string[]
}

/** What words such as `peers growth/cleanup` choose; all parts where there are none. Throws if one is unknown. */
export function choose(parts: readonly Part[], words: readonly string[]): readonly Choice[] {
  const known = parts.flatMap(({ name, sections = [] }) => [name, ...sections.map((section) => `${name}/${section}`)])
  const unknown = words.find((word) => !known.includes(word))
  if (unknown !== undefined) throw new Error(`expected a part or a section that --help lists, got '${unknown}'`)
  const chosen = parts.filter(({ name }) => words.length === 0 || words.some((word) => word.split('/')[0] === name))
  return chosen.map((part) => {
    const own = words.filter((word) => word.startsWith(`${part.name}/`)).map((word) => word.slice(part.name.length + 1))
    return { part, sections: own.length === 0 || words.includes(part.name) ? (part.sections ?? []) : own }
  })
}

export function benchFor({ sections }: Choice, quick: boolean, urlOf: (server: ServerName) => string): Bench {
  return {
    quick,
    rounds: quick ? 3 : 5,
    size: (full, small) => (quick ? small : full),
    wants: (section) => sections.includes(section),
    url: urlOf,
  }
}
