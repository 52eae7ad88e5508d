import assert from 'node:assert/strict'

/** Longer than anything takes that is not stuck, on a busy machine; shorter than a test runner waits. */
const DEADLINE_MS = 40_000

/** Waits until something holds; fails with these words when it never does. */
export async function until(
  holds: () => Promise<boolean> | boolean,
  what: string | (() => string) = 'what was waited for',
): Promise<void> {
  const end = performance.now() + DEADLINE_MS
  while (!(await holds())) {
    if (performance.now() > end) assert.fail(`not in time: ${typeof what === 'string' ? what : what()}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

/** What a promise gives; fails with these words when it never settles. */
export async function settled<T>(promise: Promise<T>, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new assert.AssertionError({ message: `not in time: ${what}` })), DEADLINE_MS)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

/** A promise that is resolved from outside. */
export interface Gate {
  readonly passed: Promise<void>
  open(): void
}

export function gate(): Gate {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { passed: promise, open: resolve }
}
