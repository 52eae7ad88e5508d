// Projects as their own tools make them, for the tests of `hapax init`.
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { run } from './app.ts'

/** The packages of several projects, with the tools that make them: one installation. */
export const installations = {
  nest11: {
    '@nestjs/cli': '^11.0.0',
    '@nestjs/common': '^11.0.1',
    '@nestjs/core': '^11.0.1',
    '@nestjs/platform-express': '^11.0.1',
    '@nestjs/typeorm': '^11.0.0',
    '@types/express': '^5.0.0',
    '@types/node': '^24.0.0',
    pg: '^8.9.0',
    'reflect-metadata': '^0.2.2',
    rxjs: '^7.8.1',
    typeorm: '^0.3.20',
    typescript: '^5.7.3',
  },
  nest12: {
    '@nestjs/cli': '^12.0.0',
    '@nestjs/common': '^12.0.1',
    '@nestjs/core': '^12.0.1',
    '@nestjs/platform-express': '^12.0.1',
    '@types/express': '^5.0.0',
    '@types/node': '^24.0.0',
    '@types/pg': '^8.11.0',
    pg: '^8.9.0',
    'reflect-metadata': '^0.2.2',
    rxjs: '^7.8.1',
    typescript: '^6.0.2',
  },
  others: {
    '@fastify/autoload': '^6.0.0',
    '@fastify/sensible': '^6.0.0',
    '@hono/node-server': '^2.0.0',
    '@platformatic/kafka': '^2.12.1',
    '@prisma/adapter-pg': '^7.0.0',
    '@prisma/client': '^7.0.0',
    '@types/express': '^5.0.0',
    '@types/node': '^24.0.0',
    '@types/pg': '^8.11.0',
    '@types/react': '^19',
    'create-next-app': '^16.0.0',
    'drizzle-orm': '^0.45.0',
    express: '^5.0.0',
    fastify: '^5.0.0',
    'fastify-cli': '^8.0.2',
    'fastify-plugin': '^6.0.0',
    'fastify-tsconfig': '^3.0.0',
    hono: '^4.0.0',
    knex: '^3.0.0',
    next: '^16.0.0',
    pg: '^8.9.0',
    prisma: '^7.0.0',
    typescript: '^5.9.0',
    typescript7: 'npm:typescript@^7.0.0',
  },
} as const

/** Where a project is made, and how its tools are run there. */
interface Making {
  readonly directory: string
  /** Where the packages are. */
  readonly installed: string
  /** Runs a program of the installation in the project, or beside it. */
  tool(name: string, args: readonly string[], where?: string): Promise<string>
}

/** A project before and after `hapax init`. */
export interface Kind {
  readonly installation: keyof typeof installations
  make(making: Making): Promise<void>
  /** What its user writes after init has run. */
  complete(directory: string): void
  readonly build: readonly (readonly [tool: string, ...args: string[]])[]
  /** What Node.js runs; the first part is a program of the installation, or a file that was built. */
  readonly start: readonly [string, ...string[]]
  /** Whether the application applies the migration that init has written. */
  readonly migrates?: true
}

