// Migrations as source files. Each statement is sent by itself: not every driver takes several at once.

import type { Printed } from './formats.ts'
import { stamp } from './stamp.ts'

/** A module for Kysely's `Migrator`. */
export function kyselyModule(printed: Printed): string {
  const each = 'await sql.raw(statement).execute(db)'
  return text(printed, [
    {
      ts: `import { type Kysely, sql } from 'kysely'`,
      esm: `import { sql } from 'kysely'`,
      cjs: `const { sql } = require('kysely')`,
    }[printed.language],
    ...functions(printed, 'db', 'Kysely<unknown>', each),
  ])
}

/** A module for Knex. It takes `?` for a parameter, on PostgreSQL also where there are none. */
export function knexModule(printed: Printed): string {
  const escaped = (statement: string): string =>
    printed.database === 'postgres' ? statement.replaceAll('?', '\\?') : statement
  const { statements, undo } = printed.sql
  const sql = { ...printed.sql, statements: statements.map(escaped), undo: undo.map(escaped) }
  const lines = functions(printed, 'knex', 'Knex', 'await knex.raw(statement)')
  return text({ ...printed, sql }, [
    ...(printed.language === 'ts' ? [`import type { Knex } from 'knex'`] : []),
    ...lines,
  ])
}

/** A class for TypeORM, which orders migrations by the number in the name. */
export function typeormModule(printed: Printed): string {
  const { language, at } = printed
  const name = `Hapax${at.getTime()}`
  const each = 'await queryRunner.query(statement)'
  const head = language === 'ts' ? `class ${name} implements MigrationInterface {` : `class ${name} {`
  return text(printed, [
    ...(language === 'ts' ? [`import type { MigrationInterface, QueryRunner } from 'typeorm'`] : []),
    [
      exported(language, name, head),
      `  name = '${name}'`,
      '',
      ...method(printed, 'up', language === 'ts' ? 'queryRunner: QueryRunner' : 'queryRunner', each),
      '',
      ...method(printed, 'down', language === 'ts' ? 'queryRunner: QueryRunner' : 'queryRunner', each),
      '}',
    ].join('\n'),
  ])
}

/** A class for MikroORM, which orders migrations by name. */
export function mikroOrmModule(printed: Printed): string {
  const { language, at } = printed
  const name = `Migration${stamp(at)}_hapax`
  const override = language === 'ts' ? 'override ' : ''
  return text(printed, [
    language === 'cjs'
      ? `const { Migration } = require('@mikro-orm/migrations')`
      : `import { Migration } from '@mikro-orm/migrations'`,
    [
      exported(language, name, `class ${name} extends Migration {`),
      ...method(printed, 'up', '', 'this.addSql(statement)', override),
      '',
      ...method(printed, 'down', '', 'this.addSql(statement)', override),
      '}',
    ].join('\n'),
  ])
}

type Direction = 'up' | 'down'

/** `export class …`; a class expression where modules have no `export`. */
function exported(language: Printed['language'], name: string, head: string): string {
  return language === 'cjs' ? `exports.${name} = ${head}` : `export ${head}`
}

function functions(printed: Printed, param: string, type: string, each: string): string[] {
  return (['up', 'down'] as const).map((direction) => {
    const head = {
      ts: `export async function ${direction}(${param}: ${type}): Promise<void> {`,
      esm: `export async function ${direction}(${param}) {`,
      cjs: `exports.${direction} = async (${param}) => {`,
    }[printed.language]
    return [head, `  ${loop(printed, direction, each)}`, '}'].join('\n')
  })
}

function method(printed: Printed, direction: Direction, param: string, each: string, before = ''): string[] {
  const returns = printed.language === 'ts' ? ': Promise<void>' : ''
  return [`  ${before}async ${direction}(${param})${returns} {`, `    ${loop(printed, direction, each)}`, '  }']
}

function loop({ sql }: Printed, direction: Direction, each: string): string {
  if (direction === 'down' && sql.undo.length === 0) return `throw new Error('this step cannot be taken back')`
  return `for (const statement of ${direction === 'up' ? 'UP' : 'DOWN'}) ${each}`
}

/** The parts of a module and the statements, which come last: they are long. */
function text({ sql }: Printed, parts: readonly string[]): string {
  const lists = [list('UP', sql.statements), ...(sql.undo.length === 0 ? [] : [list('DOWN', sql.undo)])]
  return `// Made by hapax migrate --print.\n\n${[...parts, ...lists].join('\n\n')}\n`
}

function list(name: string, statements: readonly string[]): string {
  return `const ${name} = [\n${statements.map((each) => `  ${literal(each)},\n`).join('')}]`
}

/** A statement as a template literal, which keeps its lines. */
function literal(statement: string): string {
  return `\`${statement.replaceAll(/[\\`]|\$(?=\{)/g, (found) => `\\${found}`)}\``
}
