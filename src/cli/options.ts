import { type Command, InvalidArgumentError } from 'commander'
import type { By } from '../admin/index.ts'
import { MAX_SPAN_MS } from '../base/index.ts'
import { durationMs, durationText } from './io/duration.ts'
import type { Io } from './io/io.ts'
import { pageStart } from './seq.ts'

/** Takes the exit code of a command. */
export type Done = (exitCode: number) => void

/** Adds a command to the program. */
export type AddCommand = (parent: Command, io: Io, done: Done) => void

/** Who does it, and why: for the audit. */
export interface ByOptions {
  readonly actor?: string
  readonly note?: string
}

/** Options of commands that change something. */
export interface ChangeOptions extends ByOptions {
  readonly dryRun?: true
  readonly json?: true
}

/** What the audit is told. */
export function byOf({ actor, note }: ByOptions): By {
  return { ...(actor !== undefined && { actor }), ...(note !== undefined && { note }) }
}

/** Adds how the database is found. */
export function withStore(command: Command): Command {
  return command
    .option('--store <url>', 'the database: sqlite:./file.db, postgres://… or mysql://…')
    .option('--config <file>', 'the configuration file (default: hapax.config.ts, .js or .mjs in this directory)')
    .option('--schema <name>', 'the schema of the tables on postgres (default: hapax)')
    .option('--prefix <name>', 'what the names of the tables begin with on mysql and sqlite (default: hapax_)')
    .option('--json', 'print JSON, for programs')
}

/** Adds what every change has: a trial run, and what the audit is told. */
export function withChange(command: Command): Command {
  return command
    .option('--dry-run', 'change nothing; say what would be done')
    .option('--note <text>', 'why, for the audit')
    .option('--actor <name>', 'who, for the audit (default: the user of the operating system)')
}

/** Adds from when to when. */
export function withAges(command: Command): Command {
  return command
    .option('--older-than <time>', 'only those from before, as 2h or 30d', age)
    .option('--newer-than <time>', 'only those since, as 2h or 30d', age)
}

/** Adds how to page through a list. */
export function withPages(command: Command): Command {
  return command
    .option('--limit <n>', 'how many', wholeNumber(1, 999), 50)
    .option('--before <seq>', 'the page that follows this one', pageStart)
}

/** The examples under a help text. */
export function examples(...lines: readonly string[]): string {
  return `\nExamples:\n${lines.map((each) => `  $ npx ${each}`).join('\n')}`
}

/** Reads a whole number. */
export function wholeNumber(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (/^\d+$/.test(text) && value >= least && value <= most) return value
    throw new InvalidArgumentError(`expected a whole number from ${least} to ${most}`)
  }
}

/** Reads how many in a second. */
export function rate(text: string): number {
  const value = Number(text)
  if (/^\d+(\.\d+)?$/.test(text) && value >= 0.001 && value <= 1_000_000) return value
  throw new InvalidArgumentError('expected how many in a second, as 20 or 0.5')
}

/** Reads a span of time, as milliseconds. */
export function duration(text: string): number {
  const ms = durationMs(text)
  if (ms !== undefined) return ms
  throw new InvalidArgumentError('expected a time like 30d, 12h, 15m, 90s or 500ms')
}

/** Reads a span of time that has bounds, which are shown as they would be typed. */
export function durationFrom(leastMs: number, mostMs: number): (text: string) => number {
  return (text) => {
    const ms = duration(text)
    if (ms >= leastMs && ms <= mostMs) return ms
    throw new InvalidArgumentError(`expected a time from ${durationText(leastMs)} to ${durationText(mostMs)}`)
  }
}

const age = durationFrom(1, MAX_SPAN_MS)
