import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const example = join(root, 'examples/quick-start.ts')

test('the quick start of the README is the example that runs', () => {
  const readme = readFileSync(join(root, 'README.md'), 'utf8')
  const shown = /<!-- quick-start[^\n]*-->\n```ts\n([\s\S]*?)```/.exec(readme)?.[1]
  expect(shown).toBe(readFileSync(example, 'utf8'))
})

test('the quick start prints what its comments say, also when it is run a second time', () => {
  const folder = mkdtempSync(join(tmpdir(), 'hapax-quick-start-'))
  const run = (): string[] =>
    execFileSync(process.execPath, ['--conditions=hapax-source', example], { cwd: folder, encoding: 'utf8' })
      .trim()
      .split('\n')
  try {
    expect(run()).toEqual(['processed', 'duplicate', '2'])
    expect(run()).toEqual(['duplicate', 'duplicate', '3'])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test('the relay example prints what its comment says', () => {
  const folder = mkdtempSync(join(tmpdir(), 'hapax-relay-'))
  try {
    const relay = join(root, 'examples/relay.ts')
    const args = ['--conditions=hapax-source', relay]
    expect(execFileSync(process.execPath, args, { cwd: folder, encoding: 'utf8' })).toBe('A1 v1, A1 v2, A1 v3\n')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test('the SMS example prints what its comments say', () => {
  const folder = mkdtempSync(join(tmpdir(), 'hapax-sms-'))
  try {
    const args = ['--conditions=hapax-source', join(root, 'examples/sms.ts')]
    const lines = execFileSync(process.execPath, args, { cwd: folder, encoding: 'utf8' }).split('\n')
    expect(lines[0]).toBe('without hapax: 1 message, 2 SMS')
    // The log of the failed attempt is between them.
    expect(lines.at(-2)).toBe('with hapax: 1 message, 2 requests, 1 SMS')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test('every call by fetch that is shown says what becomes of a redirect, which would be a second request', () => {
  const examples = readdirSync(join(root, 'examples')).filter((name) => name.endsWith('.ts'))
  const shown = [...pagesIn(root), ...examples.map((name) => join('examples', name))].flatMap((page) =>
    [...readFileSync(join(root, page), 'utf8').matchAll(/\bfetch\((.*)\)/g)].map(([call]) => `${page}: ${call}`),
  )
  expect(shown).toContainEqual(expect.stringMatching(/^docs.leased\.md/))
  expect(shown.filter((call) => !/redirect: '(error|manual)'/.test(call))).toEqual([])
})

test('every link inside the documentation leads somewhere', () => {
  const pages = pagesIn(root)
  // Those in folders are among them.
  expect(pages).toEqual(expect.arrayContaining(['README.md', join('docs', 'brokers', 'nats.md')]))
  expect(pages.flatMap((page) => brokenLinks(page))).toEqual([])
})

/** Every page of the repository, not of the packages that it uses. */
function pagesIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    if (entry.name === 'node_modules' || entry.name.startsWith('.')) return []
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return pagesIn(path)
    return entry.name.endsWith('.md') ? [relative(root, path)] : []
  })
}

/** Links to files that are not there, or to headings that the page does not have. */
function brokenLinks(page: string): string[] {
  const links = readFileSync(join(root, page), 'utf8').matchAll(/\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)/g)
  return [...links].flatMap(([, target = '', heading]) => {
    const path = target === '' ? join(root, page) : join(root, page, '..', target)
    if (existsSync(path) && (heading === undefined || headingsOf(path).includes(heading))) return []
    return [`${page}: ${target}${heading === undefined ? '' : `#${heading}`}`]
  })
}

/** The names by which headings are linked to, as GitHub makes them. */
function headingsOf(path: string): string[] {
  const headings = readFileSync(path, 'utf8').matchAll(/^#{1,6} (.+)$/gm)
  return [...headings].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  )
}
