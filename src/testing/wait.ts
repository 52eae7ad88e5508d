import assert from 'node:assert/strict'

/** Longer than anything takes on a busy machine unless it is stuck; shorter than the time-out of a test runner. */
const DEADLINE_MS = 100_000
/** On a busy machine a single check may take longer than that. */
const FEWEST_CHECKS = 3

/** Waits until a condition holds; fails with these words if it does not in time. */
export async function until(
  holds: () => Promise<boolean> | boolean,
  what: string | (() => string) = 'what was waited for',
): Promise<void> {
  const end = performance.now() + DEADLINE_MS
  for (let checks = 1; !(await holds()); checks++) {
    if (performance.now() > end && checks >= FEWEST_CHECKS)
      assert.fail(`not in time: ${typeof what === 'string' ? what : what()}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

/** Resolves as the promise does; fails with these words if it does not settle in time. */
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

/** Creates a closed gate. */
export function gate(): Gate {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { passed: promise, open: resolve }
}
