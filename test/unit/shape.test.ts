import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'
import { classesIn } from '../../scripts/shape/classes.ts'
import { contractsOf } from '../../scripts/shape/contracts.ts'
import { type Figure, isMet, sourceFigures } from '../../scripts/shape/figures.ts'
import { castsIn, countLines, functions } from '../../scripts/shape/lines.ts'
import { exportedNames, twoMeanings } from '../../scripts/shape/names.ts'
import { production, readTree, type Source, type Tree } from '../../scripts/shape/sources.ts'

const directories: string[] = []

afterAll(() => {
  for (const directory of directories) rmSync(directory, { recursive: true, force: true })
})

/** Writes files to a directory of their own. */
function written(files: Record<string, string>): string {
  const root = mkdtempSync(join(tmpdir(), 'hapax-shape-test-'))
  directories.push(root)
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  return root
}

function treeOf(files: Record<string, string>): Tree {
  return readTree(written(files))
}

function parsed(text: string): Source {
  const source = treeOf({ 'src/a.ts': text }).get('src/a.ts')
  if (source === undefined) throw new Error('src/a.ts was not read')
  return source
}

function figure(figures: readonly Figure[], name: string): Figure {
  const found = figures.find((each) => each.name === name)
  if (found === undefined) throw new Error(`no figure is called ${name}`)
  return found
}

describe('lines', () => {
  it('are blank, comment or code', () => {
    const text = `#!/usr/bin/env node\n/** What.\n\n * Why. */\n\nconst a = 1 // one\n  // alone\nconst b = \`\n// text\n\`\n`
    expect(countLines(parsed(text))).toEqual({ total: 10, blank: 2, comment: 3, code: 5 })
  })

  it('of a function are those from its first to its last, under its name', () => {
    const text = `function a() {\n  return 1\n}\nconst b = () => 2\nclass C {\n  #d(): void {\n    a()\n  }\n}\n`
    expect(functions(parsed(text))).toEqual([
      { place: 'a (src/a.ts:1)', lines: 3 },
      { place: 'b (src/a.ts:4)', lines: 1 },
      { place: '#d (src/a.ts:6)', lines: 3 },
    ])
  })
})

it('counts casts, not as const, and non-null assertions apart', () => {
  const text = `const a = b as C\nconst d = [1] as const\nconst e = f as unknown as\n  G\nconst h = <I>j\nconst k = l!.m\n// n as O\n`
  expect(castsIn(parsed(text))).toEqual({ casts: [1, 4, 3, 5], nonNull: [6] })
})

describe('classes without mutable state', () => {
  const stateless = [
    'class A { readonly b = 1; #c; constructor(c) { this.#c = c } d() { return this.#c } }',
    'class A { static count = 0; grow() { A.count++ } }',
    'class A { readonly #b = new Date(); c() { const { d } = this.#b; return d } }',
  ]
  const stateful = [
    'class A { #b = 0; c() { this.#b++ } }',
    'class A { #b = 0; c() { [this.#b] = [1] } }',
    'class A { #b; constructor(on) { on(() => { this.#b = 1 }) } }',
    'class A { b = 1 }',
    'class A { readonly #b = new Map() }',
    'class A { readonly #b: string[] = [] }',
    'class A { #b = 0; c = () => { this.#b ||= 1 } }',
    'class A extends B { readonly b = 1 }',
  ]

  it.for(stateless)('has %s', (text) => {
    expect(classesIn(parsed(text))).toEqual({ all: 1, stateless: ['A (src/a.ts:1)'] })
  })

  it.for(stateful)('has not %s', (text) => {
    expect(classesIn(parsed(text))).toEqual({ all: 1, stateless: [] })
  })
})

describe('names', () => {
  const tree = treeOf({
    'src/index.ts': `export { a, type B as C } from './deep/one.ts'\nexport type * from './deep/two.ts'\nexport * as three from './deep/one.ts'\nexport const own = 1, other = 2\n`,
    'src/deep/one.ts': `export const a = 1\nexport interface B {}\nexport function hidden() {}\n`,
    'src/deep/two.ts': `export * from './four.ts'\nexport type D = string\ntype Local = number\ninterface B {}\nexport type { B as E }\nexport default 1\n`,
    'src/deep/four.ts': `export * from './two.ts'\nexport function f(): void\nexport function f() {}\nexport class B {}\n`,
  })

  it('are what can be imported, with export * resolved', () => {
    const index = tree.get('src/index.ts')
    const names = index && [...exportedNames(tree, index)].sort()
    expect(names).toEqual(['B', 'C', 'D', 'E', 'a', 'f', 'other', 'own', 'three'])
  })

  it('have two meanings if two files declare and export them', () => {
    expect([...twoMeanings(production(tree))]).toEqual([['B', ['src/deep/four.ts', 'src/deep/one.ts']]])
  })
})

