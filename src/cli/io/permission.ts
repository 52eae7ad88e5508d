import { CliError } from './errors.ts'
import type { Io } from './io.ts'

/** A bulk change needs a yes: of the command line, or of a person. */
export async function permission(io: Io, yes: boolean, what: string, question: string): Promise<void> {
  if (yes) return
  if (io.confirm === undefined) {
    throw new CliError('refused', `${what} needs --yes where nobody can be asked`, [
      'to see what would happen: --dry-run',
    ])
  }
  if (!(await io.confirm(question))) throw new CliError('refused', 'nothing was changed')
}
