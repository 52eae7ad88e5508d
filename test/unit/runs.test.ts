import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { memory } from 'hapax/memory'
import { storeSupport } from 'hapax/testing'
import { afterEach, expect, test, vi } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import {
  currentRun,
  divided,
  inThisRun,
  leftToOtherRun,
  longest,
  oneInTest,
  onlyInFaults,
  onlyOnServers,
  type Run,
} from '../support/runs.ts'
import { connectionTopics } from '../support/store-suite.ts'

const root = join(import.meta.dirname, '..', '..')
const read = (path: string): string => readFileSync(join(root, path), 'utf8')
const filesOf = (...patterns: string[]): string[] =>
  globSync(patterns, { cwd: root }).map((path) => path.replaceAll('\\', '/'))
const testFiles = filesOf('test/**/*.test.ts')

afterEach(() => {
  vi.unstubAllEnvs()
})

/** The files of the projects that a command runs; of these, `npm run check` runs the unit tests. */
function filesOfProjects(run: Run): string[] {
  const command = manifest.scripts[run].replace('npm run check', '--project unit')
  const names = [...command.matchAll(/--project (\S+)/g)].map(([, name]) => name)
  const projects = [...read('vitest.config.ts').matchAll(/name: '([^']+)',\s+include: \['([^']+)'\]/g)]
  return projects.filter(([, name]) => names.includes(name)).flatMap(([, , pattern = '']) => filesOf(pattern))
}

function filesIn(run: Run): Set<string> {
  vi.stubEnv('HAPAX_TEST_RUN', run)
  const left = new Set(filesOf(...leftToOtherRun(root)))
  vi.unstubAllEnvs()
  return new Set(filesOfProjects(run).filter((file) => !left.has(file)))
}

const onServers = new Set(filesOf(...onlyOnServers))
const [inTest, inFaults] = [filesIn('test'), filesIn('test:faults')]

test.for(testFiles)('%s is run by npm test, by npm run test:faults, by both, or by test:servers', (file) => {
  expect(inTest.has(file) || inFaults.has(file)).toBe(!onServers.has(file))
  // A file that divides its tests needs both; any other one is in one of them.
  expect(inTest.has(file) && inFaults.has(file)).toBe(divided.includes(file))
})

test('the files that divide their tests between the runs are listed', () => {
  const dividing = testFiles.filter((file) => /\b(inThisRun|oneInTest|runPair)[<(]/.test(read(file)))
  expect(dividing.filter((file) => file !== 'test/unit/runs.test.ts').sort()).toEqual([...divided].sort())
})

test('the lists name files that exist', () => {
  expect([...divided, ...longest].filter((file) => !testFiles.includes(file))).toEqual([])
  expect([...onlyInFaults, ...onlyOnServers].filter((pattern) => filesOf(pattern).length === 0)).toEqual([])
})

test('nothing else asks which of the runs it is', () => {
  const asking = filesOf('{test,scripts,src}/**/*.ts', 'vitest.config.ts').filter((file) =>
    /HAPAX_TEST_RUN|currentRun/.test(read(file)),
  )
  expect(asking.sort()).toEqual(['test/support/runs.ts', 'test/unit/runs.test.ts'])
})

test('both runs are a part of the integration run', () => {
  expect(read('.ci/run')).toMatch(/^npm test\nnpm run test:faults$/m)
})

const all = [1, 2, 3, 4, 5]

test('the two runs share out everything, and nothing twice', () => {
  const taken = (run: Run | undefined): number[] => {
    vi.stubEnv('HAPAX_TEST_RUN', run)
    return inThisRun(all, (each) => each < 3)
  }
  expect([taken('test'), taken('test:faults'), taken(undefined)]).toEqual([[1, 2], [3, 4, 5], all])
})

test.for<[list: number[], wanted: number, test: number[], faults: number[]]>([
  [all, 4, [4], [1, 2, 3, 5]],
  [all, 9, [1], [2, 3, 4, 5]],
  [[], 4, [], []],
])('of %j, with %i wanted, npm test takes %j and npm run test:faults %j', ([list, wanted, ...expected]) => {
  const taken = (run: Run): number[] => {
    vi.stubEnv('HAPAX_TEST_RUN', run)
    return oneInTest(list, wanted)
  }
  expect([taken('test'), taken('test:faults')]).toEqual(expected)
})

test('a run that is none is refused', () => {
  expect(() => currentRun('quick')).toThrow(`expected HAPAX_TEST_RUN to be 'test' or 'test:faults', got 'quick'`)
  expect([currentRun(''), currentRun('test')]).toEqual([undefined, 'test'])
})

test('the topics about the way to a database are topics of the suite', () => {
  const support = storeSupport({ ...memory().features, errorsAbort: false, cannot: {} })
  const topics = new Set(support.map(({ topic }) => topic))
  expect(connectionTopics.filter((topic) => !topics.has(topic))).toEqual([])
})
