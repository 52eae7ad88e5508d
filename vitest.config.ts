import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { configDefaults, defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { FailedLast } from './test/support/failed-last.ts'
import { leftOut } from './test/support/narrowing.ts'
import { leftToOtherRun, startOrder } from './test/support/runs.ts'

const conditions = ['hapax-source']
/** A person watches. Otherwise a log is kept, perhaps only a part of it: passing tests would be in the way of failed ones. */
const watched = process.stdout.isTTY

/** Starts the longest files first, whatever their project; the rest as Vitest does. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    return sorted.sort((a, b) => startOrder(a.moduleId) - startOrder(b.moduleId))
  }
}

export default defineConfig({
  // `import … from 'hapax'` means the sources, here and in the processes that tests start.
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    execArgv: ['--conditions=hapax-source'],
    // For the processes that tests start: a cached compilation makes a start three times as fast.
    env: { NODE_COMPILE_CACHE: join(tmpdir(), 'hapax-compile-cache') },
    exclude: [...configDefaults.exclude, ...leftOut(), ...leftToOtherRun(import.meta.dirname)],
    pool: 'forks',
    // More than two processors: most files wait for servers, or for processes of their own, most of the time.
    maxWorkers: Math.max(4, availableParallelism()),
    sequence: { sequencer: LongestFirst },
    reporters: [watched ? 'default' : 'minimal', new FailedLast({ progress: !watched })],
    // What is left of a file may be nothing where stores or brokers are left out.
    passWithNoTests: leftOut().length > 0,
    // All three are longer than anything takes that is not stuck, on a busy machine: a test may wait for several conditions in turn.
    testTimeout: 240_000,
    hookTimeout: 240_000,
    expect: { poll: { timeout: 100_000 } },
    retry: 0,
    coverage: { provider: 'v8', include: ['src/**/*.ts'] },
    projects: [
      // In one process, because half of the time went into new ones: these tests leave nothing behind.
      { extends: true, test: { name: 'unit', include: ['test/unit/**/*.test.ts'], isolate: false } },
      { extends: true, test: { name: 'simulator', include: ['test/simulator/**/*.test.ts'] } },
      { extends: true, test: { name: 'stores', include: ['test/stores/**/*.test.ts'] } },
      { extends: true, test: { name: 'connections', include: ['test/connections/**/*.test.ts'] } },
      { extends: true, test: { name: 'brokers', include: ['test/brokers/**/*.test.ts'] } },
      {
        extends: true,
        test: {
          name: 'console',
          include: ['test/console/**/*.test.ts'],
          globalSetup: ['test/support/console/built.ts'],
        },
      },
      { extends: true, test: { name: 'faults', include: ['test/faults/**/*.test.ts'] } },
      {
        extends: true,
        test: {
          name: 'packed',
          include: ['test/packed/**/*.test.ts'],
          globalSetup: ['test/packed/setup.ts'],
          testTimeout: 240_000,
        },
      },
    ],
  },
})
