import type { Result, Statement } from '../../contracts/index.ts'
import { MYSQL_ONLY } from '../sql/index.ts'
import { NO_RESULT, RETURNING } from './statements/fragments.ts'

/** What comes back for a statement inside a block. */
type Comes = 'rows' | 'nothing' | 'a count' | 'unknown'

/** Statements as one. */
export interface Block {
  readonly text: string
  /** What comes back for each of them. */
  readonly comes: readonly Comes[]
  /** Whether they may stand in a block. */
  readonly stands: boolean
  /** Whether it tells of each of them what it would tell alone. */
  readonly tells: boolean
}

/**
 * Statements as one: to MariaDB an anonymous block is a single statement, prepared or as text, and the first of its statements that fails
 * ends it. It needs no `multipleStatements`, which would let the statements of handlers carry others behind them.
 */
export function blockOf(statements: readonly Statement[]): Block {
  let at = known
  for (const { text } of statements) {
    let next = at.next.get(text)
    if (next === undefined) {
      next = { block: undefined, next: new Map() }
      if (size++ > MOST) return made(statements)
      at.next.set(text, next)
    }
    at = next
  }
  at.block ??= made(statements)
  return at.block
}

/** The blocks that have been made, by the texts of their statements: most texts are constants, and found without reading them. */
interface Known {
  block: Block | undefined
  readonly next: Map<string, Known>
}

const MOST = 1_000
let known: Known = { block: undefined, next: new Map() }
let size = 0

function made(statements: readonly Statement[]): Block {
  if (size > MOST) {
    known = { block: undefined, next: new Map() }
    size = 0
  }
  const comes = statements.map(({ text }) => comesOf(text))
  const own = statements.filter(({ text }) => !text.startsWith(MYSQL_ONLY))
  return {
    text: `begin not atomic ${own.map(({ text }) => spelledOut(text)).join('; ')}; end`,
    comes,
    stands: !comes.includes('unknown'),
    tells: !comes.includes('unknown') && !comes.includes('a count'),
  }
}

/**
 * Without comments that only MariaDB executes: of a statement in a block that begins with one, the binary log keeps its end but not its
 * beginning, and replicas stop at it.
 */
function spelledOut(text: string): string {
  return text.replace(EXECUTED, ' $1 ')
}

const EXECUTED = /\/\*M!\d+\s([^*]*)\*\//g

/** The values of the statements of a block. */
export function valuesOf(statements: readonly Statement[]): Statement['params'] {
  return statements.flatMap(({ text, params }) => (text.startsWith(MYSQL_ONLY) ? [] : params))
}

/** The results of the statements of a block: it returns the rows of those that have any, one list after the other. */
export function resultsOf({ comes }: Block, lists: readonly Result[]): readonly Result[] {
  let next = 0
  return comes.map((each) => (each === 'rows' ? (lists[next++] ?? NO_RESULT) : NO_RESULT))
}

function comesOf(text: string): Comes {
  if (text.startsWith(MYSQL_ONLY)) return 'nothing'
  const verb = VERB.exec(text)?.[1]
  const comes = verb === undefined ? undefined : COMES.get(verb)
  return comes === 'a count' && text.includes(RETURNING) ? 'rows' : (comes ?? 'unknown')
}

/** The first word behind a comment such as `LOCK_WAIT`. */
const VERB = /^\s*(?:\/\*[^*]*\*\/)?\s*(\w+)/

const COMES: ReadonlyMap<string, Comes> = new Map([
  ['select', 'rows'],
  ['start', 'nothing'],
  ['set', 'nothing'],
  ['savepoint', 'nothing'],
  ['release', 'nothing'],
  ['commit', 'nothing'],
  ['insert', 'a count'],
  ['update', 'a count'],
  ['delete', 'a count'],
])
