import type { MigrationSql } from '../contracts/index.ts'

/** How migrations are written down. A tool with a form of its own becomes one more entry here. */
const FORMATS = {
  sql: {
    help: 'plain statements, for a tool that brings the transaction',
    text: ({ statements }: MigrationSql): string => joined(statements.map((text) => `${text};\n`)),
  },
  client: {
    help: 'a script for psql, mysql or sqlite3, with its transaction',
    text: ({ statements, before, after, delimiter }: MigrationSql): string =>
      joined([...before, ...statements, ...after].map((text) => ended(text, delimiter))),
  },
} as const

export type Format = keyof typeof FORMATS

/** The formats by name, and in a sentence. */
export const FORMAT_NAMES: readonly string[] = Object.keys(FORMATS)
export const FORMATS_HELP: string = Object.entries(FORMATS)
  .map(([name, { help }]) => `${name}: ${help}`)
  .join('; ')

/** The text of migrations; empty if there are none. */
export function formatted(sql: MigrationSql, format: Format): string {
  return sql.statements.length === 0 ? '' : FORMATS[format].text(sql)
}

/** An empty line between two statements; no statement has one inside. */
function joined(statements: readonly string[]): string {
  return statements.join('\n')
}

function ended(text: string, delimiter: string | undefined): string {
  if (delimiter === undefined || !text.includes(';')) return `${text};\n`
  return `delimiter ${delimiter}\n${text}${delimiter}\ndelimiter ;\n`
}
