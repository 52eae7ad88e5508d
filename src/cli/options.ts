import { type Command, InvalidArgumentError, Option } from 'commander'
import type { By } from '../admin/index.ts'
import { isDay, MAX_SPAN_MS } from '../base/index.ts'
import type { Origin } from '../contracts/index.ts'
import { durationMs, durationText } from './io/duration.ts'
import { CliError } from './io/errors.ts'
import type { Io } from './io/io.ts'
import { pageStart } from './seq.ts'

/** Receives the exit code of a command. */
export type Done = (exitCode: number) => void

/** Adds a command to the program. */
export type AddCommand = (parent: Command, io: Io, done: Done) => void

/** Who makes a change and why, for the audit. */
export interface ByOptions {
  readonly actor?: string
  readonly note?: string
}

/** Options of commands that change something. */
export interface ChangeOptions extends ByOptions {
  readonly dryRun?: true
  readonly json?: true
}

/** Adds the option by which a person confirms that the effects of a message were checked. */
export function withChecked(command: Command): Command {
  return command.option(
    '--effects-checked',
    "confirm that you checked the handler's effects: required for messages that failed as broken-atomicity",
  )
}

/** Options of commands that rerun failed messages. */
export interface CheckedOptions {
  readonly effectsChecked?: true
}

/** These options as the API takes them. */
export function checkedOf({ effectsChecked }: CheckedOptions): { readonly effectsChecked?: true } {
  return effectsChecked === undefined ? {} : { effectsChecked }
}

/** What the audit records. */
export function byOf({ actor, note }: ByOptions): By {
  return { ...(actor !== undefined && { actor }), ...(note !== undefined && { note }) }
}

/** Adds the options that select the database. */
export function withStore(command: Command): Command {
  return command
    .option('--store <url>', 'the database: sqlite:./file.db, postgres://… or mysql://…')
    .option('--config <file>', 'the configuration file (default: hapax.config.ts, .mts, .js or .mjs in this directory)')
    .option('--schema <name>', 'the schema of the tables on PostgreSQL (default: hapax)')
    .option('--prefix <name>', 'the prefix of the table names on MySQL and SQLite (default: hapax_)')
    .option('--json', 'print JSON instead of text')
}

/** Adds the options that every change has: a dry run, and what the audit records. */
export function withChange(command: Command): Command {
  return command
    .option('--dry-run', 'change nothing; print what would be done')
    .option('--note <text>', 'the reason, for the audit')
    .option('--actor <name>', 'who makes the change, for the audit (default: the operating system user)')
}

/** A consumer or a relay, as typed. */
export interface ScopeOptions {
  readonly consumer?: string
  readonly relay?: string
}

/** Adds the options that name a consumer or a relay. */
export function withScope(command: Command, what: 'only those of' | 'only what was done at'): Command {
  return command.option('--consumer <name>', `${what} this consumer`).option('--relay <name>', `${what} this relay`)
}

/** The origin as well as the name, because a consumer and a relay may have the same name. */
export function scopeOf({ consumer, relay }: ScopeOptions, origin?: Origin): { origin?: Origin; scope?: string } {
  if (consumer !== undefined && relay !== undefined) {
    throw new CliError('usage', 'expected --consumer or --relay, got both', [
      'for a consumer, write --consumer <name>; for a relay, --relay <name>',
    ])
  }
  const scope = consumer ?? relay
  if (scope === undefined) return origin === undefined ? {} : { origin }
  const named = relay === undefined ? 'inbox' : 'outbox'
  if (origin !== undefined && origin !== named) {
    const option = origin === 'inbox' ? '--consumer <name>' : '--relay <name>'
    throw new CliError('usage', `expected --origin ${named} or none, got ${origin}`, [`or write ${option}`])
  }
  return { origin: named, scope }
}

/** Adds the limits of age. */
export function withAges(command: Command): Command {
  return command
    .option('--older-than <time>', 'only those older than this, such as 2h or 30d', age)
    .option('--newer-than <time>', 'only those newer than this, such as 2h or 30d', age)
}

/** Adds the limits of time. */
export function withTimes(command: Command): Command {
  return command
    .option('--since <time>', 'only those since then, such as 2h (ago) or 2026-05-01T12:00Z', moment)
    .option('--until <time>', 'only those before then, such as 2h (ago) or 2026-05-01T12:00Z', moment)
}

/** Reads a time: a duration ago, or a date. Without a zone it is UTC. */
function moment(text: string): Date {
  const ms = durationMs(text)
  if (ms !== undefined) return new Date(Date.now() - ms)
  const [, day = '', time = '00:00', zone = 'Z'] = DATE.exec(text) ?? []
  const date = new Date(`${day}T${time}${zone}`)
  if (isDay(day) && Number.isFinite(date.getTime())) return date
  throw new InvalidArgumentError('expected a time ago like 2h or 30d, or a date like 2026-05-01 or 2026-05-01T12:00Z')
}

const DATE = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?)(Z|[+-]\d\d:\d\d)?)?$/

/** Adds the options that page through a list. */
export function withPages(command: Command): Command {
  return command
    .option('--limit <n>', 'how many to list', wholeNumber(1, 999), 50)
    .option('--before <seq>', 'list what comes after this message: the next page', pageStart)
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

/** Reads a rate per second. */
export function rate(text: string): number {
  const value = Number(text)
  if (/^\d+(\.\d+)?$/.test(text) && value >= 0.001 && value <= 1_000_000) return value
  throw new InvalidArgumentError('expected a rate per second, such as 20 or 0.5')
}

/** Reads a duration; returns milliseconds. */
export function duration(text: string): number {
  const ms = durationMs(text)
  if (ms !== undefined) return ms
  throw new InvalidArgumentError('expected a time like 30d, 12h, 15m, 90s or 500ms')
}

/** Reads a duration within bounds, which the error shows as they would be typed. */
export function durationFrom(leastMs: number, mostMs: number): (text: string) => number {
  return (text) => {
    const ms = duration(text)
    if (ms >= leastMs && ms <= mostMs) return ms
    throw new InvalidArgumentError(`expected a time from ${durationText(leastMs)} to ${durationText(mostMs)}`)
  }
}

/** An option with a duration, whose default the help shows as it would be typed. */
export function durationOption(
  flags: string,
  help: string,
  [leastMs, mostMs]: readonly [leastMs: number, mostMs: number],
  defaultMs: number,
): Option {
  return new Option(flags, help).argParser(durationFrom(leastMs, mostMs)).default(defaultMs, durationText(defaultMs))
}

const age = durationFrom(1, MAX_SPAN_MS)
