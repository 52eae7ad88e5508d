import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

const conditions = ['hapax-source']

export default defineConfig({
  // `import … from 'hapax'` means the sources, here and in the processes that tests start.
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    execArgv: ['--conditions=hapax-source'],
    pool: 'forks',
    maxWorkers: Math.max(2, availableParallelism()),
    testTimeout: 60_000,
    hookTimeout: 60_000,
    retry: 0,
    coverage: { provider: 'v8', include: ['src/**/*.ts'] },
    projects: [
      { extends: true, test: { name: 'unit', include: ['test/unit/**/*.test.ts'] } },
      { extends: true, test: { name: 'simulator', include: ['test/simulator/**/*.test.ts'] } },
      { extends: true, test: { name: 'stores', include: ['test/stores/**/*.test.ts'] } },
      { extends: true, test: { name: 'brokers', include: ['test/brokers/**/*.test.ts'] } },
      { extends: true, test: { name: 'faults', include: ['test/faults/**/*.test.ts'] } },
    ],
  },
})
