import type { Statement } from '../../src/contracts/connection.ts'
import type { Dialect } from '../../src/stores/sql/index.ts'

/** Parts of a dialect that are not statements on the tables of messages. */
const OTHER_PARTS: readonly string[] = ['schema', 'transactions', 'isolationLevels', 'doomOf', 'classify', 'answered']

/** Which statements a dialect has, by name (`inbox.claim`, `aside.outbox.heads`), and which of them a store has asked for. */
export class Called {
  readonly #all = new Set<string>()
  readonly #called = new Set<string>()
  readonly #names = new Map<string, string>()

  watch(dialect: Dialect): Dialect {
    const parts = Object.entries(dialect).map(([name, part]) => [
      name,
      OTHER_PARTS.includes(name) ? part : this.#watched(name, part),
    ])
    return Object.fromEntries(parts)
  }

  /** The statements that nothing has asked for. */
  get missing(): readonly string[] {
    return [...this.#all].filter((name) => !this.#called.has(name)).sort()
  }

  /** The name of a statement; '' for a part of what is made of several. */
  nameOf({ text }: Statement): string {
    return this.#names.get(text) ?? ''
  }

  #watched(name: string, part: unknown): unknown {
    if (typeof part === 'function') {
      this.#all.add(name)
      return (...args: readonly unknown[]) => {
        const made: unknown = part(...args)
        this.#called.add(name)
        for (const each of Array.isArray(made) ? made : [made]) if (isStatement(each)) this.#names.set(each.text, name)
        return made
      }
    }
    if (isStatement(part)) return this.#constant(name, part)
    if (typeof part !== 'object' || part === null) return part
    return Object.fromEntries(
      Object.entries(part).map(([each, value]) => [each, this.#watched(`${name}.${each}`, value)]),
    )
  }

  /** A statement without values is called by being read. */
  #constant(name: string, statement: Statement): Statement {
    this.#all.add(name)
    this.#names.set(statement.text, name)
    return new Proxy(statement, {
      get: (target, each) => {
        this.#called.add(name)
        return Reflect.get(target, each)
      },
    })
  }
}

function isStatement(value: unknown): value is Statement {
  return typeof value === 'object' && value !== null && 'text' in value && 'params' in value
}
