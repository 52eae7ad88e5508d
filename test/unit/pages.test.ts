import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { createHapax, defineMessage, HapaxError } from 'hapax'
import { memory } from 'hapax/memory'
import { toNode } from 'hapax/node'
import { hmac, shopify, slack, standardWebhooks, stripe, twilio, webhook, webhooks } from 'hapax/webhooks'
import { beforeAll, describe, expect, it, test } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { cli } from '../support/cli.ts'
import { blocksOf, pages, read, root } from '../support/pages.ts'

describe('links', () => {
  let packed: ReadonlySet<string>
  beforeAll(() => {
    const output = execFileSync('npm', ['pack', '--dry-run', '--ignore-scripts', '--json'], {
      cwd: root,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    packed = new Set(filesIn(JSON.parse(output)))
  })

  it('lead to a page or a heading that exists', () => {
    expect(pages()).toEqual(expect.arrayContaining(['README.md', 'docs/brokers/nats.md']))
    expect(links().filter((link) => !leadsSomewhere(link))).toEqual([])
  })

  it('of pages in the package lead to files in the package', () => {
    expect([...packed]).toEqual(expect.arrayContaining(['README.md', 'docs/README.md', 'examples/quick-start.ts']))
    const inPackage = (path: string): boolean =>
      packed.has(path) || [...packed].some((file) => file.startsWith(`${path}/`))
    const broken = links().filter(({ page, path }) => packed.has(page) && !inPackage(path))
    expect(broken).toEqual([])
  })

  it('lead to every page of docs from its index', () => {
    const listed = new Set(
      links()
        .filter(({ page }) => page === 'docs/README.md')
        .map(({ path }) => path),
    )
    const missing = pages().filter((page) => /^docs\/(?!README|decisions\/)/.test(page) && !listed.has(page))
    expect(missing).toEqual([])
  })

  it('number decisions without gaps, in the name of the file and in the heading', () => {
    const decisions = pages().filter((page) => page.startsWith('docs/decisions/'))
    const numbers = decisions.map((page) => [Number(page.slice(15, 19)), Number(/^# (\d+)\. /.exec(read(page))?.[1])])
    expect(numbers).toEqual(decisions.map((_, index) => [index + 1, index + 1]))
  })
})

describe('commands', () => {
  it('that the pages show exist, with the options that they are shown with', async () => {
    const shown = pages()
      .filter((page) => page !== 'CHANGELOG.md')
      .flatMap((page) => commandsOn(page))
    expect(shown.length).toBeGreaterThan(40)
    const wrong: string[] = []
    for (const { page, words } of shown) {
      if (!(await isCommand(words))) wrong.push(`${page}: hapax ${words.join(' ')}`)
    }
    expect(wrong).toEqual([])
  })

  it('are checked to the last option', async () => {
    expect(await isCommand(['failed', 'retry', '12', '--rate', '5'])).toBe(true)
    expect(await isCommand(['failed', 'retry', '12', '--speed', '5'])).toBe(false)
    expect(await isCommand(['failed', 'revive', '12'])).toBe(false)
    expect(await isCommand(['fail'])).toBe(false)
  })
})

/** The options that the code knows: a refusal lists them. */
const base = { store: memory(), source: '/test' }
const hapax = createHapax(base)
const Tested = defineMessage<object>('tested')
const SECRET = '0123456789abcdef01234567'
const entryPoints: readonly (readonly [page: string, what: string, refused: (options: never) => unknown])[] = [
  ['docs/configuration.md', 'createHapax', (options) => createHapax({ ...base, ...(options as object) })],
  ['docs/consumers.md', 'consumer', (options) => hapax.consumer('a', options)],
  ['docs/consumers.md', 'consumer.on', (options) => hapax.consumer('b').on(Tested, () => {}, options)],
  ['docs/leased.md', 'leased', (options) => hapax.leased('c', options)],
  ['docs/deployment.md', 'worker', (options) => hapax.worker(options)],
  ['docs/http.md', 'toNode', (options) => toNode(() => new Response(), options)],
  ['docs/webhooks.md', 'webhooks', (options) => webhooks(options)],
  ['docs/webhooks.md', 'webhook', (options) => webhook(slack(SECRET), options)],
  ['docs/webhooks.md', 'stripe', (options) => stripe({ secrets: SECRET, ...(options as object) })],
  ['docs/webhooks.md', 'standardWebhooks', (options) => standardWebhooks({ secrets: SECRET, ...(options as object) })],
  ['docs/webhooks.md', 'twilio', (options) => twilio({ secrets: SECRET, ...(options as object) })],
  ['docs/webhooks.md', 'shopify', (options) => shopify({ secrets: SECRET, ...(options as object) })],
  ['docs/webhooks.md', 'hmac', (options) => hmac(options)],
  ['docs/publishing.md', 'defineMessage', (options) => defineMessage('a', options)],
  ['docs/publishing.md', 'publish', (options) => hapax.transaction((tx) => hapax.publish(tx, Tested, {}, options))],
]

test.for(entryPoints)('%s describes every option of %s', async ([page, , refused]) => {
  const text = read(page)
  const names = await optionsOf(refused)
  expect(names.length).toBeGreaterThan(0)
  expect(names.filter((name) => !text.includes(`\`${name}\``))).toEqual([])
})

test('docs/configuration.md lists every event', () => {
  const names = eventNames()
  expect(names.length).toBeGreaterThan(15)
  expect(names.filter((name) => !read('docs/configuration.md').includes(`\`${name}\``))).toEqual([])
})

test('the scripts that pages name exist', () => {
  const named = pages().flatMap((page) => [...read(page).matchAll(/\bnpm run ([a-z:]+)/g)].map(([, name = '']) => name))
  expect(named.length).toBeGreaterThan(10)
  expect(named.filter((name) => !(name in manifest.scripts))).toEqual([])
})

function eventNames(): readonly string[] {
  try {
    hapax.events.on('misspelt' as never, () => {})
  } catch (error) {
    return /one of (.*), got/.exec(String(error))?.[1]?.split(', ') ?? []
  }
  return []
}

async function optionsOf(refused: (options: never) => unknown): Promise<readonly string[]> {
  try {
    await refused({ misspelt: true } as never)
  } catch (error) {
    if (!(error instanceof HapaxError)) throw error
    const list = /with the options ([^.]*?), got/.exec(error.message)?.[1] ?? ''
    return list.split(', ')
  }
  return []
}

interface Link {
  readonly page: string
  /** From the root of the repository. */
  readonly path: string
  readonly heading: string | undefined
}

function links(): readonly Link[] {
  return pages().flatMap((page) =>
    [...read(page).matchAll(/\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)/g)].map(([, target = '', heading]) => ({
      page,
      path: target === '' ? page : normalize(join(dirname(page), target)).replace(/\/$/, ''),
      heading,
    })),
  )
}

function leadsSomewhere({ path, heading }: Link): boolean {
  if (!existsSync(join(root, path))) return false
  return heading === undefined || headingsOf(path).includes(heading)
}

/** The names by which headings are linked to, as GitHub makes them. */
function headingsOf(path: string): readonly string[] {
  return [...read(path).matchAll(/^#{1,6} (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  )
}

function filesIn(output: readonly { readonly files: readonly { readonly path: string }[] }[]): readonly string[] {
  return output.flatMap(({ files }) => files.map(({ path }) => path))
}

interface Shown {
  readonly page: string
  readonly words: readonly string[]
}

/** Command lines in blocks, and those named in the text. */
function commandsOn(page: string): readonly Shown[] {
  const blocks = blocksOf(page).filter(({ language }) => language === 'sh' || language === '')
  const lines = blocks.flatMap(({ code }) => [...code.replaceAll('\\\n', ' ').matchAll(/\bnpx hapax ([^\n|>]*)/g)])
  const inline = [...read(page).matchAll(/`(?:npx )?hapax ([a-z][^`]*)`/g)]
  return [...lines, ...inline].map(([, line = '']) => ({ page, words: wordsOf(line) }))
}

function wordsOf(line: string): readonly string[] {
  const words = line
    .replaceAll('\n', ' ')
    .replace(/\s#.*$/, '')
    .match(/'[^']*'|"[^"]*"|\S+/g)
  return (words ?? []).map((word) => word.replaceAll(/^['"[(]|['",;\])]$/g, ''))
}

async function isCommand(words: readonly string[]): Promise<boolean> {
  const path: string[] = []
  let help = await helpOf([])
  for (const word of words) {
    const commands = commandsIn(help)
    if (commands.length === 0) break
    if (!commands.includes(word)) return false
    path.push(word)
    help = await helpOf(path)
  }
  const options = words.filter((word) => word.startsWith('--')).map((word) => word.replace(/=.*/, ''))
  return path.length > 0 && options.every((option) => new RegExp(`${option}\\b`).test(help))
}

const helps = new Map<string, string>()

async function helpOf(path: readonly string[]): Promise<string> {
  const known = helps.get(path.join(' '))
  if (known !== undefined) return known
  const { stdout } = await cli([...path, '--help'])
  helps.set(path.join(' '), stdout)
  return stdout
}

function commandsIn(help: string): readonly string[] {
  const list = /^Commands:\n((?: .*\n)+)/m.exec(help)?.[1] ?? ''
  return [...list.matchAll(/^ {2}([a-z]+)/gm)].map(([, name = '']) => name)
}
