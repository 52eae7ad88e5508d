import { existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { asError, fieldOf, messageOf } from '../../base/index.ts'
import { CliError } from '../io/errors.ts'
import { installedVersion } from '../project.ts'
import { type Format, formatted, type Printed, pathOf } from './formats.ts'

/** A file to write, below the current directory. */
export interface FileToWrite {
  readonly path: string
  readonly text: string
}

/** The files of a migration in the tool's folder. */
export function migrationFiles(printed: Printed, format: Format, folder: string, cwd: string): FileToWrite[] {
  const text = formatted(printed, format)
  if (format === 'drizzle' && keepsJournal(resolve(cwd, folder), cwd)) return journalled(printed, text, folder, cwd)
  return [{ path: join(folder, pathOf(printed, format)), text }]
}

/** Writes files that do not exist yet, or whose change is part of writing them. */
export function writeFiles(files: readonly FileToWrite[], cwd: string): void {
  for (const { path, text } of files) {
    const file = resolve(cwd, path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
  }
}

/**
 * The file in which these migrations are already, if there is one: a second copy would fail at the tables of the first. They are
 * told by their checksums, because files get other names.
 */
export function existingMigration(checksums: readonly string[], folder: string, cwd: string): string | undefined {
  const directory = resolve(cwd, folder)
  if (!existsSync(directory)) return undefined
  const files = globSync(['*.{sql,ts,js,mjs,cjs}', '*/migration.sql'], { cwd: directory }).sort()
  const found = files.find((name) => {
    const text = readFileSync(join(directory, name), 'utf8')
    return checksums.every((checksum) => text.includes(checksum))
  })
  return found === undefined ? undefined : join(folder, found)
}

/** Until 1.0, drizzle-kit lists its migrations in a journal; since then each has a folder. */
function keepsJournal(folder: string, cwd: string): boolean {
  if (existsSync(join(folder, 'meta', '_journal.json'))) return true
  if (existsSync(folder) && globSync('*/migration.sql', { cwd: folder }).length > 0) return false
  return /^0\./.test(installedVersion(cwd, 'drizzle-orm') ?? '0.')
}

interface Journal {
  readonly entries: readonly object[]
}

/** A file and its entry in the journal. drizzle-kit compares the schema with its last snapshot, which stays as it is. */
function journalled({ at, database }: Printed, text: string, folder: string, cwd: string): FileToWrite[] {
  const path = join(folder, 'meta', '_journal.json')
  const journal = journalOf(resolve(cwd, path), relative(cwd, resolve(cwd, path)), database)
  const last = journal.entries.at(-1)
  const [index, when] = [Number(fieldOf(last, 'idx') ?? -1) + 1, Number(fieldOf(last, 'when') ?? 0) + 1]
  const tag = `${String(index).padStart(4, '0')}_hapax`
  // Drizzle applies what is newer than the newest that the database has.
  const entry = { idx: index, version: '7', when: Math.max(at.getTime(), when), tag, breakpoints: true }
  const entries = [...journal.entries, entry]
  return [
    { path: join(folder, `${tag}.sql`), text },
    { path, text: `${JSON.stringify({ ...journal, entries }, undefined, 2)}\n` },
  ]
}

function journalOf(file: string, name: string, database: string): Journal {
  if (!existsSync(file)) return Object.assign({ version: '7', dialect: dialects[database] }, { entries: [] })
  const what = `expected ${name} to be a journal of drizzle-kit`
  try {
    const journal: unknown = JSON.parse(readFileSync(file, 'utf8'))
    if (isJournal(journal)) return journal
  } catch (error) {
    throw new CliError('config', `${what}: ${messageOf(asError(error))}`)
  }
  throw new CliError('config', what)
}

const dialects: Readonly<Record<string, string>> = { postgres: 'postgresql', mysql: 'mysql', sqlite: 'sqlite' }

function isJournal(value: unknown): value is Journal {
  return Array.isArray(fieldOf(value, 'entries'))
}
