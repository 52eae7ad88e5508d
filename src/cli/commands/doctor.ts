// Prints the findings of `hapax.doctor()`. It runs whatever state the tables are in, because a missing migration is a finding too.

import { asError, MAX_SPAN_MS, messageOf, safe } from '../../base/index.ts'
import type { Finding } from '../../contracts/index.ts'
import { CliError } from '../io/errors.ts'
import { type Io, json, line, paint } from '../io/io.ts'
import { plural, widthOf } from '../io/text.ts'
import { type AddCommand, durationFrom, examples, wholeNumber, withStore } from '../options.ts'
import { type StoreOptions, withEitherState } from '../store.ts'

/** Adds `hapax doctor`. */
export const addDoctor: AddCommand = (root, io, done) => {
  withStore(root.command('doctor'))
    .description('Checks the database, the workers and the backlog, and says what to do about problems.')
    .option('--max-rows <table=rows...>', 'warn of a table with more rows, such as receipts=50000000')
    .option('--max-age <table=time...>', 'warn of a table with older rows, such as failed=30d')
    .addHelpText(
      'after',
      `
Exits with 1 if there is an error; warnings alone are not a failure.
Tables that can have limits: inbox, outbox, failed, receipts, effects (rows
only), responses, sent, audit. The rows of large tables are estimated, not
counted.
${examples('hapax doctor', 'hapax doctor --max-rows inbox=5000 --max-age inbox=1h failed=7d', 'hapax doctor --json')}`,
    )
    .action(async (options) => done(await doctor(options, io)))
}

/** Options of `hapax doctor`. */
interface Options extends StoreOptions {
  readonly maxRows?: readonly string[]
  readonly maxAge?: readonly string[]
  readonly json?: true
}

/** Parses limits such as `failed=30d`. `doctor` itself checks the names of the tables. */
function limitsOf(option: string, given: readonly string[] = [], read: (text: string) => number) {
  return Object.fromEntries(
    given.map((each) => {
      const [, table, value] = /^(\w+)=(.+)$/.exec(each) ?? []
      if (table === undefined || value === undefined) {
        throw new CliError(
          'usage',
          `expected ${option} to be a table and its limit, such as failed=…, got ${safe(each)}`,
        )
      }
      return [table, readValue(option, value, read)]
    }),
  )
}

function readValue(option: string, value: string, read: (text: string) => number): number {
  try {
    return read(value)
  } catch (error) {
    throw new CliError('usage', `${messageOf(asError(error))} for ${option}, got ${safe(value)}`)
  }
}

const STYLES = { ok: 'green', warning: 'yellow', error: 'red' } as const

async function doctor(options: Options, io: Io): Promise<number> {
  const limits = {
    maxRows: limitsOf('--max-rows', options.maxRows, wholeNumber(1, 1e15)),
    maxAgeMs: limitsOf('--max-age', options.maxAge, durationFrom(1, MAX_SPAN_MS)),
  }
  const findings = await withEitherState(options, io, (hapax) => hapax.doctor(limits))
  const errors = findings.filter(({ level }) => level === 'error').length
  if (options.json) json(io, { ok: errors === 0, findings })
  else tell(findings, errors, io)
  return errors === 0 ? 0 : 1
}

function tell(findings: readonly Finding[], errors: number, io: Io): void {
  const width = Math.max(...findings.map(({ check }) => widthOf(safe(check))))
  for (const { check, level, message, advice } of findings) {
    const mark = paint(io, STYLES[level], level.padEnd('warning'.length))
    const name = safe(check)
    line(io, `${mark}  ${name}${' '.repeat(width - widthOf(name))}  ${safe(message)}`)
    if (advice !== '') line(io, `${' '.repeat('warning'.length + 2 + width + 2)}${paint(io, 'dim', safe(advice))}`)
  }
  const warnings = findings.filter(({ level }) => level === 'warning').length
  line(io)
  line(io, errors + warnings === 0 ? 'all is well' : `${plural(errors, 'error')}, ${plural(warnings, 'warning')}`)
}
