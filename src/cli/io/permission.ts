import { CliError } from './errors.ts'
import type { Io } from './io.ts'

/** Asks for confirmation of a change, unless --yes was given. Throws `refused` without it; `look` is the option that only shows it. */
export async function permission(
  io: Io,
  yes: boolean,
  what: string,
  question: string,
  look = '--dry-run',
): Promise<void> {
  if (yes) return
  if (io.confirm === undefined) {
    throw new CliError('refused', `${what} needs --yes when there is no terminal`, [
      `to see what would happen: ${look}`,
    ])
  }
  if (!(await io.confirm(question))) throw new CliError('refused', 'nothing was changed')
}
