import { safe } from '../../base/index.ts'
import type { Finding } from '../../contracts/index.ts'
import { type Io, json, line, paint } from '../io/io.ts'
import { plural, widthOf } from '../io/text.ts'
import { type AddCommand, examples, withStore } from '../options.ts'
import { type StoreOptions, withEitherState } from '../store.ts'

/** Adds `hapax doctor`. */
export const addDoctor: AddCommand = (root, io, done) => {
  withStore(root.command('doctor'))
    .description('Looks for what is wrong with the database, the workers and what waits, and says what to do.')
    .addHelpText(
      'after',
      `\nExit code 1 if there is an error; warnings alone are no failure.\n${examples('hapax doctor', 'hapax doctor --json')}`,
    )
    .action(async (options) => done(await doctor(options, io)))
}

const STYLES = { ok: 'green', warning: 'yellow', error: 'red' } as const

async function doctor(options: StoreOptions & { json?: true }, io: Io): Promise<number> {
  const findings = await withEitherState(options, io, (hapax) => hapax.doctor())
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