/** The projects, by what they are made of. */
export const kinds: Readonly<Record<string, Kind>> = {
  'Nest 11, CommonJS, TypeORM': {
    installation: 'nest11',
    make: async ({ directory, tool }) => {
      await tool('nest', ['new', 'shop', '--skip-install', '--skip-git', '--package-manager', 'npm'], '..')
      adds(directory, ['typeorm', '@nestjs/typeorm', 'pg'])
    },
    complete: (directory) => {
      const database = `TypeOrmModule.forRoot({
      type: 'postgres', url: process.env.DATABASE_URL, migrations: [__dirname + '/migrations/*.js'], migrationsRun: true,
    })`
      changed(directory, 'src/app.module.ts', [
        [/^/, `import { TypeOrmModule } from '@nestjs/typeorm';\nimport { MessagesModule } from './hapax.module';\n`],
        ['imports: []', `imports: [${database}, MessagesModule]`],
      ])
      changed(directory, 'src/main.ts', [
        [/^/, `import { Orders } from './hapax.module';\n`],
        [/(await app\.listen.*)/, `app.enableShutdownHooks();\n  $1\n  await app.get(Orders).place('A1', 1);`],
      ])
    },
    build: [['nest', 'build']],
    start: ['dist/main.js'],
    migrates: true,
  },
  'Nest 12, ES modules, pg': {
    installation: 'nest12',
    make: async ({ directory, tool }) => {
      await tool('nest', ['new', 'shop', '--skip-install', '--skip-git', '--package-manager', 'npm'], '..')
      // Vitest is not installed here.
      changed(directory, 'tsconfig.json', [['"vitest/globals", ', '']])
      adds(directory, ['pg'])
    },
    complete: (directory) => {
      changed(directory, 'src/app.module.ts', [
        [/^/, `import { MessagesModule } from './hapax.module.js';\n`],
        ['imports: []', 'imports: [MessagesModule]'],
      ])
      changed(directory, 'src/main.ts', [
        [/^/, `import { placeOrder } from './hapax.js';\n`],
        [/(await app\.listen.*)/, `app.enableShutdownHooks();\n  $1\n  await placeOrder('A1', 1);`],
      ])
    },
    build: [['nest', 'build']],
    start: ['dist/main.js'],
  },
  'Express, Prisma 7': {
    installation: 'others',
    make: async ({ directory, installed, tool }) => {
      await npmInit(directory, 'module')
      await tool('typescript7', ['--init', '--rootDir', 'src', '--outDir', 'dist'])
      // Its own options refuse the configuration that Prisma writes into the root.
      changed(directory, 'tsconfig.json', [['{', '{ "include": ["src"],']])
      usesTypeScript7(directory, installed)
      adds(directory, [
        'express',
        '@prisma/client',
        '@prisma/adapter-pg',
        'pg',
        'typescript',
        '@types/node',
        '@types/pg',
      ])
      await tool('prisma', ['init', '--datasource-provider', 'postgresql'])
      writes(directory, 'src/index.ts', expressServer(''))
    },
    complete: (directory) => writes(directory, 'src/index.ts', expressServer('./hapax.js')),
    build: [['prisma', 'generate'], ['typescript7']],
    start: ['dist/index.js'],
  },
  'Next, Prisma 7': {
    installation: 'others',
    make: async ({ directory, tool }) => {
      const options = ['--ts', '--api', '--skip-install', '--disable-git', '--use-npm', '--yes']
      await tool('create-next-app', ['shop', ...options], '..')
      adds(directory, ['@prisma/client', '@prisma/adapter-pg', 'prisma', 'pg'])
      await tool('prisma', ['init', '--datasource-provider', 'postgresql'])
    },
    complete: (directory) =>
      writes(
        directory,
        'instrumentation.ts',
        `export async function register() {
  if (process.env.NEXT_RUNTIME !== 'nodejs') return
  const { placeOrder, worker } = await import('./lib/hapax')
  await worker.start()
  await placeOrder('A1', 1)
}
`,
      ),
    build: [
      ['prisma', 'generate'],
      ['next', 'build'],
    ],
    start: ['next', 'start', '--port', '0'],
  },
  'Fastify, Drizzle, Kafka': {
    installation: 'others',
    make: async ({ directory, installed, tool }) => {
      await tool('fastify', ['generate', 'shop', '--lang=ts'], '..')
      // Since TypeScript 6 its build fails without this.
      changed(directory, 'tsconfig.json', [['"outDir": "dist"', '"outDir": "dist", "rootDir": "src"']])
      adds(directory, ['drizzle-orm', 'pg', '@platformatic/kafka', '@types/pg'])
      usesTypeScript7(directory, installed)
    },
    complete: (directory) =>
      writes(
        directory,
        'src/plugins/messages.ts',
        `import fp from 'fastify-plugin'
import { placeOrder, worker } from '../hapax'

export default fp(async (fastify) => {
  fastify.addHook('onReady', async () => {
    await worker.start()
    await placeOrder('A1', 1)
  })
  fastify.addHook('onClose', () => worker.stop())
})
`,
      ),
    build: [['typescript7']],
    start: ['fastify', 'start', '--port', '0', 'dist/app.js'],
  },
  'Hono, pg': {
    installation: 'others',
    make: async ({ directory }) => {
      // What create-hono writes for Node.js; it downloads that from GitHub.
      mkdirSync(directory)
      const manifest = { name: 'shop', type: 'module', scripts: { build: 'tsc', start: 'node dist/index.js' } }
      writes(directory, 'package.json', JSON.stringify(manifest))
      const compilerOptions = {
        target: 'ESNext',
        module: 'NodeNext',
        strict: true,
        verbatimModuleSyntax: true,
        skipLibCheck: true,
        types: ['node'],
        jsx: 'react-jsx',
        jsxImportSource: 'hono/jsx',
        outDir: './dist',
      }
      writes(directory, 'tsconfig.json', JSON.stringify({ compilerOptions, exclude: ['node_modules'] }))
      writes(directory, 'src/index.ts', honoServer(''))
      adds(directory, ['hono', '@hono/node-server', 'pg', '@types/node', '@types/pg', 'typescript'])
    },
    complete: (directory) => writes(directory, 'src/index.ts', honoServer('./hapax.js')),
    build: [['tsc']],
    start: ['dist/index.js'],
  },
  'Express, Knex, CommonJS': {
    installation: 'others',
    make: async ({ directory, tool }) => {
      await npmInit(directory, 'commonjs')
      const module = ['--module', 'commonjs', '--moduleResolution', 'node10', '--esModuleInterop']
      const options = [...module, '--verbatimModuleSyntax', 'false', '--target', 'es2022', '--outDir', 'dist']
      await tool('tsc', ['--init', ...options])
      await tool('knex', ['init'])
      writes(directory, 'src/index.ts', expressServer(''))
      adds(directory, ['express', 'knex', 'pg', 'typescript', '@types/express', '@types/node'])
    },
    complete: (directory) => writes(directory, 'src/index.ts', expressServer('./hapax')),
    build: [['tsc']],
    start: ['dist/index.js'],
  },
}

