import type { MigrationSql } from '../../contracts/index.ts'
import type { Language } from '../project.ts'
import { knexModule, kyselyModule, mikroOrmModule, typeormModule } from './modules.ts'
import { stamp } from './stamp.ts'

/** What a format makes text from. */
export interface Printed {
  readonly sql: MigrationSql
  /** The database: postgres, mysql or sqlite. */
  readonly database: string
  /** When it is printed: some tools order migrations by it, and name classes after it. */
  readonly at: Date
  readonly language: Language
}

interface FormatOf {
  readonly help: string
  text(printed: Printed): string
  /** The file below the tool's folder of migrations. */
  path(printed: Omit<Printed, 'sql'>): string
}

/** A format that `hapax migrate --format` accepts. */
export type Format = 'sql' | 'client' | 'drizzle' | 'prisma' | 'kysely' | 'typeorm' | 'knex' | 'mikro-orm'

/** The forms in which migrations are printed. A tool with a form of its own becomes one more entry here. */
const FORMATS: Readonly<Record<Format, FormatOf>> = {
  sql: {
    help: 'plain statements, for a tool that opens the transaction itself',
    text: ({ sql }) => joined(sql.statements.map((text) => `${text};\n`)),
    path: ({ at }) => `${stamp(at)}_hapax.sql`,
  },
  client: {
    help: 'a script for psql, mysql or sqlite3 that includes the transaction',
    text: ({ sql: { statements, before, after, delimiter } }) =>
      joined([...before, ...statements, ...after].map((text) => ended(text, delimiter))),
    path: ({ at }) => `${stamp(at)}_hapax.sql`,
  },
  drizzle: {
    help: 'a custom migration of drizzle-kit',
    text: ({ sql }) => sql.statements.map((text) => `${text};\n`).join('--> statement-breakpoint\n'),
    path: ({ at }) => `${stamp(at)}_hapax/migration.sql`,
  },
  prisma: {
    help: 'a migration.sql of Prisma',
    text: ({ sql }) => joined(sql.statements.map((text) => `${text};\n`)),
    path: ({ at }) => `${stamp(at)}_hapax/migration.sql`,
  },
  kysely: {
    help: 'a module with up and down',
    text: kyselyModule,
    path: ({ at, language }) => `${stamp(at)}_hapax.${extension(language)}`,
  },
  typeorm: {
    help: 'a migration class',
    text: typeormModule,
    path: ({ at, language }) => `${at.getTime()}-Hapax.${extension(language)}`,
  },
  knex: {
    help: 'a module with up and down',
    text: knexModule,
    path: ({ at, language }) => `${stamp(at)}_hapax.${extension(language)}`,
  },
  'mikro-orm': {
    help: 'a migration class',
    text: mikroOrmModule,
    path: ({ at, language }) => `Migration${stamp(at)}_hapax.${extension(language)}`,
  },
}

/** The names of the formats. */
export const FORMAT_NAMES: readonly string[] = Object.keys(FORMATS)

/** The formats with their meanings, for the help text. */
export const FORMATS_HELP: string = Object.entries(FORMATS)
  .map(([name, { help }]) => `${name}: ${help}`)
  .join('; ')

/** The text of migrations; empty if there are none. */
export function formatted(printed: Printed, format: Format): string {
  return printed.sql.statements.length === 0 ? '' : FORMATS[format].text(printed)
}

/** The file of a migration, below the tool's folder of migrations. */
export function pathOf(printed: Omit<Printed, 'sql'>, format: Format): string {
  return FORMATS[format].path(printed)
}

function extension(language: Language): string {
  return language === 'ts' ? 'ts' : 'js'
}

/** Statements are separated by an empty line; no statement contains one. */
function joined(statements: readonly string[]): string {
  return statements.join('\n')
}

/** A statement that contains semicolons, such as a trigger, needs another delimiter in the mysql client. */
function ended(text: string, delimiter: string | undefined): string {
  if (delimiter === undefined || !text.includes(';')) return `${text};\n`
  return `delimiter ${delimiter}\n${text}${delimiter}\ndelimiter ;\n`
}