describe('contracts', () => {
  const whole = `import type { Tools } from './tools.ts'
    export interface Store<Tx> extends Tools, Omit<Other, 'gone'> {
      readonly features: { name: string }
      take(tx: Tx): void
      take(tx: Tx, again: boolean): void
      readonly close: () => Promise<void>
    }
    interface Other { gone(): void; kept(): void }
    export interface Entered { leave(): void }
    export interface Row { seq: string }`

  it('count what they inherit as their own', () => {
    const tree = treeOf({ 'src/x/store.ts': whole, 'src/x/tools.ts': 'export interface Tools { list(): void }' })
    const { found, interfaces, missing } = contractsOf(tree, production(tree))
    expect(found).toEqual([
      { name: 'Store', path: 'src/x/store.ts', methods: 4, parts: [{ name: 'Store', methods: 4 }] },
    ])
    expect(interfaces.map(({ name, methods }) => `${name} ${methods}`)).toEqual(['Store 4', 'Entered 1', 'Tools 1'])
    expect(missing).toEqual(['Dialect', 'Connection', 'Destination', 'Subscription', 'ClaimStore'])
  })

  const parts = {
    'src/contracts/index.ts': `export type * from './inbox.ts'`,
    'src/contracts/inbox.ts':
      'export interface Inbox { look(): void; claim(): void; readonly effects: Journal }\nexport type Journal = { begin(): void; end(): void; list(): void }',
    'src/contracts/store.ts': `import type { Inbox as InboxPart } from './index.ts'
      export interface Store { readonly features: Features; readonly inbox: InboxPart; readonly again: InboxPart; close(): void }
      export interface ClaimStore { readonly one: Pick<Store, 'close'>; readonly two: Pick<Store, 'close'>; readonly signal: AbortSignal; claim(): void }
      interface Features { readonly name: string; readonly like: Features }`,
  }

  it('follow their properties to their parts, through imports, and count each part once', () => {
    const tree = treeOf(parts)
    const { found } = contractsOf(tree, production(tree))
    expect(
      found.map(({ name, methods, parts: all }) => ({ name, methods, parts: all.map((part) => part.name) })),
    ).toEqual([
      { name: 'Store', methods: 6, parts: ['Journal', 'Inbox', 'Store'] },
      { name: 'ClaimStore', methods: 3, parts: ['ClaimStore', 'ClaimStore.one', 'ClaimStore.two'] },
    ])
  })
})

describe('figures', () => {
  const files = Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`src/a/${n}.ts`, 'export {}\n']))
  const figures = sourceFigures(
    treeOf({
      ...files,
      'src/a/b/deeper.ts': '// Why.\nconst a = b as C\n',
      'src/testing/kit.ts': 'const a = b as C\n',
      'src/testing/kit2.ts': '',
    }),
  )

  it('name the largest folder, and count the kit apart', () => {
    const largest = figure(figures, 'files in the largest folder')
    expect(largest).toMatchObject({ value: 17, of: 'src/a', details: ['17  src/a'] })
    expect(isMet(largest)).toBe(false)
    expect(figure(figures, 'the same in the testing kit')).toMatchObject({ value: 2, of: 'src/testing' })
  })

  it('are of the production sources', () => {
    expect(figure(figures, 'casts per 1,000 lines')).toMatchObject({ value: 52.6, of: '1 in all' })
    expect(figure(figures, 'comment lines per code line').value).toBe(0.06)
    expect(figure(figures, 'lines without the testing kit').value).toBe(19)
  })

  it('treat a name that sibling drivers share as one meaning', () => {
    const rows = 'export const one = 1\nexport const two = 2\n'
    const drivers = { 'src/stores/a/sql/rows.ts': rows, 'src/stores/b/sql/rows.ts': rows }
    const names = sourceFigures(treeOf({ ...drivers, 'src/stores/b/sql/texts.ts': 'export const two = 2\n' }))
    expect(figure(names, 'exported names with two meanings')).toMatchObject({
      value: 1,
      of: '1 more in the same file of sibling folders',
      details: [expect.stringMatching(/^two: /), expect.stringMatching(/^one: /)],
    })
  })

  it('miss their target if there is nothing to measure', () => {
    const store = figure(figures, 'methods of Store in all')
    expect(store.value).toBeUndefined()
    expect(isMet(store)).toBe(false)
  })

  it.for([
    [{ atMost: 4 }, 4, 4.1],
    [{ atLeast: 0.2 }, 0.2, 0.19],
    [{ below: 10 }, 9, 10],
  ] as const)('are met or not: %o', ([target, good, bad]) => {
    expect(isMet({ name: '', value: good, target, details: [] })).toBe(true)
    expect(isMet({ name: '', value: bad, target, details: [] })).toBe(false)
  })
})

it('tells the files in which a function ran, in a process of its own', () => {
  const root = written({
    'src/one.ts': `import { two } from './two.ts'\nimport './three.ts'\nexport const one = (): number => two()\n`,
    'src/two.ts': 'export function two(): number { return 2 }\nexport function other(): void {}\n',
    'src/three.ts': 'export function three(): number { return 3 }\nthree()\n',
    'main.ts': `
      const { Touched } = await import(${JSON.stringify(pathToFileURL(join(import.meta.dirname, '../../scripts/shape/touched.ts')))})
      const touched = new Touched(import.meta.dirname + '/src')
      const { one } = await import('./src/one.ts')
      const sets = [touched.take(), touched.take()]
      one()
      sets.push(touched.take())
      console.log(JSON.stringify(sets.map((set) => [...set].sort())))`,
  })
  const output = execFileSync(process.execPath, ['--no-warnings', join(root, 'main.ts')], { encoding: 'utf8' })
  expect(JSON.parse(output)).toEqual([['one.ts', 'three.ts', 'two.ts'], [], ['one.ts', 'two.ts']])
})
