// Generates the Prisma clients that tests use, one for each database: `npm run check` and the tests themselves do it when they are missing.
import { spawnSync } from 'node:child_process'
import { createHash, randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

const PROVIDERS = ['postgresql', 'mysql', 'sqlite'] as const

const generated = join(import.meta.dirname, 'generated')
const { resolve } = createRequire(import.meta.url)

/** What is in `generated`, if it is complete: the version of Prisma and the schemas that it was made from. */
function stamp(): string {
  const manifest = readFileSync(resolve('prisma/package.json'))
  const hash = createHash('sha256').update(manifest)
  for (const provider of PROVIDERS) hash.update(schemaOf(provider))
  return hash.digest('hex')
}

function schemaOf(provider: string): string {
  return `generator client {
  provider               = "prisma-client"
  output                 = "./${provider}"
  runtime                = "nodejs"
  moduleFormat           = "esm"
  generatedFileExtension = "ts"
  importFileExtension    = "ts"
}

datasource db {
  provider = "${provider}"
}

model Order {
  id    String      @id
  total BigInt      @default(0)
  lines OrderLine[]

  @@map("prisma_orders")
}

model OrderLine {
  id      String @id
  orderId String
  order   Order  @relation(fields: [orderId], references: [id])

  @@map("prisma_order_lines")
}
`
}

/** Generates what is missing. Each process makes its own, and one of them is kept. */
export function generate(): void {
  const current = stamp()
  const file = join(generated, 'stamp')
  if (existsSync(file) && readFileSync(file, 'utf8') === current) return
  const made = `${generated}-${randomUUID()}`
  for (const provider of PROVIDERS) generateOne(provider, made)
  writeFileSync(join(made, 'stamp'), current)
  rmSync(generated, { recursive: true, force: true })
  try {
    renameSync(made, generated)
  } catch (error) {
    rmSync(made, { recursive: true, force: true })
    if (!existsSync(file)) throw error
  }
}

function generateOne(provider: string, folder: string): void {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, `${provider}.prisma`), schemaOf(provider))
  generateFrom(join(folder, `${provider}.prisma`))
}

/** Generates the client of examples/apps/fastify-prisma, unless its schema is the same as before. */
export function generateExample(): void {
  const folder = join(import.meta.dirname, '..', '..', '..', 'examples', 'apps', 'fastify-prisma')
  const schema = join(folder, 'schema.prisma')
  const current = createHash('sha256').update(stamp()).update(readFileSync(schema)).digest('hex')
  const file = join(folder, 'generated', 'stamp')
  if (existsSync(file) && readFileSync(file, 'utf8') === current) return
  generateFrom(schema)
  writeFileSync(file, current)
}

function generateFrom(schema: string): void {
  const cli = join(dirname(resolve('prisma/package.json')), 'build', 'index.js')
  // Nothing is migrated: any program will do as the engine for that, which would be downloaded otherwise.
  const env = { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: '1' }
  const { status, stdout, stderr } = spawnSync(process.execPath, [cli, 'generate', '--schema', schema], {
    cwd: dirname(schema),
    env,
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`prisma generate failed:\n${stdout}${stderr}`)
}

if (import.meta.main) {
  generate()
  generateExample()
}
