import type { MigrationSql } from '../contracts/index.ts'

/** The forms in which migrations are printed. A tool with a form of its own becomes one more entry here. */
const FORMATS = {
  sql: {
    help: 'plain statements, for a tool that opens the transaction itself',
    text: ({ statements }: MigrationSql): string => joined(statements.map((text) => `${text};\n`)),
  },
  client: {
    help: 'a script for psql, mysql or sqlite3 that includes the transaction',
    text: ({ statements, before, after, delimiter }: MigrationSql): string =>
      joined([...before, ...statements, ...after].map((text) => ended(text, delimiter))),
  },
} as const

/** A format that `hapax migrate --format` accepts. */
export type Format = keyof typeof FORMATS

/** The names of the formats. */
export const FORMAT_NAMES: readonly string[] = Object.keys(FORMATS)

/** The formats with their meanings, for the help text. */
export const FORMATS_HELP: string = Object.entries(FORMATS)
  .map(([name, { help }]) => `${name}: ${help}`)
  .join('; ')

/** The text of migrations; empty if there are none. */
export function formatted(sql: MigrationSql, format: Format): string {
  return sql.statements.length === 0 ? '' : FORMATS[format].text(sql)
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
