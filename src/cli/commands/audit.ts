import { Option } from 'commander'
import { AUDIT_ACTIONS } from '../../admin/index.ts'
import { safe, shellWord } from '../../base/index.ts'
import type { AuditEntry, Numbered } from '../../contracts/index.ts'
import type { AuditQuery } from '../../index.ts'
import { type Io, json, line } from '../io/io.ts'
import { type Cell, type Column, table } from '../io/table.ts'
import { when } from '../io/text.ts'
import {
  type AddCommand,
  examples,
  type ScopeOptions,
  scopeOf,
  withPages,
  withScope,
  withStore,
  withTimes,
} from '../options.ts'
import { command, type StoreOptions, withHapax } from '../store.ts'

interface AuditOptions extends StoreOptions, ScopeOptions {
  readonly actor?: string
  readonly action?: AuditEntry['action']
  readonly since?: Date
  readonly until?: Date
  readonly limit: number
  readonly before?: string
  readonly json?: true
}

/** Adds `hapax audit`. */
export const addAudit: AddCommand = (root, io, done) => {
  const audit = root
    .command('audit')
    .description('Shows the audit: what people changed by hand.')
    .addHelpText('after', examples('hapax audit list --since 1d'))
  withScope(withStore(withPages(withTimes(audit.command('list')))), 'only what was done at')
    .description('Lists what people changed by hand: who, when, what and why. Newest first.')
    .option('--actor <name>', 'only what this person did')
    .addOption(new Option('--action <action>', 'only actions of this kind').choices(AUDIT_ACTIONS))
    .addHelpText(
      'after',
      examples('hapax audit list --since 1d', 'hapax audit list --actor ada --action discard --json'),
    )
    .action(async (options) => done(await auditList(options, io)))
}

async function auditList(options: AuditOptions, io: Io): Promise<number> {
  const { actor, action, since, until, limit, before } = options
  const query: AuditQuery = {
    ...{ actor, action, ...scopeOf(options), since, until, limit },
    ...(before !== undefined && { before }),
  }
  const found = await withHapax(options, io, (hapax) => hapax.audit.list(query))
  if (options.json) json(io, { entries: found.rows, before: found.before ?? null })
  else tell(found, options, io)
  return 0
}

const COLUMNS: readonly Column[] = [
  { title: 'at (UTC)' },
  { title: 'who', shrinkTo: 6 },
  { title: 'action' },
  { title: 'of', shrinkTo: 8 },
  { title: 'type', shrinkTo: 8 },
  { title: 'id', shrinkTo: 8 },
  { title: 'note', shrinkTo: 8 },
]

function cells({ at, actor, action, scope, type, id, note }: AuditEntry): readonly Cell[] {
  return [when(at).slice(0, 19), safe(actor), safe(action), ...[scope, type, id, note].map((each) => safe(each ?? '-'))]
}

function tell({ rows, before }: Numbered<AuditEntry>, options: AuditOptions, io: Io): void {
  if (rows.length === 0) line(io, 'none found')
  else table(io, COLUMNS, rows.map(cells))
  if (before === undefined) return
  line(io)
  const words = `audit list ${filterWords(options)}--limit ${options.limit} --before ${before}`
  line(io, `next page: ${command(words, options)}`)
}

function filterWords({ actor, action, consumer, relay, since, until }: AuditOptions): string {
  const values = { actor, action, consumer, relay, since: since?.toISOString(), until: until?.toISOString() }
  const words = Object.entries(values).map(([name, value]) =>
    value === undefined ? '' : `--${name} ${shellWord(safe(value))} `,
  )
  return words.join('')
}