async function npmInit(directory: string, type: string): Promise<void> {
  mkdirSync(directory)
  for (const args of [
    ['init', '-y'],
    ['pkg', 'set', `type=${type}`],
  ]) {
    const { code, stderr } = await run('npm', args, { cwd: directory })
    if (code !== 0) throw new Error(`npm ${args.join(' ')} failed:\n${stderr}`)
  }
}

/** Names packages, which are installed further up, as `npm install` would. */
function adds(directory: string, packages: readonly string[]): void {
  const file = join(directory, 'package.json')
  const manifest = JSON.parse(readFileSync(file, 'utf8'))
  const added = Object.fromEntries(packages.map((name) => [name, '*']))
  writeFileSync(file, JSON.stringify({ ...manifest, dependencies: { ...manifest.dependencies, ...added } }))
}

/** The compiler of the project, of which init looks for the version; Next needs an older one. */
function usesTypeScript7(directory: string, installed: string): void {
  const folder = join(directory, 'node_modules', 'typescript')
  mkdirSync(folder, { recursive: true })
  copyFileSync(join(installed, 'node_modules', 'typescript7', 'package.json'), join(folder, 'package.json'))
}

function writes(directory: string, file: string, text: string): void {
  mkdirSync(join(directory, file, '..'), { recursive: true })
  writeFileSync(join(directory, file), text)
}

function changed(directory: string, file: string, changes: readonly (readonly [string | RegExp, string])[]): void {
  const text = readFileSync(join(directory, file), 'utf8')
  const made = changes.reduce((all, [from, to]) => {
    const next = all.replace(from, to)
    if (next === all) throw new Error(`${file} has no ${String(from)}:\n${all}`)
    return next
  }, text)
  rmSync(join(directory, file))
  writeFileSync(join(directory, file), made)
}

/** A server as its users write it, without hapax and with it. */
function expressServer(hapax: string): string {
  const server = `const server = express().get('/', (_, response) => { response.send('hello') }).listen(0, `
  if (hapax === '') return `import express from 'express'\n${server}() => console.log('listening', server.listening))\n`
  return `import express from 'express'
import { hapax, placeOrder, worker } from '${hapax}'

async function main(): Promise<void> {
  await worker.start()
  ${server}() => console.log('listening', server.listening))
  await placeOrder('A1', 1)
  process.once('SIGTERM', async () => {
    await worker.stop()
    await hapax.close()
    process.exit(0)
  })
}
void main()
`
}

function honoServer(hapax: string): string {
  const server = `import { serve } from '@hono/node-server'
import { Hono } from 'hono'
${hapax === '' ? '' : `import { placeOrder, worker } from '${hapax}'\n`}
const app = new Hono()
app.get('/', (c) => c.text('Hello Hono!'))

serve({ fetch: app.fetch, port: 0 }, (info) => {
  console.log(\`Server is running on http://localhost:\${info.port}\`)
})
`
  return hapax === '' ? server : `${server}await worker.start()\nawait placeOrder('A1', 1)\n`
}
