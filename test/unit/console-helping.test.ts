import { expect, it, vi } from 'vitest'
import type { ConsoleHapax } from '../../src/console/hapax.ts'
import { Helping } from '../../src/console/helping.ts'

/** A hapax whose operations are in these states, and the signals of those who work on them. */
function hapaxWith(states: Map<string, string>): { hapax: ConsoleHapax; working: AbortSignal[] } {
  const working: AbortSignal[] = []
  const operations = {
    get: async (id: string) => (states.has(id) ? { state: states.get(id) } : undefined),
    work: ({ signal }: { signal: AbortSignal }) => {
      working.push(signal)
      return new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
    },
  }
  return { hapax: { operations } as unknown as ConsoleHapax, working }
}

it('a console works on operations until those that it began have ended, whatever their ids say about their age', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  try {
    const states = new Map([
      ['0000-yesterday', 'running'],
      ['ffff-tomorrow', 'running'],
    ])
    const { hapax, working } = hapaxWith(states)
    const helping = new Helping(hapax, () => {})
    for (const id of states.keys()) helping.begin(id)
    for (const id of ['ffff-tomorrow', '0000-yesterday']) {
      await vi.advanceTimersByTimeAsync(10_000)
      expect(working.map(({ aborted }) => aborted)).toEqual([false])
      states.set(id, 'done')
    }
    await vi.advanceTimersByTimeAsync(10_000)
    expect(working.map(({ aborted }) => aborted)).toEqual([true])
    // A later one is worked on again.
    states.set('0000-yesterday', 'running')
    helping.begin('0000-yesterday')
    expect(working.map(({ aborted }) => aborted)).toEqual([true, false])
    await helping.close()
    expect(working.map(({ aborted }) => aborted)).toEqual([true, true])
  } finally {
    vi.useRealTimers()
  }
})
